from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from injector.golang.netip import NET_PREFIXES, NETIP_PREFIXES, parse_prefix
from injector.golang.strconv import atoi, parse_uint
from tests.cases import cases

if TYPE_CHECKING:
    import re

NETIP_WORDS = [
    ("10.0.0.0", "no '/'"),
    ("", "no '/'"),
    ("abc/8", 'ParseAddr("abc"): unable to parse IP'),
    ("/8", 'ParseAddr(""): unable to parse IP'),
    ("*/8", 'ParseAddr("*"): unable to parse IP'),
    ("1.2.3/8", 'ParseAddr("1.2.3"): IPv4 address too short'),
    ("1.2.3.4.5/8", 'ParseAddr("1.2.3.4.5"): IPv4 address too long'),
    ("256.1.1.1/8", 'ParseAddr("256.1.1.1"): IPv4 field has value >255'),
    ("01.1.1.1/8", 'ParseAddr("01.1.1.1"): IPv4 field has octet with leading zero'),
    ("1..1.1/8", 'ParseAddr("1..1.1"): IPv4 field must have at least one digit (at ".1.1")'),
    ("1.1.1./8", 'ParseAddr("1.1.1."): IPv4 field must have at least one digit (at ".")'),
    ("1.x.1.1/8", 'ParseAddr("1.x.1.1"): unexpected character (at "x.1.1")'),
    ("%eth0/8", 'ParseAddr("%eth0"): missing IPv6 address'),
    ("::1%/8", 'ParseAddr("::1%"): zone must be a non-empty string'),
    ("1:2/8", 'ParseAddr("1:2"): address string too short'),
    ("12345::/8", 'ParseAddr("12345::"): each group must have 4 or less digits (at "12345::")'),
    (":1/8", 'ParseAddr(":1"): each colon-separated field must have at least one digit (at ":1")'),
    ("1:x/8", 'ParseAddr("1:x"): each colon-separated field must have at least one digit (at "x")'),
    ("1x:2/8", 'ParseAddr("1x:2"): unexpected character, want colon (at "x:2")'),
    ("1:2:/8", 'ParseAddr("1:2:"): colon must be followed by more characters (at ":")'),
    ("1::2::3/8", 'ParseAddr("1::2::3"): multiple :: in address (at ":3")'),
    ("1:2:3:4:5:6:7:8:9/8", 'ParseAddr("1:2:3:4:5:6:7:8:9"): trailing garbage after address (at "9")'),
    ("1:2:3:4:5:6:7::8/8", 'ParseAddr("1:2:3:4:5:6:7::8"): the :: must expand to at least one field of zeros'),
    (
        "1:1.2.3.4/8",
        'ParseAddr("1:1.2.3.4"): embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")',
    ),
    (
        "::2:3:4:5:6:7:8:1.2.3.4/8",
        (
            'ParseAddr("::2:3:4:5:6:7:8:1.2.3.4"): '
            'too many hex fields to fit an embedded IPv4 at the end of the address (at "1.2.3.4")'
        ),
    ),
    ("::1.2.3.256/8", 'ParseAddr("::1.2.3.256"): IPv4 field has value >255'),
    (f"10.0.0.0/{'9' * 5000}", f'bad bits after slash: "{"9" * 5000}"'),
    ("fe80::1%eth0/64", "IPv6 zones cannot be present in a prefix"),
    ("10.0.0.0/", 'bad bits after slash: ""'),
    ("10.0.0.0/x", 'bad bits after slash: "x"'),
    ("10.0.0.0/-1", 'bad bits after slash: "-1"'),
    ("10.0.0.0/+8", 'bad bits after slash: "+8"'),
    ("10.0.0.0/08", 'bad bits after slash: "08"'),
    ("10.0.0.0/00", 'bad bits after slash: "00"'),
    ("10.0.0.0/33", "prefix length out of range"),
    ("::/129", "prefix length out of range"),
]


@pytest.mark.parametrize("netip", [True, False])
@cases("text")
def test_a_range_is_an_address_and_a_length(text: str, netip: bool) -> None:
    assert parse_prefix(text, netip=netip) == ""


def random_range(dice: random.Random) -> str:
    """A range that is often valid, and often nearly so."""
    ipv4 = ".".join(str(dice.choice((0, 1, 9, 10, 99, 100, 199, 249, 250, 255, 255, 256, "01", ""))) for _ in range(4))
    groups = [dice.choice(("0", "f", "12", "abc", "FFFF", "12345", "")) for _ in range(dice.randrange(9))]
    if dice.random() < 0.5 and groups:
        groups[dice.randrange(len(groups))] = ""
    ipv6 = ":".join(["", *groups] if dice.random() < 0.2 else groups) + dice.choice(("", "", "", ":", "::", f":{ipv4}"))
    length = dice.choice(("0", "8", "08", "32", "33", "64", "99", "100", "119", "120", "128", "129", "000", "", "+1"))
    text = f"{dice.choice((ipv4, ipv6, ipv6, '1.2.3.4', '2001:db8::'))}/{length}"
    if dice.random() < 0.1:
        at = dice.randrange(len(text))
        text = text[:at] + dice.choice(":./%0\u0661 \ng*") + text[at + 1 :]
    return text


@pytest.mark.parametrize(("pattern", "netip"), [(NETIP_PREFIXES, True), (NET_PREFIXES, False)])
def test_the_pattern_of_ranges_accepts_what_the_parser_accepts(pattern: re.Pattern[str], netip: bool) -> None:
    dice = random.Random(5)  # noqa: S311 -- inputs of a test
    outcomes: Counter[bool] = Counter()

    for _ in range(60_000):
        text = random_range(dice)
        valid = parse_prefix(text, netip=netip) == ""
        outcomes[valid] += 1
        assert bool(pattern.fullmatch(f"{text},")) == valid, text

    assert min(outcomes.values()) > 5_000


@pytest.mark.parametrize(("text", "why"), NETIP_WORDS)
def test_an_invalid_range_has_the_error_of_netip(text: str, why: str) -> None:
    assert parse_prefix(text, netip=True) == f'netip.ParsePrefix("{text}"): {why}'


@cases("text")
def test_every_invalid_range_has_the_same_error_in_net(text: str) -> None:
    assert parse_prefix(text, netip=False) == f"invalid CIDR address: {text}"


def test_net_allows_a_length_that_begins_with_zero() -> None:
    assert parse_prefix("10.0.0.0/08", netip=False) == ""


@pytest.mark.parametrize(
    ("text", "bits", "number", "fault"),
    [
        ("0", 16, 0, ""),
        ("00080", 16, 80, ""),
        ("65535", 16, 65535, ""),
        ("65536", 16, 65535, "value out of range"),
        ("65536x", 16, 65535, "value out of range"),
        ("6553x", 16, 0, "invalid syntax"),
        ("", 32, 0, "invalid syntax"),
        ("+1", 32, 0, "invalid syntax"),
        ("1_0", 32, 0, "invalid syntax"),
        ("٣", 32, 0, "invalid syntax"),
        ("0" * 5000 + "7", 32, 7, ""),
        ("7" * 5000, 32, 2**32 - 1, "value out of range"),
    ],
)
def test_an_unsigned_number_is_read_as_strconv_reads_it(text: str, bits: int, number: int, fault: str) -> None:
    said = f'strconv.ParseUint: parsing "{text}": {fault}' if fault else ""
    assert parse_uint(text, bits) == (number, said)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("-9223372036854775808", ""),
        ("+9223372036854775807", ""),
        ("9223372036854775808", "value out of range"),
        ("-9223372036854775809", "value out of range"),
        ("99999999999999999999x", "value out of range"),
        ("1x", "invalid syntax"),
        ("", "invalid syntax"),
        ("-", "invalid syntax"),
        ("--1", "invalid syntax"),
        ("9" * 5000, "value out of range"),
    ],
)
def test_a_signed_number_is_read_as_strconv_reads_it(text: str, fault: str) -> None:
    number, said = atoi(text)
    assert said == (f'strconv.Atoi: parsing "{text}": {fault}' if fault else "")
    assert fault or number == int(text)

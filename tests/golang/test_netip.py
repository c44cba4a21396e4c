from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from injector.golang.netip import NET_PREFIXES, NETIP_PREFIXES, parse_prefix
from injector.golang.strconv import atoi, parse_uint
from tests.cases import cases


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


@cases("text", "why", also=[(f"10.0.0.0/{'9' * 5000}", f'bad bits after slash: "{"9" * 5000}"')])
def test_an_invalid_range_has_the_error_of_netip(text: str, why: str) -> None:
    assert parse_prefix(text, netip=True) == f'netip.ParsePrefix("{text}"): {why}'


@cases("text")
def test_every_invalid_range_has_the_same_error_in_net(text: str) -> None:
    assert parse_prefix(text, netip=False) == f"invalid CIDR address: {text}"


def test_net_allows_a_length_that_begins_with_zero() -> None:
    assert parse_prefix("10.0.0.0/08", netip=False) == ""


@cases(
    "text",
    "bits",
    "number",
    "fault",
    also=[("0" * 5000 + "7", 32, 7, ""), ("7" * 5000, 32, 2**32 - 1, "value out of range")],
)
def test_an_unsigned_number_is_read_as_strconv_reads_it(text: str, bits: int, number: int, fault: str) -> None:
    said = f'strconv.ParseUint: parsing "{text}": {fault}' if fault else ""
    assert parse_uint(text, bits) == (number, said)


@cases("text", "fault", also=[("9" * 5000, "value out of range")])
def test_a_signed_number_is_read_as_strconv_reads_it(text: str, fault: str) -> None:
    number, said = atoi(text)
    assert said == (f'strconv.Atoi: parsing "{text}": {fault}' if fault else "")
    assert fault or number == int(text)

"""IP addresses, as Go's net/netip reads them."""

from __future__ import annotations

import pytest

from injector.golang.netip import parse_prefix
from injector.golang.strconv import atoi, parse_uint
from tests.cases import cases


@pytest.mark.parametrize("netip", [True, False])
@cases("text")
def test_a_range_is_an_address_and_a_length(text: str, netip: bool) -> None:
    assert parse_prefix(text, netip=netip) == ""


@cases("text", "why", also=[(f"10.0.0.0/{'9' * 5000}", f'bad bits after slash: "{"9" * 5000}"')])
def test_an_invalid_range_has_the_error_of_netip(text: str, why: str) -> None:
    assert parse_prefix(text, netip=True) == f'netip.ParsePrefix("{text}"): {why}'


@cases("text")
def test_every_invalid_range_has_the_same_error_in_net(text: str) -> None:
    assert parse_prefix(text, netip=False) == f"invalid CIDR address: {text}"


def test_net_allows_a_length_that_begins_with_zero() -> None:
    assert parse_prefix("10.0.0.0/08", netip=False) == ""


@pytest.mark.parametrize("netip", [True, False])
def test_every_number_of_an_ipv4_range_has_its_limit(netip: bool) -> None:
    for number in range(1100):
        for place in range(4):
            fields = ["0", "9", "99", "255"]
            fields[place] = str(number)
            assert (parse_prefix(f"{'.'.join(fields)}/24", netip=netip) == "") is (number < 256)
        assert (parse_prefix(f"10.0.0.0/{number}", netip=netip) == "") is (number < 33)


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

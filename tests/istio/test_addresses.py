from __future__ import annotations

import pytest

from injector.istio.addresses import parse_prefix, port_fault, proxy_address_fault

NETIP_WORDS = [
    ("10.0.0.0", "no '/'"),
    ("", "no '/'"),
    ("abc/8", 'ParseAddr("abc"): unable to parse IP'),
    ("/8", 'ParseAddr(""): unable to parse IP'),
    ("*/8", 'ParseAddr("*"): unable to parse IP'),
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
@pytest.mark.parametrize(
    "text", ["10.0.0.0/8", "10.1.2.3/8", "0.0.0.0/0", "1.2.3.4/32", "::/0", "2001:db8::/128", "::ffff:1.2.3.4/96"]
)
def test_a_range_is_an_address_and_a_length(text: str, netip: bool) -> None:
    assert parse_prefix(text, netip=netip) == ""


@pytest.mark.parametrize(("text", "why"), NETIP_WORDS)
def test_netip_says_what_is_wrong_with_a_range(text: str, why: str) -> None:
    assert parse_prefix(text, netip=True) == f'netip.ParsePrefix("{text}"): {why}'


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0.0",
        "",
        "abc/8",
        "/8",
        "10.0.0/8",
        "10.0.0.256/8",
        "10.0.0.0/",
        "10.0.0.0/x",
        "10.0.0.0/-1",
        "10.0.0.0/33",
    ],
)
def test_net_has_one_sentence_for_every_bad_range(text: str) -> None:
    assert parse_prefix(text, netip=False) == f"invalid CIDR address: {text}"


def test_net_allows_a_length_that_begins_with_zero() -> None:
    assert parse_prefix("10.0.0.0/08", netip=False) == ""


@pytest.mark.parametrize(
    "text",
    [
        "istiod.istio-system.svc:15012",
        "istiod.istio-system.svc.:15012",
        "zipkin:1",
        "zipkin:65535",
        "1.2.3.4:80",
        "[::1]:80",
        f"{'a' * 63}:80",
        f"{'a.' * 127}a:80",
    ],
)
def test_a_proxy_may_talk_to_a_name_or_an_address_with_a_port(text: str) -> None:
    assert proxy_address_fault(text) == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("zipkin", 'unable to split "zipkin": address zipkin: missing port in address'),
        ("", 'unable to split "": address : missing port in address'),
        ("::1:80", 'unable to split "::1:80": address ::1:80: too many colons in address'),
        ("a:b:80", 'unable to split "a:b:80": address a:b:80: too many colons in address'),
        ("zipkin:", 'port () is not a number: strconv.Atoi: parsing "": invalid syntax'),
        ("zipkin:http", 'port (http) is not a number: strconv.Atoi: parsing "http": invalid syntax'),
        ("zipkin:0", "port number 0 must be in the range 1..65535"),
        ("zipkin:65536", "port number 65536 must be in the range 1..65535"),
        (":80", '"" is not a valid hostname or an IP address'),
        ("foo_bar:80", '"foo_bar" is not a valid hostname or an IP address'),
        ("foo..bar:80", '"foo..bar" is not a valid hostname or an IP address'),
        ("-foo:80", '"-foo" is not a valid hostname or an IP address'),
        ("*.foo:80", '"*.foo" is not a valid hostname or an IP address'),
        (f"{'a' * 64}:80", f'"{"a" * 64}" is not a valid hostname or an IP address'),
        (f"{'a.' * 127}aa:80", f'"{"a." * 127}aa" is not a valid hostname or an IP address'),
    ],
)
def test_istio_says_why_a_proxy_may_not_talk_to_an_address(text: str, why: str) -> None:
    assert proxy_address_fault(text) == why


@pytest.mark.parametrize("port", [1, 15020, 65535])
def test_a_port_has_a_number_that_tcp_knows(port: int) -> None:
    assert port_fault(port) == ""


@pytest.mark.parametrize("port", [-1, 0, 65536])
def test_other_numbers_are_no_ports(port: int) -> None:
    assert port_fault(port) == f"port number {port} must be in the range 1..65535"

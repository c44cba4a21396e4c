"""Packages net and net/netip (Go 1.26): IP addresses, CIDR ranges, host and port."""

from __future__ import annotations

import re
from typing import Final

from injector.golang.strconv import atoi, quote

_HEX = re.compile(r"[0-9a-fA-F]*", re.ASCII)
_BYTE: Final = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
# Nearly all prefixes. A pod's lists may have 12,000 of them, and reading each by its characters takes ten times as long.
_IPV4_PREFIX = re.compile(rf"(?:{_BYTE}\.){{3}}{_BYTE}/(?:3[0-2]|[12]?\d)", re.ASCII)
_IPV4_FIELDS: Final = 4
_IPV4_BITS: Final = 32
_IPV6_BITS: Final = 128
_IPV6_BYTES: Final = 16


class _AddressError(ValueError):
    """An invalid address, with Go's error."""

    def __init__(self, text: str, fault: str, at: str = "") -> None:
        position = f" (at {quote(at)})" if at else ""
        super().__init__(f"ParseAddr({quote(text)}): {fault}{position}")


def parse_prefix(text: str, *, netip: bool) -> str:
    """Return the error of netip.ParsePrefix or net.ParseCIDR for a CIDR range, or an empty text if it is valid."""
    if _IPV4_PREFIX.fullmatch(text):
        return ""
    address, slash, bits = text.rpartition("/")
    head = f"netip.ParsePrefix({quote(text)}): "
    fault = head + "no '/'"
    if slash:
        try:
            parsed = parse_address(address)
            fault = _bits_fault(parsed, bits, strict=netip)
        except _AddressError as error:
            fault = str(error)
        fault = head + fault if fault else ""
    return fault if netip or not fault else f"invalid CIDR address: {text}"


def _bits_fault(address: tuple[int, str], bits: str, *, strict: bool) -> str:
    size, zone = address
    if zone:
        return "IPv6 zones cannot be present in a prefix"
    count, fault = atoi(bits)
    if fault or bits[0] in "+-" or (strict and len(bits) > 1 and bits.startswith("0")):
        return f"bad bits after slash: {quote(bits)}"
    return "" if count <= size else "prefix length out of range"


def parse_address(text: str) -> tuple[int, str]:
    """Parse an address as netip.ParseAddr does; return its bits and its zone. Raises ValueError with Go's text."""
    first = next((char for char in text if char in ".:%"), "")
    if first == ".":
        _check_ipv4(text, text)
        return _IPV4_BITS, ""
    if first == ":":
        return _parse_ipv6(text)
    raise _AddressError(text, "missing IPv6 address" if first else "unable to parse IP")


def _check_ipv4(text: str, part: str) -> None:
    """Check the IPv4 address ``part`` of an address ``text`` character by character, since Go reports the first fault."""
    value, length, fields = 0, 0, 1
    for index, char in enumerate(part):
        if char.isascii() and char.isdigit():
            if length == 1 and value == 0:
                raise _AddressError(text, "IPv4 field has octet with leading zero")
            value, length = value * 10 + int(char), length + 1
            if value > 255:  # noqa: PLR2004 - one byte
                raise _AddressError(text, "IPv4 field has value >255")
        elif char != ".":
            raise _AddressError(text, "unexpected character", part[index:])
        elif not length or index == len(part) - 1:
            raise _AddressError(text, "IPv4 field must have at least one digit", part[index:])
        elif fields == _IPV4_FIELDS:
            raise _AddressError(text, "IPv4 address too long")
        else:
            value, length, fields = 0, 0, fields + 1
    if fields < _IPV4_FIELDS:
        raise _AddressError(text, "IPv4 address too short")


def _parse_ipv6(text: str) -> tuple[int, str]:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _AddressError(text, "zone must be a non-empty string")
    elided = rest.startswith("::")
    rest = rest[2:] if elided else rest
    count = 0
    while rest or not elided:
        group = _group(text, rest)
        if rest[len(group) :].startswith("."):
            _check_embedded(text, rest, count, elided=elided)
            rest, count = "", count + _IPV4_FIELDS
        else:
            rest, count = rest[len(group) :], count + 2
        if not rest:
            break
        rest, again = _after_colon(text, rest, elided=elided)
        elided = elided or again
        if count >= _IPV6_BYTES:
            break
    _check_length(text, rest, count, elided=elided)
    return _IPV6_BITS, zone


def _group(text: str, rest: str) -> str:
    match = _HEX.match(rest)
    group = match[0] if match else ""
    if len(group) > 4:  # noqa: PLR2004 - 16 bits
        raise _AddressError(text, "each group must have 4 or less digits", rest)
    if not group:
        raise _AddressError(text, "each colon-separated field must have at least one digit", rest)
    return group


def _check_embedded(text: str, rest: str, count: int, *, elided: bool) -> None:
    if not elided and count != _IPV6_BYTES - _IPV4_FIELDS:
        raise _AddressError(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
    if count + _IPV4_FIELDS > _IPV6_BYTES:
        fault = "too many hex fields to fit an embedded IPv4 at the end of the address"
        raise _AddressError(text, fault, rest)
    _check_ipv4(text, rest)


def _after_colon(text: str, rest: str, *, elided: bool) -> tuple[str, bool]:
    """Return the text after a group's colon, and whether the colon was doubled to elide groups."""
    if not rest.startswith(":"):
        raise _AddressError(text, "unexpected character, want colon", rest)
    if rest == ":":
        raise _AddressError(text, "colon must be followed by more characters", rest)
    rest = rest[1:]
    if not rest.startswith(":"):
        return rest, False
    if elided:
        raise _AddressError(text, "multiple :: in address", rest)
    return rest[1:], True


def _check_length(text: str, rest: str, count: int, *, elided: bool) -> None:
    if rest:
        raise _AddressError(text, "trailing garbage after address", rest)
    if count < _IPV6_BYTES and not elided:
        raise _AddressError(text, "address string too short")
    if count >= _IPV6_BYTES and elided:
        raise _AddressError(text, "the :: must expand to at least one field of zeros")


def split_host_port(text: str) -> tuple[str, str, str]:
    """Return host, port and the error of net.SplitHostPort, or an empty text."""
    host, colon, port = text.rpartition(":")
    if not colon:
        return "", "", "missing port in address"
    opening = closed = text
    if text.startswith("["):
        inside, bracket, after = text[1:].partition("]")
        if not bracket:
            return "", "", "missing ']' in address"
        if after != f":{port}":
            return "", "", "too many colons in address" if after.startswith(":") else "missing port in address"
        host, opening, closed = inside, text[1:], after
    elif ":" in host:
        return "", "", "too many colons in address"
    if "[" in opening:
        return "", "", "unexpected '[' in address"
    return host, port, "unexpected ']' in address" if "]" in closed else ""


def is_address(text: str, *, zones: bool) -> bool:
    """Return whether netip.ParseAddr accepts an address; ``zones`` allows an IPv6 zone."""
    try:
        return not parse_address(text)[1] or zones
    except _AddressError:
        return False

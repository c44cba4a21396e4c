"""Addresses as Go reads them: CIDR ranges, host and port."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

_LABEL = re.compile(r"[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?", re.ASCII)
_MAX_NAME: Final = 255


def parse_prefix(text: str, *, netip: bool) -> str:
    """Return why a text is no CIDR range, empty where it is one; with the words of netip.ParsePrefix or net.ParseCIDR."""
    address, slash, bits = text.rpartition("/")
    if not netip:
        valid = bool(slash) and _address(address) is not None and _bits(bits, address) is not None
        return "" if valid else f"invalid CIDR address: {text}"
    head = f'netip.ParsePrefix("{text}"): '
    if not slash:
        return head + "no '/'"
    if _address(address) is None:
        return f'{head}ParseAddr("{address}"): unable to parse IP'
    if "%" in address:
        return head + "IPv6 zones cannot be present in a prefix"
    if not (bits.isascii() and bits.isdigit()) or (len(bits) > 1 and bits.startswith("0")):
        return f'{head}bad bits after slash: "{bits}"'
    return "" if _bits(bits, address) is not None else head + "prefix length out of range"


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _bits(text: str, address: str) -> int | None:
    parsed = _address(address)
    if parsed is None or not (text.isascii() and text.isdigit()):
        return None
    bits = int(text)
    return bits if bits <= parsed.max_prefixlen else None


def proxy_address_fault(text: str) -> str:
    """Return why a text is no ``host:port`` that a proxy may talk to, empty where it is one (ValidateProxyAddress)."""
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not (host.startswith("[") and host.endswith("]"))):
        why = "too many colons in address" if colon else "missing port in address"
        return f'unable to split "{text}": address {text}: {why}'
    if not (port.isascii() and port.isdigit()):
        return f'port ({port}) is not a number: strconv.Atoi: parsing "{port}": invalid syntax'
    fault = port_fault(int(port))
    if fault:
        return fault
    bare = host.removeprefix("[").removesuffix("]")
    if _address(bare) is not None or _is_domain(bare):
        return ""
    return f'"{bare}" is not a valid hostname or an IP address'


def port_fault(port: int) -> str:
    """Return why a number is no port, empty where it is one (ValidatePort)."""
    return "" if 1 <= port <= 65535 else f"port number {port} must be in the range 1..65535"  # noqa: PLR2004 - TCP's range


def _is_domain(text: str) -> bool:
    labels = text.removesuffix(".").split(".")
    return 0 < len(text) <= _MAX_NAME and all(_LABEL.fullmatch(label) for label in labels)

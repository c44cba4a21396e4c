"""The types of YAML scalars in Go: what go-yaml v2 makes of ``yes``, ``0o17``, ``1e3`` or ``1_000``.

Follows go.yaml.in/yaml/v2 resolve.go (v2.4.3) and, for keys, sigs.k8s.io/yaml (v1.6.0) ``convertToJSONableObject``.
go-yaml tells plain scalars apart by their first character, then tries Go's own number syntax (strconv) in turn.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from typing import Any, Final

from injector.golang.strconv import format_g
from injector.golang.time import is_calendar

_PREFIX: Final = "tag:yaml.org,2002:"
_NAMED: Final[dict[str, Any]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_HINTED: Final = frozenset("yYnNtTfFoO~.+-0123456789")
_NUMERIC: Final = frozenset("+-0123456789")
# strconv.ParseInt with base 0, after go-yaml has taken the underscores out.
_INTEGER = re.compile(
    r"[-+]?(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)|(?P<dec>0|[1-9][0-9]*))", re.ASCII
)
# The sign may come after the prefix: what follows 0b is read as a number of its own.
_SIGNED_BINARY = re.compile(r"0b(?P<digits>[-+][01]{1,64})", re.ASCII)
_BASES: Final = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
# What strconv.ParseFloat takes of a text that begins with a point.
_POINT_FLOAT = re.compile(r"\.[0-9](_?[0-9])*([eE][-+]?[0-9](_?[0-9])*)?", re.ASCII)
_MAX_DIGITS: Final = 64  # of a 64-bit integer, in base 2; Python refuses to read thousands
_INT64: Final = 2**63
_UINT64: Final = 2**64
_SHORT_DATE = r"(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
_CLOCK = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})([.,][0-9]+)?"
_ZONE = r"(Z|[-+](?P<zone_hour>[0-9]{2}):(?P<zone_minute>[0-9]{2}))"
_TIMESTAMP = re.compile(rf"{_SHORT_DATE}([Tt]{_CLOCK}{_ZONE})?", re.ASCII)
_SPACED_TIMESTAMP = re.compile(rf"{_SHORT_DATE} +{_CLOCK}", re.ASCII)


_NO_TEXT = re.compile(r"[\udc80-\udcff]")


class BadScalarError(ValueError):
    """A scalar that contradicts its tag, or a key that JSON cannot have."""


def resolve_plain(text: str) -> Any:
    """Return what go-yaml makes of a plain scalar: None, a bool, an int, a float or the text itself."""
    first = text[:1]
    if first and first not in _HINTED:
        return text
    if text in _NAMED:
        return _NAMED[text]
    if first in _NUMERIC:
        return _number(text)
    if first == "." and _POINT_FLOAT.fullmatch(text):
        return _finite(text.replace("_", ""), text)
    return text


def _number(text: str) -> Any:
    plain = text.replace("_", "") if "_" in text else text
    match = _INTEGER.fullmatch(plain)
    if match is not None:
        kind = str(match.lastgroup)
        digits = match[kind].lstrip("0") or "0"
        number = int(digits, _BASES[kind]) if len(digits) <= _MAX_DIGITS else _UINT64
        if plain[0] == "-" and number <= _INT64:
            return -number
        if number < (_INT64 if plain[0] in "+-" else _UINT64):
            return number
    signed = _SIGNED_BINARY.fullmatch(plain)
    if signed is not None and -_INT64 <= (number := int(signed["digits"], 2)) < _INT64:
        return number
    return _finite(plain, text) if _FLOAT.fullmatch(plain) else text


def _finite(plain: str, text: str) -> float | str:
    number = float(plain)
    return number if math.isfinite(number) else text


def resolve_tagged(tag: str, text: str) -> Any:
    """Return what go-yaml makes of a scalar with a tag; tags it does not know leave the text.

    Raises:
        BadScalarError: the text is none of the tag's.
    """
    name = tag.removeprefix(_PREFIX) if tag.startswith(_PREFIX) else ""
    if name == "binary":
        return _binary(text)
    kinds = _KINDS.get(name)
    if kinds is None:
        return text
    value = resolve_plain(text)
    if name == "float" and type(value) is int and value < _INT64:
        return float(value)
    if name == "timestamp" and is_timestamp(text):
        return text
    if type(value) not in kinds:
        raise BadScalarError(f"cannot decode `{text}` as a !!{name}")
    return value


_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float,),
    "null": (type(None),),
    "timestamp": (),
}


def _binary(text: str) -> str:
    """Return decoded base64 as text; bytes that are no UTF-8 become U+FFFD one by one, as in encoding/json."""
    try:
        data = base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadScalarError("!!binary value contains invalid base64 data") from error
    return _NO_TEXT.sub("\ufffd", data.decode("utf-8", "surrogateescape"))


def is_timestamp(text: str) -> bool:
    """Return whether go-yaml takes a plain scalar for a date: it stays text when read, and is quoted when written."""
    match = _TIMESTAMP.fullmatch(text) or _SPACED_TIMESTAMP.fullmatch(text)
    if match is None:
        return False
    return is_calendar({name: int(digits) for name, digits in match.groupdict().items() if digits is not None})


def json_key(key: Any) -> str:
    """Return the text of a map's key that is no string.

    Raises:
        BadScalarError: null and integers beyond int64, which sigs.k8s.io/yaml refuses.
    """
    if type(key) is bool:
        return "true" if key else "false"
    if type(key) is int and key < _INT64:
        return str(key)
    if type(key) is float:
        return _float_key(key)
    raise BadScalarError(f"unsupported map key of type: {'null' if key is None else 'uint64'}")


def _float_key(value: float) -> str:
    """Return a float as strconv.FormatFloat(v, 'g', -1, 32) prints it, in YAML's words for what is not finite."""
    text = format_g(value, bits=32)
    return {"NaN": ".nan", "+Inf": ".inf", "-Inf": "-.inf"}.get(text, text)

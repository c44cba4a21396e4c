"""JSON written as Go's encoding/json writes it, where other programs read the text letter for letter."""

from __future__ import annotations

import re
from json.encoder import encode_basestring
from typing import Any, Final

from injector.kube.gofloat import go_float

_ESCAPED: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_HTML = re.compile("[<>&\u2028\u2029]")
_LINES = re.compile("[\u2028\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def go_json(value: Any, *, sort_keys: bool = False, escape_html: bool = True) -> str:
    """Return JSON data as compact JSON in the spelling of Go 1.22 and later.

    Args:
        value: JSON data; integers of any Go type, floats as float64.
        sort_keys: as Go prints maps; else the order given, as Go prints structs.
        escape_html: ``<``, ``>`` and ``&`` as escapes, encoding/json's default.

    Raises:
        DataError: a float that JSON has no text for.
    """
    parts: list[str] = []
    _write(value, parts, sort_keys=sort_keys, escaped=_HTML if escape_html else _LINES)
    return "".join(parts)


def _write(value: Any, parts: list[str], *, sort_keys: bool, escaped: re.Pattern[str]) -> None:
    if isinstance(value, str):
        parts.append(go_string(value, escaped))
    elif value is None:
        parts.append("null")
    elif isinstance(value, bool):
        parts.append("true" if value else "false")
    elif isinstance(value, float):
        parts.append(go_float(value))
    elif isinstance(value, int):
        parts.append(str(int(value)))
    elif isinstance(value, dict):
        _write_members(value, parts, sort_keys=sort_keys, escaped=escaped)
    else:
        separator = "["
        for item in value:
            parts.append(separator)
            _write(item, parts, sort_keys=sort_keys, escaped=escaped)
            separator = ","
        parts.append("]" if separator == "," else "[]")


def _write_members(value: dict[str, Any], parts: list[str], *, sort_keys: bool, escaped: re.Pattern[str]) -> None:
    separator = "{"
    for key in sorted(value) if sort_keys else value:
        parts.append(f"{separator}{go_string(str(key), escaped)}:")
        _write(value[key], parts, sort_keys=sort_keys, escaped=escaped)
        separator = ","
    parts.append("}" if separator == "," else "{}")


def go_string(text: str, escaped: re.Pattern[str] = _HTML) -> str:
    """Return a JSON string; what is no Unicode becomes U+FFFD, as in Go."""
    quoted = encode_basestring(text if text.isascii() else _SURROGATE.sub("\ufffd", text))
    return escaped.sub(lambda match: _ESCAPED[match[0]], quoted)

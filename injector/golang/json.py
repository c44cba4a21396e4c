"""JSON in and out, and JSON as Go's encoding/json writes it, where other programs read the text letter for letter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from json.encoder import encode_basestring
from typing import Any, Final

import orjson

from injector.errors import DataError, ManifestError
from injector.golang.strconv import go_float, valid_utf8

MAX_LEVELS: Final = 254
"""The levels of objects and lists that orjson writes."""
_ESCAPES: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
# What is special to HTML or to JavaScript's lines stands in strings only, and so can be escaped in the whole text.
_HTML = re.compile("[<>&\u2028\u2029]")
_LINES = re.compile("[\u2028\u2029]")
_FLOAT = re.compile("[0-9][.e]")
_NO_FLOATS: Final = frozenset((str, int, bool, type(None)))
_SURROGATE = re.compile("[\ud800-\udfff]")
_HEX: Final = "[0-9a-fA-F]{2}"
_ESCAPE = re.compile(rf"\\(?:u[dD][89abAB]{_HEX}\\u[dD][c-fC-F]{_HEX}|(?P<half>u[dD][89a-fA-F]{_HEX})|.)")
"""An escape of a JSON string; ``half`` is half of a surrogate pair."""


def load_json(text: str | bytes | memoryview, *, where: str = "") -> Any:
    """Return JSON data; integers beyond 64 bits are floats, and halves of surrogate pairs in a string are U+FFFD, as for encoding/json.

    Raises ManifestError if it is not JSON, or is nested beyond 1,024 levels.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if isinstance(text, str) and (valid := valid_json(text)) != text:
            return load_json(valid, where=where)
        what = f"json: line {error.lineno}: {error.msg}"
        raise ManifestError(what, where=where, hint="correct the JSON") from error


def valid_json(text: str) -> str:
    """Return JSON with U+FFFD in place of bytes that are not UTF-8 and of halves of surrogate pairs, as encoding/json reads it."""
    valid = valid_utf8(text)
    return _ESCAPE.sub(lambda escape: r"\ufffd" if escape["half"] else escape[0], valid) if r"\u" in valid else valid


def dump_json(value: Any) -> bytes:
    """Return compact JSON in UTF-8, keys in the order they have.

    Raises DataError if it is not JSON data, or is nested beyond ``MAX_LEVELS``.
    """
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise DataError(f"json: {error}", hint="give JSON data") from error


def go_json(value: Any, *, sort_keys: bool = False, escape_html: bool = True, indent: bool = False) -> str:
    """Return JSON data in the spelling of Go 1.22 and later; bytes that are not Unicode are U+FFFD.

    With ``sort_keys``, keys are sorted as Go prints maps. Otherwise they keep their order, as Go prints structs. ``escape_html`` is
    encoding/json's default: ``<``, ``>`` and ``&`` are escaped. With ``indent``, each element is on its own line, as json.MarshalIndent
    prints it. Raises DataError for a float that JSON has no text for.
    """
    try:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort_keys else None).decode()
    except orjson.JSONEncodeError:  # lone surrogates, integers beyond 64 bits, deep nesting
        text = ""
    # A float has a point or an exponent, or is printed as null.
    if indent or not text or (value.__class__ is not str and _may_have_float(text) and _has_float(value)):
        text = "".join(_parts(value, "\n" if indent else "", sort_keys=sort_keys))
    return _escape(text, _HTML if escape_html else _LINES)


def _escape(text: str, special: re.Pattern[str]) -> str:
    if not text.isascii():
        text = _SURROGATE.sub(r"\\ufffd", text)
    elif special is _LINES or not ("<" in text or ">" in text or "&" in text):
        return text
    return special.sub(lambda match: _ESCAPES[match[0]], text)


def _may_have_float(text: str) -> bool:
    return "null" in text or _FLOAT.search(text) is not None


def _has_float(value: Any) -> bool:
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return isinstance(value, float)
    return not _NO_FLOATS.issuperset(map(type, value)) and any(map(_has_float, value))


def _parts(value: Any, newline: str, *, sort_keys: bool) -> Iterator[str]:
    """Yield the parts of a text; ``newline`` ends the lines of an indented text, and is empty for a compact one."""
    inner, colon = (f"{newline}  ", ": ") if newline else ("", ":")
    if isinstance(value, str):
        yield encode_basestring(value)
    elif isinstance(value, dict | list):
        separator, closing = "{}" if isinstance(value, dict) else "[]"
        for element in sorted(value) if sort_keys and isinstance(value, dict) else value:
            key, item = (
                (f"{encode_basestring(element)}{colon}", value[element]) if isinstance(value, dict) else ("", element)
            )
            yield f"{separator}{inner}{key}"
            yield from _parts(item, inner, sort_keys=sort_keys)
            separator = ","
        yield f"{newline}{closing}" if value else separator + closing
    elif isinstance(value, float):
        yield go_float(value)
    elif value is None or isinstance(value, bool):
        yield {None: "null", True: "true", False: "false"}[value]
    else:
        yield str(int(value))

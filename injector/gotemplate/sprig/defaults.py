"""Defaults, tests of emptiness and JSON (sprig's defaults.go), and reflection (reflect.go)."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from injector.errors import DataError
from injector.golang.strconv import go_float, quote
from injector.gotemplate import costs
from injector.gotemplate.errors import FuncError
from injector.gotemplate.functions import FuncMap
from injector.gotemplate.reflect import is_nil, is_true, kind_of, sorted_items, type_of
from injector.gotemplate.values import Pointer, Struct

FUNCTIONS: Final = FuncMap()

_SPACE: Final = " \t\r\n"
_END: Final = "unexpected end of JSON input"
_LITERALS: Final = ("true", "false", "null")
_MAX_DEPTH: Final = 400


class _FaultError(Exception):
    """The text of a fault, on its way up."""


def json_fault(text: str) -> str:
    """Return Go's words for the first fault of a text, empty where it is JSON."""
    scanner = _Scanner(text)
    try:
        scanner.value(0)
        scanner.skip()
        if scanner.at < len(text):
            scanner.invalid("after top-level value")
    except _FaultError as fault:
        return str(fault)
    return ""


class _Scanner:
    """Reads JSON and stops at its first fault."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def invalid(self, context: str, *, ends: bool = True) -> None:
        """Raise a fault; a value that the end may cut short (``ends`` False) sees the end as a space, as Go's scanner does."""
        if self.at >= len(self.text) and ends:
            raise _FaultError(_END)
        # Go's scanner sees bytes.
        char = chr((self.text[self.at : self.at + 1] or " ").encode("utf-8", "surrogateescape")[0])
        shown = {"'": "'\\''", '"': "'\"'"}.get(char) or quote(char, "'")
        raise _FaultError(f"invalid character {shown} {context}")

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip(self) -> None:
        while self.peek() and self.peek() in _SPACE:
            self.at += 1

    def value(self, depth: int) -> None:
        self.skip()
        char = self.peek()
        if depth > _MAX_DEPTH:
            raise _FaultError("exceeded max depth")
        if char == "{":
            self.members(depth)
        elif char == "[":
            self.elements(depth)
        elif char == '"':
            self.string()
        elif char == "-" or char.isdigit():
            self.number()
        else:
            self.literal()

    def literal(self) -> None:
        name = next((name for name in _LITERALS if self.peek() and name.startswith(self.peek())), "")
        if not name:
            self.invalid("looking for beginning of value")
        for char in name:
            if self.peek() != char:
                self.invalid(f"in literal {name} (expecting {quote(char, chr(39))})", ends=False)
            self.at += 1

    def elements(self, depth: int) -> None:
        self.at += 1
        self.skip()
        if self.peek() == "]":
            self.at += 1
            return
        while True:
            self.value(depth + 1)
            self.skip()
            if self.peek() == "]":
                self.at += 1
                return
            if self.peek() != ",":
                self.invalid("after array element")
            self.at += 1

    def members(self, depth: int) -> None:
        self.at += 1
        self.skip()
        if self.peek() == "}":
            self.at += 1
            return
        while True:
            self.skip()
            if self.peek() != '"':
                self.invalid("looking for beginning of object key string")
            self.string()
            self.skip()
            if self.peek() != ":":
                self.invalid("after object key")
            self.at += 1
            self.value(depth + 1)
            self.skip()
            if self.peek() == "}":
                self.at += 1
                return
            if self.peek() != ",":
                self.invalid("after object key:value pair")
            self.at += 1

    def string(self) -> None:
        self.at += 1
        while self.peek() != '"':
            if self.peek() == "\\":
                self.at += 1
                self.escape()
            elif not self.peek() or self.peek() < " ":
                self.invalid("in string literal")
            self.at += 1
        self.at += 1

    def escape(self) -> None:
        if not self.peek() or self.peek() not in 'bfnrt\\/"u':
            self.invalid("in string escape code")
        if self.peek() == "u":
            for _ in range(4):
                self.at += 1
                if not self.peek() or self.peek() not in "0123456789abcdefABCDEF":
                    self.invalid("in \\u hexadecimal character escape")

    def number(self) -> None:
        if self.peek() == "-":
            self.at += 1
            if not self.peek().isdigit():
                self.invalid("in numeric literal", ends=False)
        if self.peek() == "0":
            self.at += 1
        else:
            self.digits()
        if self.peek() == ".":
            self.at += 1
            if not self.peek().isdigit():
                self.invalid("after decimal point in numeric literal", ends=False)
            self.digits()
        if self.peek() in ("e", "E"):
            self.at += 1
            if self.peek() in ("+", "-"):
                self.at += 1
            if not self.peek().isdigit():
                self.invalid("in exponent of numeric literal", ends=False)
            self.digits()

    def digits(self) -> None:
        while self.peek().isdigit():
            self.at += 1


_HTML: Final = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}
_LINES: Final = {0x2028: "\\u2028", 0x2029: "\\u2029"}


@FUNCTIONS.define("func(interface {}) bool", "empty", cost=costs.NOTHING)
def empty(value: Any) -> bool:
    """Return whether a value is the zero value of its type, or has no elements."""
    return not is_true(value)


@FUNCTIONS.define("func(interface {}, ...interface {}) interface {}", "default", cost=costs.NOTHING)
def dfault(default: Any, *given: Any) -> Any:
    """Return the value given, or the default where it is empty."""
    return given[0] if given and is_true(given[0]) else default


@FUNCTIONS.define("func(...interface {}) interface {}", "coalesce", cost=costs.NOTHING)
def coalesce(*values: Any) -> Any:
    """Return the first value that is not empty."""
    return next((value for value in values if is_true(value)), None)


@FUNCTIONS.define("func(...interface {}) bool", "all", cost=costs.NOTHING)
def all_(*values: Any) -> bool:
    """Return whether no value is empty."""
    return all(is_true(value) for value in values)


@FUNCTIONS.define("func(...interface {}) bool", "any", cost=costs.NOTHING)
def any_(*values: Any) -> bool:
    """Return whether some value is not empty."""
    return any(is_true(value) for value in values)


@FUNCTIONS.define("func(interface {}, interface {}, bool) interface {}", "ternary", cost=costs.NOTHING)
def ternary(yes: Any, no: Any, condition: bool) -> Any:  # noqa: FBT001 - sprig's own signature
    """Return ``yes`` where the condition holds, else ``no``."""
    return yes if condition else no


@FUNCTIONS.define("func(string) interface {}", "fromJson", cost=costs.READ_JSON)
def from_json(text: str) -> Any:
    """Return decoded JSON, nil if the text is not JSON."""
    try:
        return must_from_json(text)
    except FuncError:
        return None


@FUNCTIONS.define("func(string) (interface {}, error)", "mustFromJson", cost=costs.READ_JSON)
def must_from_json(text: str) -> Any:
    """Return decoded JSON."""
    fault = json_fault(text)
    if fault:
        raise FuncError(fault)
    return json.loads(text, parse_float=_number, parse_int=_number)


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise FuncError(f"json: cannot unmarshal number {text} into Go value of type float64")
    return number


@FUNCTIONS.define("func(interface {}) string", "toJson", cost=costs.JSON)
def to_json(value: Any) -> str:
    """Return a value as JSON, empty where it has none."""
    try:
        return must_to_json(value)
    except FuncError:
        return ""


@FUNCTIONS.define("func(interface {}) (string, error)", "mustToJson", cost=costs.JSON)
def must_to_json(value: Any) -> str:
    """Return a value as JSON."""
    return _encode(value).translate(_HTML | _LINES)


@FUNCTIONS.define("func(interface {}) string", "toPrettyJson", cost=costs.JSON)
def to_pretty_json(value: Any) -> str:
    """Return a value as indented JSON, empty where it has none."""
    try:
        return must_to_pretty_json(value)
    except FuncError:
        return ""


@FUNCTIONS.define("func(interface {}) (string, error)", "mustToPrettyJson", cost=costs.JSON)
def must_to_pretty_json(value: Any) -> str:
    """Return a value as indented JSON."""
    return _encode(value, "\n").translate(_HTML | _LINES)


@FUNCTIONS.define("func(interface {}) string", "toRawJson", cost=costs.JSON)
@FUNCTIONS.define("func(interface {}) (string, error)", "mustToRawJson", cost=costs.JSON)
def must_to_raw_json(value: Any) -> str:
    """Return a value as JSON without HTML escapes."""
    return _encode(value).translate(_LINES)


def plain(value: Any) -> Any:
    """Return a value as encoding/json sees it: what it says of itself, or its fields."""
    as_json = getattr(value, "json_value", None)
    if as_json is not None:
        return as_json()
    if isinstance(value, Pointer):
        return None if value.target is None else plain(value.target)
    if isinstance(value, Struct):
        return {name: plain(item) for name, item in value.fields()}
    return value


def _encode(value: Any, newline: str = "") -> str:
    value = plain(value)
    if value is None or (isinstance(value, list | dict) and is_nil(value)):
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(str(value), ensure_ascii=False)
    if isinstance(value, float):
        return json_float(value)
    if isinstance(value, int):
        return str(int(value))
    inner = newline + "  " if newline else ""
    if isinstance(value, list):
        return _joined("[", [_encode(item, inner) for item in value], "]", newline, inner)
    if isinstance(value, dict):
        colon = ": " if newline else ":"
        members = [
            f"{json.dumps(str(key), ensure_ascii=False)}{colon}{_encode(item, inner)}"
            for key, item in sorted_items(value)
        ]
        return _joined("{", members, "}", newline, inner)
    raise FuncError(f"json: unsupported type: {type_of(value)}")


def _joined(opening: str, parts: list[str], closing: str, newline: str, inner: str) -> str:
    if not parts:
        return opening + closing
    return f"{opening}{inner}{f',{inner}'.join(parts)}{newline}{closing}"


def json_float(value: float) -> str:
    """Return a float64 as encoding/json prints it."""
    try:
        return go_float(value)
    except DataError as error:
        raise FuncError(error.what) from error


@FUNCTIONS.define("func(string, interface {}) bool", "typeIs", cost=costs.NOTHING)
def type_is(wanted: str, value: Any) -> bool:
    """Return whether a value has a type."""
    return type_of(value) == wanted


@FUNCTIONS.define("func(string, interface {}) bool", "typeIsLike", cost=costs.NOTHING)
def type_is_like(wanted: str, value: Any) -> bool:
    """Return whether a value has a type or is a pointer to it."""
    return type_of(value) in (wanted, f"*{wanted}")


@FUNCTIONS.define("func(string, interface {}) bool", "kindIs", cost=costs.NOTHING)
def kind_is(wanted: str, value: Any) -> bool:
    """Return whether a value has a kind."""
    return kind_of(value) == wanted


@FUNCTIONS.define("func(string) (string, error)", "fail", cost=costs.PASS)
def fail(message: str) -> str:
    """End the rendering with a message."""
    raise FuncError(message)


FUNCTIONS.define("func(interface {}) string", "typeOf", cost=costs.NOTHING)(type_of)
FUNCTIONS.define("func(interface {}) string", "kindOf", cost=costs.NOTHING)(kind_of)

"""Defaults, tests of emptiness and JSON (sprig's defaults.go), and reflection (reflect.go)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from injector.errors import DataError
from injector.golang.json import go_json, valid_json
from injector.golang.strconv import quote, to_bytes
from injector.gotemplate import costs
from injector.gotemplate.errors import FuncError
from injector.gotemplate.functions import FuncMap, or_else
from injector.gotemplate.values import json_data, kind_of, type_of

FUNCTIONS: Final = FuncMap()

_LITERALS: Final = {"t": "true", "f": "false", "n": "null"}
# Levels of JSON. Go allows 10,000, which no annotation has; Python's stack allows 1,000, of which the caller has some.
_MAX_DEPTH: Final = 400


def check_json(text: str) -> None:
    """Check that a text is JSON. Raises FuncError with Go's text for the first fault."""
    scanner = _JsonScanner(text)
    scanner.value(0)
    scanner.skip()
    if scanner.at < len(text):
        scanner.invalid("after top-level value")


class _JsonScanner:
    """Reads JSON and stops at its first fault (encoding/json's scanner.go)."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def invalid(self, context: str) -> None:
        """Raise the error of the present character; after the end of the text that is a space, as for Go's scanner."""
        byte = to_bytes(self.text[self.at : self.at + 1] or " ")[:1]
        char = byte.decode("latin-1")
        escaped = {"'": "'\\''", '"': "'\"'"}.get(char) or quote(char, "'")
        raise FuncError(f"invalid character {escaped} {context}")

    def take(self, pattern: str) -> bool:
        """Skip a pattern if it matches here; return whether it does."""
        match = re.compile(pattern).match(self.text, self.at)
        self.at = match.end() if match else self.at
        return match is not None

    def skip(self) -> None:
        self.take("[ \t\r\n]*")

    def need(self, pattern: str, context: str) -> None:
        """Skip a pattern that has to match, in a value that the end of the text may end."""
        if not self.take(pattern):
            self.invalid(context)

    def expect(self, pattern: str, context: str) -> None:
        """Skip a pattern that has to match, where the text must not end."""
        if self.at >= len(self.text):
            raise FuncError("unexpected end of JSON input")
        self.need(pattern, context)

    def value(self, depth: int) -> None:
        self.skip()
        if depth > _MAX_DEPTH:
            raise FuncError("exceeded max depth")
        if self.take("{"):
            self.container("}", "after object key:value pair", depth)
        elif self.take(r"\["):
            self.container("]", "after array element", depth)
        elif self.take('"'):
            self.string()
        elif self.take("-|(?=[0-9])"):
            self.number()
        else:
            self.literal()

    def literal(self) -> None:
        self.expect("(?=[tfn])", "looking for beginning of value")
        name = _LITERALS[self.text[self.at]]
        for char in name:
            self.need(char, f"in literal {name} (expecting {quote(char, chr(39))})")

    def container(self, close: str, context: str, depth: int) -> None:
        self.skip()
        if self.take(close):
            return
        while True:
            if close == "}":
                self.skip()
                self.expect('"', "looking for beginning of object key string")
                self.string()
                self.skip()
                self.expect(":", "after object key")
            self.value(depth + 1)
            self.skip()
            if self.take(close):
                return
            self.expect(",", context)

    def string(self) -> None:
        while not self.take(r'[^"\\\x00-\x1f]*"'):
            self.take(r'[^"\\\x00-\x1f]*')
            self.expect(r"\\", "in string literal")
            self.expect(r'[bfnrt\\/"u]', "in string escape code")
            if self.text[self.at - 1] == "u":
                for _ in range(4):
                    self.expect("[0-9a-fA-F]", "in \\u hexadecimal character escape")

    def number(self) -> None:
        self.need("0|[1-9][0-9]*", "in numeric literal")
        if self.take(r"\."):
            self.need("[0-9]+", "after decimal point in numeric literal")
        if self.take("[eE][+-]?"):
            self.need("[0-9]+", "in exponent of numeric literal")


@FUNCTIONS.define("func(interface {}, ...interface {}) interface {}", "default", cost=costs.NOTHING)
def dfault(default: Any, *values: Any) -> Any:
    """Return the value given, or the default where it is empty."""
    return values[0] if values and values[0] else default


@FUNCTIONS.define("func(string) (interface {}, error)", "mustFromJson", cost=costs.READ_JSON)
def must_from_json(text: str) -> Any:
    """Return decoded JSON."""
    return _decode(text, _number)


def _decode(text: str, number: Callable[[str], float | None]) -> Any:
    check_json(text)
    return json.loads(valid_json(text), parse_float=number, parse_int=number)


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise FuncError(f"json: cannot unmarshal number {text} into Go value of type float64")
    return number


def _encode(value: Any, **options: bool) -> str:
    try:
        return go_json(json_data(value), **options)
    except DataError as error:
        raise FuncError(error.what) from error


# Go decodes what it can: a number that is too large leaves nil in its place.
_from_json: Final = partial(_decode, number=or_else(_number, None))
FUNCTIONS.add("fromJson", "func(string) interface {}", or_else(_from_json, None), costs.READ_JSON)
FUNCTIONS.define("func(interface {}) string", "toRawJson", cost=costs.JSON, must=True)(
    partial(_encode, escape_html=False)
)
for _name, _call in (("ToJson", _encode), ("ToPrettyJson", partial(_encode, indent=True))):
    FUNCTIONS.add(f"must{_name}", "func(interface {}) (string, error)", _call, costs.JSON)
    FUNCTIONS.add(f"t{_name[1:]}", "func(interface {}) string", or_else(_call, ""), costs.JSON)


@FUNCTIONS.define("func(string) (string, error)", "fail", cost=costs.PASS)
def fail(message: str) -> str:
    """End the rendering with a message."""
    raise FuncError(message)


_VALUES: Final = "...interface {}"

FUNCTIONS.add("empty", "func(interface {}) bool", lambda value: not value, costs.NOTHING)
FUNCTIONS.add("all", f"func({_VALUES}) bool", lambda *values: all(values), costs.NOTHING)
FUNCTIONS.add("any", f"func({_VALUES}) bool", lambda *values: any(values), costs.NOTHING)
FUNCTIONS.add(
    "coalesce", f"func({_VALUES}) interface {{}}", lambda *values: next(filter(None, values), None), costs.NOTHING
)
FUNCTIONS.add(
    "ternary",
    "func(interface {}, interface {}, bool) interface {}",
    lambda yes, no, condition: yes if condition else no,
    costs.NOTHING,
)
FUNCTIONS.add("typeOf", "func(interface {}) string", type_of, costs.NOTHING)
FUNCTIONS.add("kindOf", "func(interface {}) string", kind_of, costs.NOTHING)
FUNCTIONS.add("typeIs", "func(string, interface {}) bool", lambda go, value: type_of(value) == go, costs.NOTHING)
FUNCTIONS.add("kindIs", "func(string, interface {}) bool", lambda kind, value: kind_of(value) == kind, costs.NOTHING)
FUNCTIONS.add(
    "typeIsLike", "func(string, interface {}) bool", lambda go, value: type_of(value) in (go, f"*{go}"), costs.NOTHING
)

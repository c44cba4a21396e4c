"""Regular expressions in Go's syntax and with its linear time (sprig's regex.go), by google-re2."""

from __future__ import annotations

import re as _re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from injector.golang.strconv import byte_length, can_backquote, quote, valid_utf8
from injector.gotemplate import costs
from injector.gotemplate.budget import check_size, reserve, spend
from injector.gotemplate.errors import FuncError
from injector.gotemplate.functions import FuncMap, or_else
from injector.gotemplate.values import Slice

FUNCTIONS: Final = FuncMap()

_PER_STEP: Final = 64
"""Instructions that the engine follows in a step, over all characters; where it cannot but follow all of them for each."""
_MEMORY: Final = 1 << 20
"""Bytes of an expression and its automata. Larger ones are refused, as Go refuses large expressions."""
_COMPILED_STEPS: Final = 2
_COMPILED_BYTES: Final = 400
"""Steps and bytes to compile a character of an expression."""
_EXPRESSIONS: Final = 16
"""Number of compiled expressions to cache; Istio's templates use two."""
_MATCH: Final = 100
"""Bytes of a match in addition to its text."""
_REFERENCE: Final = 4
"""Steps of a group's name in a replacement."""
_META = _re.compile(r"[\\.+*?()|\[\]{}^$]")
_TEMPLATE = _re.compile(r"\$(?:\$|(\w+)|\{(\w+)\})", _re.ASCII)
_GROUP_NUMBER = _re.compile(r"0|[1-9][0-9]{0,7}", _re.ASCII)
# Bytes that are not UTF-8 (see ``golang.strconv``): Go matches each as U+FFFD.
_SURROGATE = _re.compile("[\ud800-\udfff]")
# The faults of an expression, as re2 and as Go's regexp/syntax call them.
_FAULTS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "unexpected )": "unexpected )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid character class range": "invalid character class range",
    "invalid escape sequence": "invalid escape sequence",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "invalid UTF-8": "invalid UTF-8",
}


# Imported on first use: a template without regular expressions should not pay for loading the engine.
@lru_cache(maxsize=_EXPRESSIONS)
def _compile(pattern: str) -> Any:
    import re2  # noqa: PLC0415 -- see above

    bad = _SURROGATE.search(pattern)
    if bad is not None:
        raise FuncError(f"error parsing regexp: invalid UTF-8: `{pattern[bad.start() :]}`")
    spend(_COMPILED_STEPS * len(pattern))
    reserve(_COMPILED_BYTES * len(pattern))
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise FuncError(f"error parsing regexp: {_fault(pattern, error)}") from error
    finally:
        # It would keep the last 128, each with up to ``_MEMORY``.
        re2.purge()


def _search(pattern: str, text: str) -> Any:
    expression = _compile(pattern)
    _pay(expression, len(text))
    return expression.search(valid_utf8(text))


def _pay(expression: Any, characters: int) -> None:
    spend(1 + expression.programsize * characters // _PER_STEP)


def _fault(pattern: str, error: Exception) -> str:
    raw = error.args[0] if error.args else ""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
    name, _, part = text.partition(": ")
    if name in ("missing )", "unexpected )", "missing ]"):
        part = pattern if name != "missing ]" else part or pattern
    return f"{_FAULTS.get(name, name)}: `{part}`"


@FUNCTIONS.define("func(string, string) (bool, error)", "mustRegexMatch", cost=costs.SCAN)
def must_match(pattern: str, text: str) -> bool:
    """Return whether a text has a match."""
    return _search(pattern, text) is not None


FUNCTIONS.add("regexMatch", "func(string, string) bool", or_else(must_match, fallback=False), costs.SCAN)


def or_panic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that words a bad expression as regexp.MustCompile does; its first argument is the expression."""

    def call(pattern: str, *args: Any) -> Any:
        try:
            _compile(pattern)
        except FuncError as error:
            quoted = f"`{pattern}`" if can_backquote(pattern) else quote(pattern)
            raise FuncError(f"regexp: Compile({quoted}): {error}") from error
        return function(pattern, *args)

    return call


def _matches(pattern: str, text: str, count: int) -> Iterator[Any]:
    """Yield matches as Go's FindAll does: an empty match right after another does not count."""
    last_end = -1
    matches = 0
    expression = _compile(pattern)
    _pay(expression, len(text))
    for match in expression.finditer(valid_utf8(text)):
        # From here the engine looks for the next one, up to the end of the text.
        _pay(expression, len(text) - match.end())
        reserve(_MATCH)
        if count >= 0 and matches >= count:
            return
        if match.start() == match.end() == last_end:
            continue
        last_end = match.end()
        matches += 1
        yield match


@FUNCTIONS.define("func(string, string, int) []string", "regexFindAll", cost=costs.SCAN, must=True)
def find_all(pattern: str, text: str, count: int) -> Slice:
    """Return at most ``count`` matches, all where it is negative."""
    texts = [text[match.start() : match.end()] for match in _matches(pattern, text, count)]
    return Slice("string", texts, nil=not texts)


@FUNCTIONS.define("func(string, string) string", "regexFind", cost=costs.SCAN, must=True)
def regex_find(pattern: str, text: str) -> str:
    """Return the first match, or nothing."""
    match = _search(pattern, text)
    return text[match.start() : match.end()] if match is not None else ""


@FUNCTIONS.define("func(string, string, string) string", "regexReplaceAll", cost=costs.SCAN, must=True)
def replace_all(pattern: str, text: str, replacement: str) -> str:
    """Return a text with every match replaced; ``$1`` and ``${name}`` stand for groups."""
    return _replace(pattern, text, lambda match: _expand(replacement, text, match))


@FUNCTIONS.define("func(string, string, string) string", "regexReplaceAllLiteral", cost=costs.SCAN, must=True)
def replace_all_literal(pattern: str, text: str, replacement: str) -> str:
    """Return a text with every match replaced by a text as it is."""
    return _replace(pattern, text, lambda _match: replacement)


def _replace(pattern: str, text: str, make: Callable[[Any], str]) -> str:
    out, position, size = [], 0, 0
    for match in _matches(pattern, text, -1):
        part = text[position : match.start()] + make(match)
        size += byte_length(part)
        check_size(size, "regexReplaceAll")
        out.append(part)
        position = match.end()
    return "".join(out) + text[position:]


def _expand(replacement: str, text: str, match: Any) -> str:
    spend(1 + len(replacement) // _PER_STEP + _REFERENCE * replacement.count("$"))

    def group(reference: _re.Match[str]) -> str:
        if reference[0] == "$$":
            return "$"
        name = reference[1] or reference[2]
        number = int(name) if _GROUP_NUMBER.fullmatch(name) else match.re.groupindex.get(name)
        if number is None or number > match.re.groups:
            return ""
        begin, end = match.span(number)
        return text[begin:end] if begin >= 0 else ""

    return _TEMPLATE.sub(group, replacement)


@FUNCTIONS.define("func(string, string, int) []string", "regexSplit", cost=costs.SCAN, must=True)
def regex_split(pattern: str, text: str, count: int) -> Slice:
    """Return the parts of a text between matches, at most ``count``, all where it is negative."""
    _compile(pattern)
    if count == 0:
        return Slice("string", nil=True)
    if pattern and not text:
        return Slice("string", [""])
    parts: list[str] = []
    begin = end = 0
    for match in _matches(pattern, text, count):
        if count > 0 and len(parts) == count - 1:
            break
        end = match.start()
        if match.end() != 0:
            parts.append(text[begin:end])
        begin = match.end()
    if end != len(text):
        parts.append(text[begin:])
    return Slice("string", parts)


@FUNCTIONS.define("func(string) string", "regexQuoteMeta", cost=costs.BY_CHARACTER)
def quote_meta(text: str) -> str:
    """Return a text with everything escaped that means something in an expression."""
    return _META.sub(lambda match: f"\\{match[0]}", text)


for _name in ("regexFindAll", "regexFind", "regexReplaceAll", "regexReplaceAllLiteral", "regexSplit"):
    FUNCTIONS[_name] = replace(FUNCTIONS[_name], call=or_panic(FUNCTIONS[_name].call))

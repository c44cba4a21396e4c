"""The filters and tests of Jinja2 templates: only those listed here, each of which charges the budget before it creates or walks a value.

Jinja2's own filters are called with measured values. Those without a bound are replaced: ``replace``, ``join``, ``round``, ``sum``,
``unique``, and the tests that would format a text (``odd``).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping
from json.encoder import encode_basestring_ascii
from typing import Any, Final, cast

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS, ignore_case, make_attrgetter
from jinja2.runtime import Undefined
from jinja2.tests import TESTS

from injector.golang.json import go_json
from injector.gotemplate.budget import reserve, spend
from injector.istio.jinja.budget import (
    charge,
    check_value_size,
    count_items,
    join_counted,
    measure,
    text_of,
)
from injector.kube.yaml import dump_yaml

_JINJAS_FILTERS: Final = cast("Mapping[str, Callable[..., Any]]", FILTERS)
_JINJAS_TESTS: Final = cast("Mapping[str, Callable[..., Any]]", TESTS)
# Each character of a text is compared with the characters to strip.
_MAX_CHARACTERS: Final = 256
# A float has 17 digits.
_MAX_DIGITS: Final = 20
# The largest memory of a character of JSON (``[],`` is a list and its place) and of a part of a split text.
_BYTES_PER_JSON_CHARACTER: Final = 32
_BYTES_PER_PART: Final = 64
# An item of YAML takes this much longer than one of JSON.
_YAML_STEPS: Final = 16

_PLAIN_FILTERS: Final = ("count", "d", "default", "first", "last", "length")
_MEASURED_FILTERS: Final = ("abs", "dictsort", "float", "int")
_LIST_FILTERS: Final = ("map", "reject", "rejectattr", "select", "selectattr")
_WALKING_FILTERS: Final = ("max", "min", "sort")
# fmt: off
_PLAIN_TESTS: Final = (
    "boolean", "defined", "false", "float", "integer", "iterable", "mapping", "none", "number", "sequence", "string",
    "true", "undefined",
)
_MEASURED_TESTS: Final = (
    "!=", "<", "<=", "==", ">", ">=", "eq", "equalto", "ge", "greaterthan", "gt", "in", "le", "lessthan", "lower", "lt",
    "ne", "upper",
)
# fmt: on


def known_filters() -> dict[str, Callable[..., Any]]:
    """Return the filters by name. Each counts what depends on its value."""
    return {
        **{name: _JINJAS_FILTERS[name] for name in _PLAIN_FILTERS},
        **{name: _measuring(_JINJAS_FILTERS[name]) for name in _MEASURED_FILTERS},
        **{name: _listing(_JINJAS_FILTERS[name]) for name in _LIST_FILTERS},
        **{name: _listing(_JINJAS_FILTERS[name], walks=True) for name in _WALKING_FILTERS},
        "fromjson": _from_json,
        "indent": _indent,
        "items": _items,
        "join": _join,
        "list": lambda value: charge(list(count_items(value))),
        "lower": lambda value: charge(text_of(value).lower()),
        "quote": _quote,
        "replace": _replace,
        "reverse": _reverse,
        "round": _measuring(_round),
        "rstripped": lambda text, characters: charge(text_of(text).rstrip(_few(characters))),
        "split": _split,
        "string": text_of,
        "sum": _sum,
        "tojson": _to_json,
        "toyaml": _to_yaml,
        "trim": lambda value, chars=None: charge(text_of(value).strip(_few(chars))),
        "truncated": lambda text, size: charge(text_of(text)[:size]),
        "unique": _unique,
        "upper": lambda value: charge(text_of(value).upper()),
    }


def known_tests() -> dict[str, Callable[..., Any]]:
    """Return the tests by name."""
    return {
        **{name: _JINJAS_TESTS[name] for name in _PLAIN_TESTS},
        **{name: _measuring(_JINJAS_TESTS[name]) for name in _MEASURED_TESTS},
        "divisibleby": lambda value, number: _number(value) % _number(number) == 0,
        "even": lambda value: _number(value) % 2 == 0,
        "odd": lambda value: _number(value) % 2 == 1,
    }


def _measuring(call: Callable[..., Any]) -> Callable[..., Any]:
    passed = 1 if hasattr(call, "jinja_pass_arg") else 0  # the arguments that Jinja2 passes before the template's own

    @functools.wraps(call)
    def measuring(*args: Any, **kwargs: Any) -> Any:
        for value in (*args[passed:], *kwargs.values()):
            if not isinstance(value, Undefined):
                measure(value)
        return charge(call(*args, **kwargs))

    return measuring


def _listing(call: Callable[..., Any], *, walks: bool = False) -> Callable[..., Any]:
    """Return a filter of a sequence that counts the items, and what is called for them.

    It returns a list: a template could keep a generator but not print it.
    """

    @functools.wraps(call)
    def listing(context: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        for argument in (*args, *kwargs.values()):
            measure(argument)
        items = list(count_items(value))
        spend(len(items))
        if walks:
            measure(items)
        matching = call(context, items, *args, **kwargs)
        return charge(list(matching)) if hasattr(matching, "__next__") else matching

    return listing


def _number(value: Any) -> Any:
    measure(value)
    if not isinstance(value, int | float):
        raise TypeError(f"{type(value).__name__} is not a number")
    return value


def _few(characters: Any) -> str | None:
    if characters is None:
        return None
    if len(characters) > _MAX_CHARACTERS:
        raise SecurityError(f"more than {_MAX_CHARACTERS} characters to strip")
    return text_of(characters)


def _items(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, Undefined):
        return []
    if not isinstance(value, dict):
        raise TypeError("Can only get item pairs from a mapping.")
    return charge(list(count_items(value.items())))


def _indent(value: Any, width: int = 4, first: bool = False) -> str:  # noqa: FBT001, FBT002 -- Jinja's own signature
    text = text_of(value)
    check_value_size(len(text) + (text.count("\n") + 1) * max(width, 0))
    pad = " " * max(width, 0)
    return charge((pad if first else "") + text.replace("\n", "\n" + pad))


@jinja2.pass_environment
def _join(environment: jinja2.Environment, value: Any, d: Any = "", attribute: Any = None) -> str:
    items = value if attribute is None else map(make_attrgetter(environment, attribute), count_items(value))
    return join_counted(items, text_of(d))


def _replace(value: Any, old: Any, new: Any, count: int | None = None) -> str:
    text, old, new = text_of(value), text_of(old), text_of(new)
    occurrences = text.count(old)
    replaced = occurrences if count is None or count < 0 else min(occurrences, count)
    check_value_size(len(text) + replaced * (len(new) - len(old)))
    return charge(text.replace(old, new, replaced))


def _reverse(value: Any) -> Any:
    if isinstance(value, str):
        return charge(text_of(value)[::-1])
    return charge(list(count_items(reversed(value))))


def _round(value: Any, precision: int = 0, method: str = "common") -> Any:
    if not -_MAX_DIGITS <= precision <= _MAX_DIGITS:
        raise SecurityError(f"more than {_MAX_DIGITS} digits to round to")
    return _JINJAS_FILTERS["round"](_number(value), precision, method)


def _split(value: Any, separator: Any) -> list[str]:
    text, separator = text_of(value), text_of(separator)
    parts = text.count(separator) + 1
    spend(parts)
    reserve(_BYTES_PER_PART * parts)
    return charge(text.split(separator))


@jinja2.pass_environment
def _sum(environment: jinja2.Environment, value: Any, attribute: Any = None, start: Any = 0) -> Any:
    getter = make_attrgetter(environment, attribute)
    total = _number(start)
    for item in count_items(value):
        inner = getter(item)
        if isinstance(inner, Undefined):
            str(inner)
        total = charge(total + _number(inner))
    return total


@jinja2.pass_environment
def _unique(
    environment: jinja2.Environment,
    value: Iterable[Any],
    case_sensitive: bool = False,  # noqa: FBT001, FBT002 -- Jinja's own signature
    attribute: Any = None,
) -> list[Any]:
    getter = make_attrgetter(environment, attribute, postprocess=None if case_sensitive else ignore_case)
    # The hash of a text, unlike that of a number, cannot be predicted, so a template cannot create many collisions.
    by_value: dict[tuple[bool, str], Any] = {}
    for item in count_items(value):
        key = getter(item)
        if isinstance(key, dict | list | tuple):
            raise TypeError(f"{type(key).__name__} cannot be told apart; name an attribute")
        by_value.setdefault((isinstance(key, str), _text(key)), item)
    return charge(list(by_value.values()))


def _quote(value: Any) -> str:
    """Return a value as a JSON string, which is always a valid YAML string."""
    return charge(encode_basestring_ascii(_text(value)))


def _text(value: Any) -> str:
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return text_of(value)


def _to_json(value: Any) -> str:
    measure(value)
    return charge(go_json(value))


JSON_FILTERS: Final = frozenset({_quote, _to_json})
"""Filters that return texts whose size they have counted."""


def _to_yaml(value: Any) -> str:
    measure(value, cost=_YAML_STEPS)
    _check_keys(value)
    return charge(dump_yaml(value).rstrip("\n"))


def _check_keys(value: Any) -> None:
    """Count the comparisons of keys: YAML sorts them character by character."""
    if isinstance(value, dict):
        spend(sum(map(len, value)) * len(value).bit_length() // 4)
        for item in value.values():
            _check_keys(item)
    elif isinstance(value, list):
        for item in value:
            _check_keys(item)


def _from_json(value: Any) -> Any:
    text = text_of(value)
    reserve(_BYTES_PER_JSON_CHARACTER * len(text))
    try:
        return json.loads(text)
    except ValueError as error:
        raise jinja2.TemplateRuntimeError(f"it is not JSON: {error}") from error

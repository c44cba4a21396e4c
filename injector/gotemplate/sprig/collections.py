"""Lists and dictionaries (sprig's list.go and dict.go)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from injector.golang.strconv import to_bytes
from injector.gotemplate import costs
from injector.gotemplate.budget import check_size, reserve, spend
from injector.gotemplate.builtins import slice_
from injector.gotemplate.errors import FuncError
from injector.gotemplate.functions import FuncMap
from injector.gotemplate.sprig.numeric import to_int
from injector.gotemplate.sprig.strings import strslice, strval
from injector.gotemplate.values import Slice, kind_of, type_of

FUNCTIONS: Final = FuncMap()

_COUNTED: Final = 4
"""Integers that are made in a step."""
_INT: Final = 40
"""Bytes of an integer in a list."""
_EMPTY_LIST: Final = 64
_PLACE: Final = 8
"""Bytes of an empty list, and of a place in a list."""


def _items(value: Any, error: str) -> list[Any]:
    """Return a list itself; ``error`` is sprig's text for a value of another kind."""
    if isinstance(value, list):
        return value
    if value is None:
        raise FuncError("runtime error: invalid memory address or nil pointer dereference")
    raise FuncError(error.format(kind_of(value)))


@FUNCTIONS.define("func(int, interface {}) [][]interface {}", "chunk", cost=costs.COPY, must=True)
def chunk(size: int, items: Any) -> Slice:
    """Return a list cut into lists of at most ``size``."""
    elements = _items(items, "Cannot chunk type {}")
    # Go allocates lists by ``size``, which fails for some sizes below 1.
    count = (len(elements) - 1) // size + 1 if size else -1
    if count < 0 or (size < 0 < count and not (elements and size < -1)):
        raise FuncError("runtime error: makeslice: len out of range")
    reserve(_EMPTY_LIST * count + _PLACE * len(elements))
    if size < 0:
        return Slice("[]interface {}", [list(elements)] if count else [])
    parts = [list(elements[at : at + size]) for at in range(0, len(elements), size)]
    return Slice("[]interface {}", parts)


@FUNCTIONS.define("func(interface {}) []string", "sortAlpha", cost=costs.PARTS)
def sort_alpha(value: Any) -> Slice:
    """Return the values of a list as text, sorted by bytes."""
    texts = strslice(value) if isinstance(value, list) else [strval(value)]
    return Slice("string", sorted(texts, key=to_bytes))


def _contains(items: list[Any], wanted: Any) -> bool:
    spend(1 + len(items))
    return any(same(item, wanted) for item in items)


def _without(items: list[Any], *omitted: Any) -> list[Any]:
    return [item for item in items if not _contains(list(omitted), item)]


def _unique(items: list[Any]) -> list[Any]:
    distinct: list[Any] = []
    for item in items:
        if not _contains(distinct, item):
            distinct.append(item)
    return distinct


def _of_list(fault: str, call: Callable[..., Any], items: Any, *args: Any) -> Any:
    """Call a function of a list; ``fault`` is the error for another value."""
    return call(_items(items, fault), *args)


_ITEM: Final = "func(interface {}) interface {}"
_LIST: Final = "func(interface {}) []interface {}"
_AND_VALUE: Final = "func(interface {}, interface {}) []interface {}"
_AND_VALUES: Final = "func(interface {}, ...interface {}) []interface {}"
_NIL: Final = Slice("interface {}", nil=True)
for _names, _signature, _fault, _function, _cost in (
    ("append push", _AND_VALUE, "Cannot push on type {}", lambda items, value: [*items, value], costs.COPY),
    ("prepend", _AND_VALUE, "Cannot prepend on type {}", lambda items, value: [value, *items], costs.COPY),
    ("first", _ITEM, "Cannot find first on type {}", lambda items: items[0] if items else None, costs.NOTHING),
    ("last", _ITEM, "Cannot find last on type {}", lambda items: items[-1] if items else None, costs.NOTHING),
    ("rest", _LIST, "Cannot find rest on type {}", lambda items: items[1:] if items else _NIL, costs.COPY),
    ("initial", _LIST, "Cannot find initial on type {}", lambda items: items[:-1] if items else _NIL, costs.COPY),
    ("reverse", _LIST, "Cannot find reverse on type {}", lambda items: items[::-1], costs.COPY),
    ("compact", _LIST, "Cannot compact on type {}", lambda items: list(filter(None, items)), costs.FILTERED),
    ("uniq", _LIST, "Cannot find uniq on type {}", _unique, costs.ANY),
    ("without", _AND_VALUES, "Cannot find without on type {}", _without, costs.ANY),
):
    FUNCTIONS.define(_signature, *_names.split(), cost=_cost, must=True)(partial(_of_list, _fault, _function))
FUNCTIONS.define("func(...interface {}) []interface {}", "tuple", "list", cost=costs.COPY)(lambda *values: list(values))


@FUNCTIONS.define("func(interface {}, interface {}) bool", "deepEqual")
def same(left: Any, right: Any) -> bool:
    """Return whether two values are deeply equal: of one type and the same (reflect.DeepEqual)."""
    if type(left) is not type(right) or getattr(left, "go_type", "") != getattr(right, "go_type", ""):
        return False
    if isinstance(left, list | dict):
        spend(1 + len(left))
    if isinstance(left, list):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, float) and math.isnan(left):
        return False
    target = getattr(left, "target", None)
    return bool(same(target, right.target)) if target is not None else bool(left == right)


@FUNCTIONS.define("func(interface {}, interface {}) bool", "has", must=True)
def has(wanted: Any, items: Any) -> bool:
    """Return whether a value is in a list."""
    return items is not None and _contains(_items(items, "Cannot find has on type {}"), wanted)


@FUNCTIONS.define("func(interface {}, ...interface {}) interface {}", "slice", cost=costs.COPY, must=True)
def slice_list(items: Any, *indices: Any) -> Any:
    """Return a part of a list."""
    if not _items(items, "list should be type of slice or array but {}"):
        return None
    begin = to_int(indices[0]) if indices else 0
    end = to_int(indices[1]) if len(indices) > 1 else len(items)
    if not 0 <= begin <= end <= len(items):
        raise FuncError("reflect.Value.Slice: slice index out of bounds")
    return slice_(items, begin, end)


@FUNCTIONS.define("func(...interface {}) interface {}", "concat", cost=costs.COPY)
def concat(*lists: Any) -> Any:
    """Return the items of several lists."""
    result: list[Any] = []
    for items in lists:
        check_size(len(result) + len(_items(items, "Cannot concat type {} as list")), "concat")
        result += items
    return result or Slice("interface {}", nil=True)


@FUNCTIONS.define("func(int, int, int) []int", "untilStep", cost=costs.COPY)
def until_step(start: int, stop: int, step: int) -> Slice:
    """Return the integers from ``start`` to ``stop``, without it, by ``step``."""
    if (stop < start and step >= 0) or (stop >= start and step <= 0):
        return Slice("int")
    check_size(-((start - stop) // step), "until")
    numbers = range(start, stop, step)
    spend(len(numbers) // _COUNTED)
    reserve(_INT * len(numbers))
    return Slice("int", numbers)


FUNCTIONS.add("until", "func(int) []int", lambda count: until_step(0, count, -1 if count < 0 else 1), costs.COPY)


@FUNCTIONS.define("func(...int) string", "seq", cost=costs.COPY)
def seq(*params: int) -> str:
    """Return integers as text, like the command of that name: ``seq end``, ``seq start end``, ``seq start step end``."""
    if not 1 <= len(params) <= 3:  # noqa: PLR2004 - the three forms
        return ""
    start = params[0] if len(params) > 1 else 1
    end = params[-1]
    increment = -1 if end < start else 1
    step = params[1] if len(params) == 3 else increment  # noqa: PLR2004 - the three forms
    if len(params) == 3 and end < start and step > 0:  # noqa: PLR2004 - the three forms
        return ""
    numbers = until_step(start, end + increment, step)
    check_size(len(numbers) * len(str(max(abs(start), abs(end)))), "seq")
    return " ".join(map(str, numbers))


Dict = dict[str, Any]


@FUNCTIONS.define("func(...interface {}) map[string]interface {}", "dict", cost=costs.COPY)
def make_dict(*pairs: Any) -> Dict:
    """Return a dictionary of alternating keys and values; a last key alone maps to the empty string."""
    values = [*pairs[1::2], ""]
    return {strval(key): value for key, value in zip(pairs[::2], values, strict=False)}


@FUNCTIONS.define(
    "func(map[string]interface {}, string, interface {}) map[string]interface {}", "set", cost=costs.COPY, mutates=True
)
def set_(entries: Dict, key: str, value: Any) -> Dict:
    """Put a value into the given dictionary, as sprig does, and return it."""
    if getattr(entries, "nil", False):
        raise FuncError("assignment to entry in nil map")
    entries[key] = value
    return entries


@FUNCTIONS.define(
    "func(map[string]interface {}, string) map[string]interface {}", "unset", cost=costs.COPY, mutates=True
)
def unset(entries: Dict, key: str) -> Dict:
    """Remove a key from a dictionary and return it; the one given is changed."""
    entries.pop(key, None)
    return entries


def _some(entries: Dict, *wanted: str) -> Dict:
    return {key: entries[key] for key in wanted if key in entries}


def _others(entries: Dict, *unwanted: str) -> Dict:
    return {key: value for key, value in entries.items() if key not in unwanted}


def _sorted_keys(*dicts: Dict) -> Slice:
    return Slice("string", [key for entries in dicts for key in sorted(entries)])


_DICT: Final = "map[string]interface {}"
# Go's order of keys is random, here they are sorted.
for _name, _signature, _call, _cost in (
    ("get", f"func({_DICT}, string) interface {{}}", lambda entries, key: entries.get(key, ""), costs.NOTHING),
    ("hasKey", f"func({_DICT}, string) bool", lambda entries, key: key in entries, costs.NOTHING),
    (
        "pluck",
        f"func(string, ...{_DICT}) []interface {{}}",
        lambda key, *dicts: [mapping[key] for mapping in dicts if key in mapping],
        costs.COPY,
    ),
    ("keys", f"func(...{_DICT}) []string", _sorted_keys, costs.PARTS),
    (
        "values",
        f"func({_DICT}) []interface {{}}",
        lambda entries: [entries[key] for key in sorted(entries)],
        costs.COPY,
    ),
    ("pick", f"func({_DICT}, ...string) {_DICT}", _some, costs.COPY),
    ("omit", f"func({_DICT}, ...string) {_DICT}", _others, costs.COPY),
):
    FUNCTIONS.add(_name, _signature, _call, _cost)


def _merge(target: Dict, *sources: Dict, overwrite: bool) -> Dict:
    """Merge dictionaries into the first, deeply. Values stay that are not empty, or with ``overwrite`` the later values win."""
    for source in sources:
        for key, value in source.items():
            current = target.get(key)
            if isinstance(current, dict) and isinstance(value, dict):
                _merge(current, value, overwrite=overwrite)
            elif overwrite or (value is not None and not current):
                target[key] = value
    return target


for _name, _overwrite in (("merge", False), ("mergeOverwrite", True)):
    FUNCTIONS.define(
        "func(map[string]interface {}, ...map[string]interface {}) interface {}", _name, mutates=True, must=True
    )(partial(_merge, overwrite=_overwrite))


@FUNCTIONS.define("func(...interface {}) (interface {}, error)", "dig", cost=costs.PASS)
def dig(*path: Any) -> Any:
    """Return the value at a path of keys in the last argument, a dictionary, or the default, the argument before it."""
    if len(path) < 3:  # noqa: PLR2004 - a key, a default and a dictionary
        raise FuncError("dig needs at least three arguments")
    *names, default, entries = path
    _check_step(entries)
    for name in names:
        if not isinstance(name, str):
            raise FuncError(f"interface conversion: interface {{}} is {_format_type(name)}, not string")
    for name in names:
        _check_step(entries)
        if name not in entries:
            return default
        entries = entries[name]
    return entries


def _format_type(value: Any) -> str:
    return "nil" if value is None else type_of(value)


def _check_step(entries: Any) -> None:
    if type(entries) is not dict:
        raise FuncError(
            f"interface conversion: interface {{}} is {_format_type(entries)}, not map[string]interface {{}}"
        )


@FUNCTIONS.define("func(interface {}) interface {}", "deepCopy", must=True)
def deep_copy(value: Any) -> Any:
    """Return a deep copy."""
    if value is None:
        raise FuncError("reflect: call of reflect.Value.Type on zero Value")
    return copy.deepcopy(value)

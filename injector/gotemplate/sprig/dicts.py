"""Dictionaries (sprig's dict.go)."""

from __future__ import annotations

import copy
from typing import Any

from injector.gotemplate.errors import FuncError
from injector.gotemplate.reflect import is_true, type_of
from injector.gotemplate.sprig.strings import strval
from injector.gotemplate.values import Slice

Dict = dict[str, Any]


def make_dict(*pairs: Any) -> Dict:
    """Return a dictionary of alternating keys and values; a last key alone maps to the empty string."""
    values = [*pairs[1::2], ""]
    return {strval(key): value for key, value in zip(pairs[::2], values, strict=False)}


def get(entries: Dict, key: str) -> Any:
    """Return the value of a key, the empty string where there is none."""
    return entries.get(key, "")


def set_(entries: Dict, key: str, value: Any) -> Dict:
    """Put a value into a dictionary and return it; sprig changes the one given, and so does this."""
    if getattr(entries, "nil", False):
        raise FuncError("assignment to entry in nil map")
    entries[key] = value
    return entries


def unset(entries: Dict, key: str) -> Dict:
    """Remove a key from a dictionary and return it; the one given is changed."""
    entries.pop(key, None)
    return entries


def has_key(entries: Dict, key: str) -> bool:
    """Return whether a key is there."""
    return key in entries


def pluck(key: str, *dicts: Dict) -> list[Any]:
    """Return a key's values from several dictionaries."""
    return [entries[key] for entries in dicts if key in entries]


def keys(*dicts: Dict) -> Slice:
    """Return all keys; Go's order is random, here it is sorted."""
    return Slice("string", [key for entries in dicts for key in sorted(entries)])


def values(entries: Dict) -> list[Any]:
    """Return all values; Go's order is random, here it is by key."""
    return [entries[key] for key in sorted(entries)]


def pick(entries: Dict, *wanted: str) -> Dict:
    """Return a dictionary with some of the keys."""
    return {key: entries[key] for key in wanted if key in entries}


def omit(entries: Dict, *unwanted: str) -> Dict:
    """Return a dictionary without some of the keys."""
    return {key: value for key, value in entries.items() if key not in unwanted}


def merge(target: Dict, *sources: Dict) -> Dict:
    """Merge dictionaries into the first, deeply, what is there and not empty winning; the first is changed."""
    for source in sources:
        _merge(target, source, overwrite=False)
    return target


def merge_overwrite(target: Dict, *sources: Dict) -> Dict:
    """Merge dictionaries into the first, deeply, the later winning; the first is changed."""
    for source in sources:
        _merge(target, source, overwrite=True)
    return target


def _merge(target: Dict, source: Dict, *, overwrite: bool) -> None:
    for key, value in source.items():
        current = target.get(key)
        if isinstance(current, dict) and isinstance(value, dict):
            _merge(current, value, overwrite=overwrite)
        elif overwrite or (value is not None and not is_true(current)):
            target[key] = value


def dig(*path: Any) -> Any:
    """Return what a path of keys leads to in the dictionary given last, or the default given before it."""
    if len(path) < 3:  # noqa: PLR2004 - a key, a default and a dictionary
        raise FuncError("dig needs at least three arguments")
    *names, default, entries = path
    _checked_step(entries)
    for name in names:
        if not isinstance(name, str):
            raise FuncError(f"interface conversion: interface {{}} is {_type_shown(name)}, not string")
    for name in names:
        _checked_step(entries)
        if name not in entries:
            return default
        entries = entries[name]
    return entries


def _type_shown(value: Any) -> str:
    return "nil" if value is None else type_of(value)


def _checked_step(entries: Any) -> None:
    if type(entries) is not dict:
        raise FuncError(
            f"interface conversion: interface {{}} is {_type_shown(entries)}, not map[string]interface {{}}"
        )


def deep_copy(value: Any) -> Any:
    """Return a deep copy."""
    if value is None:
        raise FuncError("reflect: call of reflect.Value.Type on zero Value")
    return copy.deepcopy(value)

"""Dictionaries and lists that cannot be changed: the parts of a ``Revision`` that are JSON data."""

from __future__ import annotations

from typing import Any, NoReturn


def _refuse(self: object, *_args: object, **_kwargs: object) -> NoReturn:
    raise TypeError(f"a {type(self).__name__} cannot be changed")


def _thaw(value: Any, _memo: object = None) -> Any:
    """Return a copy of JSON data that may be changed."""
    if isinstance(value, dict):
        return {key: _thaw(item) for key, item in value.items()}
    return [_thaw(item) for item in value] if isinstance(value, list) else value


class FrozenDict(dict[str, Any]):
    """A dictionary that refuses changes; a deep copy of it is a plain dictionary."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse
    __deepcopy__ = _thaw


class FrozenList(list[Any]):
    """A list that refuses changes; a deep copy of it is a plain list."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse
    __deepcopy__ = _thaw


def frozen(value: Any) -> Any:
    """Return JSON data in which no dictionary and no list can be changed; data that is frozen already is returned as it is."""
    if isinstance(value, FrozenDict | FrozenList):
        return value
    if isinstance(value, dict):
        return FrozenDict({key: frozen(item) for key, item in value.items()})
    if isinstance(value, list):
        return FrozenList([frozen(item) for item in value])
    return value

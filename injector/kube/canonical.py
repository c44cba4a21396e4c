"""Whether Go writes a JSON object as it came: ``normalise(value, type) is value``, found out without making another one.

What the API server sends has been through Go already, so that nearly every object of its is canonical.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from injector.errors import DataError
from injector.kube.schema import OPAQUE, struct_type, underlying
from injector.kube.typed import ALWAYS_WRITTEN, drops_empty, normalise
from injector.kube.typedscalar import INTEGERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from injector.kube.schema import StructType

Check: TypeAlias = "Callable[[Any], bool]"

_PLAIN: Final[dict[str, type]] = {"string": str, "bool": bool}
_QUANTITY: Final = "resource.Quantity"
# Quantities repeat, and a short one takes longer to read than to remember.
_QUANTITIES: Final = 1024
_SHORT: Final = 32


class _Check(NamedTuple):
    """How a value of a type is checked: its class, where there is one alone, and what else is asked of it."""

    kind: type | None
    rest: Check | None


class _Field(NamedTuple):
    """How a field is checked."""

    kind: type | None
    rest: Check | None
    drops_empty: bool


def is_canonical(value: Any, type_name: str) -> bool:
    """Return whether ``value``, JSON data, is what Go writes for it as ``type_name``, such as ``v1.PodSpec``.

    Fields that Go does not know count for nothing, as ``normalise`` keeps them.
    """
    kind, rest = _check(type_name)
    return value is not None and (kind is None or type(value) is kind) and (rest is None or rest(value))


def normalised(value: Any, type_name: str, *, coerce: bool = False) -> Any:
    """Return what ``normalise`` does, sooner where that is ``value`` itself.

    Raises:
        ManifestError: as ``normalise``.
    """
    return value if is_canonical(value, type_name) else normalise(value, type_name, coerce=coerce)


@cache
def _check(type_name: str) -> _Check:
    if type_name in OPAQUE:
        return _Check(None, _is_quantity if type_name == _QUANTITY else _unchanged(type_name))
    if type_name.startswith("*"):
        return _check(type_name[1:])
    if struct_type.known(type_name):
        return _Check(dict, _struct_check(struct_type(type_name)))
    base = underlying(type_name)
    if base.startswith("[]"):
        return _Check(list, _all_check(_check(base[2:]), iter))
    if base.startswith("map["):
        return _Check(dict, _all_check(_check(base.partition("]")[2]), dict.values))
    if base in INTEGERS:
        limit = INTEGERS[base]
        return _Check(int, lambda value: -limit <= value < limit)
    return _Check(_PLAIN[base], None)


def _unchanged(type_name: str) -> Check:
    def check(value: Any) -> bool:
        try:
            return normalise(value, type_name) is value
        except DataError:
            return False

    return check


_quantity_unchanged: Final = _unchanged(_QUANTITY)
_short_quantity_unchanged: Final = lru_cache(_QUANTITIES)(_quantity_unchanged)


def _is_quantity(value: Any) -> bool:
    is_short = type(value) is str and len(value) < _SHORT
    return _short_quantity_unchanged(value) if is_short else _quantity_unchanged(value)


def _all_check(item_check: _Check, items: Callable[[Any], Iterable[Any]]) -> Check:
    kind, rest = item_check
    if rest is None:
        return lambda value: all(type(item) is kind for item in items(value))

    def check(value: Any) -> bool:
        for item in items(value):  # noqa: SIM110 -- a generator takes twice as long
            if (type(item) is not kind and kind is not None) or item is None or not rest(item):
                return False
        return True

    return check


def _fields(struct: StructType) -> Iterator[tuple[str, _Field]]:
    for field in struct.fields:
        if field.inline:
            yield from _fields(struct_type(field.type))
        else:
            yield field.json, _Field(*_check(field.type), drops_empty(field))


def _struct_check(struct: StructType) -> Check:
    fields = dict(_fields(struct))
    always = {field.json for field in struct.by_json.values() if field.type in ALWAYS_WRITTEN}

    def check(value: Any) -> bool:
        for key, item in value.items():
            field = fields.get(key)
            if field is None:
                # Go takes a name in other letters for the field; one that it does not know at all is kept.
                if struct.json_field(key) is not None:
                    return False
                continue
            kind, rest, drops = field
            if (item.__class__ is not kind and kind is not None) or item is None or (drops and not item):
                return False
            if rest is not None and not rest(item):
                return False
        return bool(always <= value.keys())

    return check

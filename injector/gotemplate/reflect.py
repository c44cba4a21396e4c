"""Go's view of values (package reflect): type, kind, truth, the target of a pointer."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from injector.golang.strconv import byte_length, to_bytes
from injector.gotemplate.errors import FuncError
from injector.gotemplate.values import Float32, Func, Map, NamedString, Pointer, SizedInt, Slice, Struct, Uint8


class _NoValue:
    """The zero reflect.Value, the result of a missing map key."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "<no value>"


NO_VALUE: Final = _NoValue()
"""Stands for reflect's invalid value: a missing key, or a nil interface at the end of a pipeline. Prints ``<no value>``."""

ANY: Final = "interface {}"
_PLAIN: Final[dict[type, str]] = {
    bool: "bool",
    str: "string",
    int: "int",
    float: "float64",
    complex: "complex128",
    list: "[]interface {}",
    dict: "map[string]interface {}",
    bytes: "[]uint8",
}
BASIC_KINDS: Final[dict[str, str]] = {
    **dict.fromkeys(("int", "int8", "int16", "int32", "int64"), "int"),
    **dict.fromkeys(("uint", "uint8", "uint16", "uint32", "uint64", "uintptr"), "uint"),
    **dict.fromkeys(("float32", "float64"), "float"),
    **dict.fromkeys(("complex64", "complex128"), "complex"),
    "bool": "bool",
    "string": "string",
}
"""The kinds that templates compare, by type."""


def type_of(value: Any) -> str:
    """Return a value's Go type as ``%T`` prints it; nil is ``<nil>``."""
    plain = _PLAIN.get(type(value))
    if plain is not None:
        return plain
    if value is None or value is NO_VALUE:
        return "<nil>"
    if isinstance(value, Func):
        return value.signature
    return str(value.go_type)


def kind_of(value: Any) -> str:
    """Return a value's reflect.Kind: bool, string, int ..., float64, slice, map, struct, ptr, func or invalid."""
    if value is None or value is NO_VALUE:
        return "invalid"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, SizedInt):
        python: Any = type(value)
        return _integer_kind(python)
    for python, kind in _KINDS:
        if isinstance(value, python):
            return kind
    return "struct"


_KINDS: Final[tuple[tuple[type, str], ...]] = (
    (int, "int"),
    (Float32, "float32"),
    (float, "float64"),
    (complex, "complex128"),
    (list, "slice"),
    (bytes, "slice"),
    (dict, "map"),
    (Pointer, "ptr"),
    (Func, "func"),
    (Struct, "struct"),
)


@cache
def _integer_kind(kind: Any) -> str:
    """Return the kind of a class of integers; a defined type, such as an enumeration, has the kind of the class it derives from."""
    names = (base.__dict__.get("go_type") for base in kind.__mro__)
    return next((name for name in names if isinstance(name, str) and name in BASIC_KINDS), "int")


def basic_kind(value: Any) -> str:
    """Return the kind by which templates compare: bool, complex, int, uint, float, string, or empty for the others."""
    return BASIC_KINDS.get(kind_of(value), "")


def is_nil(value: Any) -> bool:
    """Return whether a value is nil: no value, a nil interface, pointer, slice or map."""
    if value is None or value is NO_VALUE:
        return True
    if isinstance(value, Pointer):
        return value.target is None
    return bool(getattr(value, "nil", False)) if isinstance(value, Slice | Map | Func) else False


def indirect(value: Any) -> tuple[Any, bool]:
    """Follow pointers; return the target and whether it is nil. A nil pointer is returned itself."""
    while isinstance(value, Pointer):
        if value.target is None:
            return value, True
        value = value.target
    return value, value is None


def is_true(value: Any) -> bool:
    """Return Go's truth of a value: not zero, not empty, not nil; a struct is always true. In the value model this is Python's truth."""
    return bool(value)


def length(value: Any) -> int | None:
    """Return Go's len, or None if a value has no length."""
    if isinstance(value, str):
        return byte_length(value)
    return len(value) if isinstance(value, list | dict | bytes) else None


def element_type(value: Any) -> str:
    """Return the type of the elements of a slice or map."""
    return value.elem if isinstance(value, Slice | Map) else ANY


def holds_interface(container: Any, name: str, *, is_key: bool) -> bool:
    """Return whether reflection sees an element or key of a container, or a struct's field ``name``, as an interface {}."""
    container = indirect(container)[0]
    if isinstance(container, Struct):
        return container.is_interface(name)
    if isinstance(container, dict):
        return (key_type(container) if is_key else element_type(container)) == ANY
    return isinstance(container, list) and not is_key and element_type(container) == ANY


class _Interface:
    """A value inside an interface, for functions that Go does not have look inside."""

    __slots__ = ()
    go_type = ANY


INTERFACE: Final = _Interface()


def key_type(value: dict[Any, Any]) -> str:
    """Return the type of a map's keys."""
    return value.key if isinstance(value, Map) else "string"


def zero_element(value: Any) -> Any:
    """Return the zero value of a map's elements."""
    if not isinstance(value, Map):
        return None
    zero = value.zero()
    return zero_of(value.elem) if zero is None else zero


def _nil_call(*_args: Any) -> Any:
    raise FuncError("runtime error: invalid memory address or nil pointer dereference")


def zero_of(go_type: str) -> Any:
    """Return the zero value of a type that a map's elements can have."""
    if go_type == ANY:
        return None
    if go_type.startswith("func("):
        return Func("nil", go_type, _nil_call, nil=True)
    if go_type.startswith("*"):
        return Pointer(go_type)
    if go_type.startswith("[]"):
        return Slice(go_type[2:], nil=True)
    if go_type.startswith("map["):
        key, _, elem = go_type[4:].partition("]")
        return Map(key, elem, nil=True)
    if go_type in _ZEROS:
        return _ZEROS[go_type]
    return NamedString(go_type, "")


_ZEROS: Final[dict[str, Any]] = {
    "string": "",
    "bool": False,
    "int": 0,
    "float64": 0.0,
    "uint8": Uint8(0),
    **{cls.go_type: cls(0) for cls in SizedInt.__subclasses__()},
}


def sorted_items(value: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """Return a map's entries in the order Go ranges and prints them: by key, strings by bytes."""
    if isinstance(next(iter(value), None), str) and not all(map(str.isascii, value)):
        return sorted(value.items(), key=lambda item: to_bytes(item[0]))
    return sorted(value.items())


_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def json_data(value: Any) -> Any:
    """Return a value as encoding/json sees it, as JSON data in its order: maps by key, structs field by field.

    Raises:
        FuncError: JSON has no text for a type; with Go's text.
    """
    if value.__class__ in _SCALARS:
        return value
    as_json = getattr(value, "json_value", None)
    if as_json is not None:
        return as_json()
    if isinstance(value, Pointer):
        return None if value.target is None else json_data(value.target)
    if isinstance(value, Struct):
        return {name: json_data(item) for name, item in value.fields()}
    if getattr(value, "nil", False):
        return None
    if isinstance(value, dict):
        return {str(key): json_data(item) for key, item in sorted_items(value)}
    if isinstance(value, list):
        return [json_data(item) for item in value]
    if isinstance(value, str | int | float):
        return value
    raise FuncError(f"json: unsupported type: {type_of(value)}")

"""The Go value model that templates see, on Python values, and what reflection (package reflect) says of a value.

Plain Python values stand for what Go's ``encoding/json`` and untyped constants give; the classes here stand for Go types that
have no Python twin. Types are written in Go's own spelling ("int64", "[]string", "map[string]interface {}", "*v1.Probe"), the
text that ``%T`` prints.

===================  =========================================================
Python               Go
===================  =========================================================
None                 nil interface
bool, str, float     bool, string, float64
int                  int
Int8 ... Uint64      int8 ... uint64 (``SizedInt`` subclasses)
NamedString          a defined string type, such as v1.DNSPolicy
list                 []interface {}
Slice                a slice of another element type, such as []string
dict                 map[string]interface {}
Map                  a map of other types, such as map[string]string
Pointer              a pointer, nil or not, to any value
Struct               a Go struct (abstract; hosts implement it)
Func                 a function value with its Go signature
===================  =========================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final, Self

from injector.golang.strconv import byte_length, to_bytes, to_float32
from injector.gotemplate import costs
from injector.gotemplate.errors import FuncError


class SizedInt(int):
    """An integer of a Go type other than int; ``go_type`` names it: the class's name, unless the class says another."""

    go_type: ClassVar[str] = "int"

    def __init_subclass__(cls) -> None:
        if "go_type" not in cls.__dict__:
            cls.go_type = cls.__name__.lower()


class Int8(SizedInt):
    """Go's int8."""


class Int16(SizedInt):
    """Go's int16."""


class Int32(SizedInt):
    """Go's int32 (rune)."""


class Int64(SizedInt):
    """Go's int64."""


class Uint(SizedInt):
    """Go's uint."""


class Uint8(SizedInt):
    """Go's uint8 (byte)."""


class Uint16(SizedInt):
    """Go's uint16."""


class Uint32(SizedInt):
    """Go's uint32."""


class Uint64(SizedInt):
    """Go's uint64."""


class Float32(float):
    """Go's float32: the nearest one to the number given."""

    __slots__ = ()
    go_type: ClassVar[str] = "float32"

    def __new__(cls, value: float) -> Self:
        """Round ``value`` to a float32."""
        return super().__new__(cls, to_float32(value))


class NamedString(str):
    """A value of a defined Go string type, such as v1.DNSPolicy."""

    __slots__ = ("go_type",)
    go_type: str

    def __new__(cls, go_type: str, value: str) -> Self:
        """Make a string ``value`` of the defined type ``go_type``."""
        self = super().__new__(cls, value)
        self.go_type = go_type
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class Slice(list[Any]):
    """A slice whose element type is not interface {}; a nil slice has ``nil`` set and no elements."""

    __slots__ = ("elem", "nil")

    def __init__(self, elem: str, items: Any = (), *, nil: bool = False) -> None:
        super().__init__(items)
        self.elem = elem
        self.nil = nil

    @property
    def go_type(self) -> str:
        """The type in Go's spelling."""
        return "[]" + self.elem


class Map(dict[Any, Any]):
    """A map of other types than map[string]interface {}; a nil map has ``nil`` set and no entries."""

    __slots__ = ("elem", "is_of_strings", "key", "nil")

    def __init__(self, key: str, elem: str, items: Any = (), *, nil: bool = False) -> None:
        super().__init__(items)
        self.key = key
        self.elem = elem
        self.nil = nil
        self.is_of_strings = key == elem == "string"

    @property
    def go_type(self) -> str:
        """The type in Go's spelling."""
        return f"map[{self.key}]{self.elem}"

    def zero(self) -> Any:
        """Return the zero value of an element that is a struct; None for other elements."""
        return None


class Pointer:
    """A Go pointer; ``target`` is None for a nil pointer. ``go_type`` includes the star."""

    __slots__ = ("go_type", "target")

    def __init__(self, go_type: str, target: Any = None) -> None:
        self.go_type = go_type
        self.target = target

    def __bool__(self) -> bool:
        return self.target is not None

    def method(self, name: str) -> Func | None:
        """Return the method ``name`` that can be called on a nil pointer, or None. Other pointers have their target's methods."""
        del name
        return None

    def has_field(self, name: str) -> bool:
        """Return whether a nil pointer is one to a struct with the field ``name``; errors differ."""
        del name
        return True


class Struct:
    """A Go struct that a host exposes to templates, without fields. The engine reads it through these methods only.

    ``go_type`` is the type in Go's spelling, without a star. A value of any class may have a method ``go_string``: what its Go type's
    ``String`` or ``Error`` returns, which printing uses.
    """

    __slots__ = ()
    go_type: str

    def field(self, name: str) -> Any:
        """Return the exported field ``name`` (Go spelling, zero value if unset); raise KeyError for another name."""
        raise KeyError(name)

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Yield every field in declaration order, as ``%v`` and ``%+v`` print them."""
        return iter(())

    def parts(self) -> Any:
        """Return the data that it consists of, for size accounting."""
        return [value for _, value in self.fields()]

    def method(self, name: str) -> Func | None:
        """Return the method ``name`` bound to this value, or None."""
        del name
        return None

    def is_interface(self, name: str) -> bool:
        """Return whether the field ``name`` has the type interface {}, which errors then name instead of its value's."""
        del name
        return False

    def is_unexported(self, name: str) -> bool:
        """Return whether ``name`` is a field that templates may not read; the error says so."""
        del name
        return False


class OpaqueStruct(Struct):
    """A struct that exports no fields, only methods; it compares as a whole."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Func:
    """A function that templates can call.

    ``signature`` is Go's own, for example ``func(string, ...interface {}) (string, error)``: the engine checks and converts
    arguments by it and words errors as Go does. ``call`` takes the arguments positionally (variadic ones flattened) and returns
    the single result; it raises ``gotemplate.errors.FuncError`` where Go's function returns an error or panics. ``hermetic`` is False
    for functions whose result depends on more than their arguments (clock, environment, randomness). ``mutates`` is True for functions
    that change a map they are given. ``nil`` marks a nil function value. ``cost`` is what a call takes.
    """

    name: str
    signature: str
    call: Callable[..., Any]
    hermetic: bool = True
    nil: bool = False
    mutates: bool = False
    cost: costs.Cost = costs.ANY

    def __bool__(self) -> bool:
        return not self.nil


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


SIZED_INTS: Final = {cls.go_type: cls for cls in SizedInt.__subclasses__()}
_KINDS: Final[dict[type, str]] = {
    **{cls: name for name, cls in SIZED_INTS.items()},
    type(None): "invalid",
    _NoValue: "invalid",
    bool: "bool",
    str: "string",
    int: "int",
    Float32: "float32",
    float: "float64",
    complex: "complex128",
    list: "slice",
    bytes: "slice",
    dict: "map",
    Pointer: "ptr",
    Func: "func",
}


def kind_of(value: Any) -> str:
    """Return a value's reflect.Kind: bool, string, int ..., float64, slice, map, struct, ptr, func or invalid.

    A defined type, such as an enumeration, has the kind of the class that it derives from.
    """
    cls: Any = type(value)
    return _kind(cls)


@cache
def _kind(cls: Any) -> str:
    return next((_KINDS[base] for base in cls.__mro__ if base in _KINDS), "struct")


def basic_kind(value: Any) -> str:
    """Return the kind by which templates compare: bool, complex, int, uint, float, string, or empty for the others."""
    return BASIC_KINDS.get(kind_of(value), "")


def is_nil(value: Any) -> bool:
    """Return whether a value is nil: no value, a nil interface, pointer, slice or map."""
    if value is None or value is NO_VALUE:
        return True
    return value.target is None if isinstance(value, Pointer) else bool(getattr(value, "nil", False))


def indirect(value: Any) -> tuple[Any, bool]:
    """Follow pointers; return the target and whether it is nil. A nil pointer is returned itself."""
    while isinstance(value, Pointer):
        if value.target is None:
            return value, True
        value = value.target
    return value, value is None


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
    """Return the zero value of a type that a map's elements or a function's parameters can have."""
    if go_type in _ZEROS:
        return _ZEROS[go_type]
    if go_type.startswith("func("):
        return Func("nil", go_type, _nil_call, nil=True)
    if go_type.startswith("*"):
        return Pointer(go_type)
    if go_type.startswith("[]"):
        return Slice(go_type[2:], nil=True)
    if go_type.startswith("map["):
        key, _, elem = go_type[4:].partition("]")
        return Map(key, elem, nil=True)
    return NamedString(go_type, "")


REFLECT: Final = "reflect.Value"
_ZEROS: Final[dict[str, Any]] = {
    ANY: None,
    REFLECT: NO_VALUE,
    "string": "",
    "bool": False,
    "int": 0,
    "float64": 0.0,
    **{name: cls(0) for name, cls in SIZED_INTS.items()},
}


def sorted_items(value: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """Return a map's entries in the order Go ranges and prints them: by key, strings by bytes."""
    if isinstance(next(iter(value), None), str) and not all(map(str.isascii, value)):
        return sorted(value.items(), key=lambda item: to_bytes(item[0]))
    return sorted(value.items())


_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def json_data(value: Any) -> Any:
    """Return a value as JSON data in encoding/json's order: maps by key, structs field by field. Raises FuncError with Go's text."""
    if value.__class__ in _SCALARS:
        return value
    as_json = getattr(value, "json_value", None)
    if as_json is not None:
        return as_json()
    if is_nil(value):
        return None
    if isinstance(value, Pointer):
        return json_data(value.target)
    if isinstance(value, Struct):
        return {name: json_data(item) for name, item in value.fields()}
    if isinstance(value, dict):
        return {str(key): json_data(item) for key, item in sorted_items(value)}
    if isinstance(value, list):
        return [json_data(item) for item in value]
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | float):
        return value
    raise FuncError(f"json: unsupported type: {type_of(value)}")

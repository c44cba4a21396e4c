"""The Go value model that templates see, on Python values.

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

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from injector.golang.strconv import to_float32
from injector.gotemplate.costs import ANY, Cost


class SizedInt(int):
    """An integer of a Go type other than int; ``go_type`` names it."""

    __slots__ = ()
    go_type: ClassVar[str] = "int"


class Int8(SizedInt):
    """Go's int8."""

    __slots__ = ()
    go_type = "int8"


class Int16(SizedInt):
    """Go's int16."""

    __slots__ = ()
    go_type = "int16"


class Int32(SizedInt):
    """Go's int32 (rune)."""

    __slots__ = ()
    go_type = "int32"


class Int64(SizedInt):
    """Go's int64."""

    __slots__ = ()
    go_type = "int64"


class Uint(SizedInt):
    """Go's uint."""

    __slots__ = ()
    go_type = "uint"


class Uint8(SizedInt):
    """Go's uint8 (byte)."""

    __slots__ = ()
    go_type = "uint8"


class Uint16(SizedInt):
    """Go's uint16."""

    __slots__ = ()
    go_type = "uint16"


class Uint32(SizedInt):
    """Go's uint32."""

    __slots__ = ()
    go_type = "uint32"


class Uint64(SizedInt):
    """Go's uint64."""

    __slots__ = ()
    go_type = "uint64"


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


class Struct(ABC):
    """A Go struct that a host exposes to templates. The engine reads it through these methods only.

    A value of any class may have a method ``go_string``: what its Go type's ``String`` or ``Error`` returns, which printing uses.
    """

    __slots__ = ()

    def __bool__(self) -> bool:
        return True

    @property
    @abstractmethod
    def go_type(self) -> str:
        """The type in Go's spelling, without a star."""

    @abstractmethod
    def field(self, name: str) -> Any:
        """Return the exported field ``name`` (Go spelling, zero value if unset); raise KeyError for another name."""

    @abstractmethod
    def fields(self) -> Iterator[tuple[str, Any]]:
        """Yield every field in declaration order, as ``%v`` and ``%+v`` print them."""

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
    """A struct that exports no fields, only methods."""

    __slots__ = ()

    def field(self, name: str) -> Any:
        """Raise KeyError."""
        raise KeyError(name)

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Return an empty iterator."""
        return iter(())


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
    cost: Cost = ANY

    def __bool__(self) -> bool:
        return not self.nil

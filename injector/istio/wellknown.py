"""The values that a message's fields may hold beside messages, as templates see them: enumerations, and protobuf's well-known types.

They are what Go's generated structs hold: an enumeration that prints by its name, google.protobuf.Duration and the wrapped scalars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from injector.gotemplate.values import Func, Int32, Int64, Struct
from injector.istio.duration import go_duration, json_duration
from injector.istio.protoschema import enum_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class EnumValue(Int32):
    """A value of an enumeration: a number that prints by its name."""

    _names: Mapping[int, str]
    go_type: str  # type: ignore[misc] # each enumeration has its own; int leaves no room for slots

    def __new__(cls, type_name: str, number: int) -> Self:
        """Make the value ``number`` of the enumeration of that protobuf name."""
        self = super().__new__(cls, number)
        kind = enum_type(type_name)
        self.go_type = kind.go_type
        self._names = kind.names
        return self

    def go_string(self) -> str:
        """Return the name; the number where the enumeration has none."""
        return self._names.get(int(self), str(int(self)))

    def __str__(self) -> str:
        return self.go_string()

    def method(self, name: str) -> Func | None:
        """Return the method String."""
        return Func(name, "func() string", self.go_string) if name == "String" else None


class DurationValue(Struct):
    """A google.protobuf.Duration."""

    __slots__ = ("nanoseconds",)

    def __init__(self, nanoseconds: int) -> None:
        self.nanoseconds = nanoseconds

    @property
    def go_type(self) -> str:
        """The Go type."""
        return "durationpb.Duration"

    def field(self, name: str) -> Any:
        """Return Seconds or Nanos."""
        return dict(self.fields())[name]

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Yield Seconds and Nanos."""
        sign = -1 if self.nanoseconds < 0 else 1
        seconds, nanos = divmod(abs(self.nanoseconds), 1_000_000_000)
        yield "Seconds", Int64(sign * seconds)
        yield "Nanos", Int32(sign * nanos)

    def method(self, name: str) -> Func | None:
        """Return the getters."""
        found = dict(self.fields()).get(name.removeprefix("Get")) if name.startswith("Get") else None
        return None if found is None else Func(name, "func() interface {}", lambda: found)

    def go_string(self) -> str:
        """Return it as protobuf's text format prints it."""
        return " ".join(f"{name.lower()}:{int(value)}" for name, value in self.fields() if value)

    def json_value(self) -> str:
        """Return it as JSON."""
        return json_duration(self.nanoseconds)


class OneField(Struct):
    """A struct of one field, such as Go wraps the member of a oneof into."""

    __slots__ = ("_go_type", "_name", "value")

    def __init__(self, go_type: str, name: str, value: Any) -> None:
        self._go_type = go_type
        self._name = name
        self.value = value

    @property
    def go_type(self) -> str:
        """The Go type."""
        return self._go_type

    def field(self, name: str) -> Any:
        """Return the field; KeyError for another."""
        return dict(self.fields())[name]

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Yield the field."""
        yield self._name, self.value


class WrapperValue(OneField):
    """A wrapped scalar, such as google.protobuf.BoolValue."""

    __slots__ = ()

    def __init__(self, go_type: str, value: Any) -> None:
        super().__init__(go_type, "Value", value)

    def method(self, name: str) -> Func | None:
        """Return GetValue."""
        return Func(name, "func() interface {}", lambda: self.value) if name == "GetValue" else None

    def go_string(self) -> str:
        """Return it as protobuf's text format prints it."""
        return f"value:{str(self.value).lower() if isinstance(self.value, bool) else self.value}" if self.value else ""

    def json_value(self) -> Any:
        """Return it as JSON."""
        return self.value


def format_duration(duration: Any) -> str:
    """Return a DurationValue as Go's time.Duration prints it."""
    return go_duration(duration.nanoseconds)

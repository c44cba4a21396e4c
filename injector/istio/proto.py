"""Messages of istio.io/api, seen by templates as Go's generated structs: nil pointers, getters, oneofs and typed zero values.

``protojson`` reads and writes them, ``wellknown`` has the values that are no messages of istio.io/api.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, TypeVar

from injector.gotemplate.values import Func, Int32, Int64, Map, Pointer, SizedInt, Slice, Struct, Uint32, Uint64
from injector.istio.protojson import read_fields, write_fields
from injector.istio.protoschema import DURATION, FREE_FORM, WRAPPERS, Field, MessageType, enum_type, message_type
from injector.istio.wellknown import DurationValue, EnumValue, OneField, WrapperValue
from injector.kube.serial import go_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

T = TypeVar("T")
_INTEGERS: Final[dict[str, type[SizedInt]]] = {"int32": Int32, "int64": Int64, "uint32": Uint32, "uint64": Uint64}


def parse_message(
    type_name: str, data: Mapping[str, Any], *, base: Mapping[str, Any] | None = None, where: str = ""
) -> Message:
    """Read JSON data as a message on top of ``base``; unknown fields are ignored, as Istio ignores them.

    A member of a oneof takes the place of the one that ``base`` sets.

    Raises:
        ConfigError: a field has the wrong type; with its path.
    """
    kind = message_type(type_name)
    found = read_fields(kind, data, where=where)
    taken = {kind.by_json[name].oneof for name in found} - {""}
    kept = {name: value for name, value in (base or {}).items() if kind.by_json[name].oneof not in taken}
    return Message(kind, {**kept, **found})


def to_json(message: Message) -> str:
    """Return a message as jsonpb prints it: compact, in declaration order, zero values left out."""
    return go_json(message.json_value())


class MessagePointer(Pointer):
    """A pointer to a message, nil or not; getters work on nil too, as the generated ones do."""

    __slots__ = ("type_name",)

    def __init__(self, type_name: str, go_type: str, target: Any = None) -> None:
        super().__init__(go_type, target)
        self.type_name = type_name

    def method(self, name: str) -> Func | None:
        """Return a getter, which gives the zero value on a nil pointer."""
        target = self.target if self.target is not None else _zero_message(self.type_name)
        found: Func | None = target.method(name)
        return found

    def json_value(self) -> Any:
        """Return the message as JSON; null for nil."""
        return None if self.target is None else self.target.json_value()


def _zero_message(type_name: str) -> Any:
    if type_name == DURATION:
        return DurationValue(0)
    if type_name in WRAPPERS:
        return WrapperValue("", _scalar(WRAPPERS[type_name], None))
    return Message(message_type(type_name), {})


class Message(Struct):
    """A message: set fields by JSON name, each in plain form. It never changes.

    Plain forms: enums are numbers, durations nanoseconds, wrapped scalars the scalar, messages nested mappings.
    """

    __slots__ = ("_derived", "kind", "values")

    def __init__(self, kind: MessageType, values: Mapping[str, Any]) -> None:
        self._derived: dict[Any, Any] = {}
        self.kind = kind
        self.values = values

    def derived(self, compute: Callable[[Message], T]) -> T:
        """Return what a pure function returns for the message; it is called once."""
        if compute not in self._derived:
            self._derived[compute] = compute(self)
        found: T = self._derived[compute]
        return found

    @property
    def go_type(self) -> str:
        """The Go type."""
        return self.kind.go_type

    def field(self, name: str) -> Any:
        """Return a field by its Go name, or a oneof by its own; KeyError for neither."""
        if name in self.kind.oneofs:
            return self._oneof(name)
        field = self.kind.by_go[name]
        return _go_value(field, self.values.get(field.json))

    def _oneof(self, name: str) -> Any:
        for field in self.kind.fields:
            if field.oneof == name and field.json in self.values:
                go_type = f"{self.kind.go_type}_{field.go}"
                return Pointer(f"*{go_type}", OneField(go_type, field.go, self.field(field.go)))
        return None

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Yield the fields in declaration order."""
        for field in self.kind.fields:
            yield field.go, self.field(field.go)

    def parts(self) -> Any:
        """Return the fields that are set."""
        return self.values

    def method(self, name: str) -> Func | None:
        """Return a generated getter."""
        asked = name[3:] if name.startswith("Get") else ""
        if asked not in self.kind.by_go and asked not in self.kind.oneofs:
            return None
        return Func(name, "func() interface {}", lambda: self.field(asked))

    def go_string(self) -> str:
        """Return the message as JSON; Go prints protobuf's text format, which is not stable."""
        return to_json(self)

    def json_value(self) -> dict[str, Any]:
        """Return the message as JSON data, set fields in declaration order."""
        return write_fields(self.kind, self.values)


def _go_value(field: Field, value: Any) -> Any:
    """Return a plain form as the Go field that templates read."""
    element = _go_element_type(field)
    if field.map_key:
        items = {key: _go_element(field, item) for key, item in (value or {}).items()}
        return Map(field.map_key, element, items, nil=value is None)
    if field.repeated:
        return Slice(element, [_go_element(field, item) for item in value or ()], nil=value is None)
    return _go_element(field, value)


def _go_element_type(field: Field) -> str:
    if field.kind == "message":
        return f"*{message_type(field.type).go_type}"
    if field.kind == "enum":
        return enum_type(field.type).go_type
    return {"double": "float64", "float": "float32", "bytes": "[]uint8"}.get(field.kind, field.kind)


def _go_element(field: Field, value: Any) -> Any:
    if field.kind == "enum":
        return EnumValue(field.type, value or 0)
    if field.kind != "message":
        return _scalar(field.kind, value)
    go_type = message_type(field.type).go_type
    if field.type in FREE_FORM:
        return deepcopy(value)  # which templates may change
    target: Any = None
    if value is not None and field.type == DURATION:
        target = DurationValue(value)
    elif value is not None and field.type in WRAPPERS:
        target = WrapperValue(go_type, _scalar(WRAPPERS[field.type], value))
    elif value is not None:
        target = Message(message_type(field.type), value)
    return MessagePointer(field.type, f"*{go_type}", target)


def _scalar(kind: str, value: Any) -> Any:
    if kind in _INTEGERS:
        return _INTEGERS[kind](value or 0)
    if value is not None:
        return value
    return {"string": "", "bool": False, "double": 0.0, "float": 0.0, "bytes": ""}[kind]

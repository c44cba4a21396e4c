"""Messages of istio.io/api: read from JSON, written as JSON, and seen by templates as Go's generated structs.

Follows golang/protobuf's jsonpb (v1.5.4), by which Istio reads and writes its mesh config (pkg/util/protomarshal, 1.30.3). Fields go by
their JSON or their protobuf name, the JSON name first. Enums go by name or number, durations as Go writes them. Of the members of a
oneof, the last declared one counts. Null leaves a field unset, and is the zero value in a list or a map.

Plain forms: fields by JSON name, enums as numbers, durations as nanoseconds, wrapped scalars as the scalar, messages as nested mappings.

``meshschema.json`` has the descriptors of istio.io/api: those of 1.32.0, and the
fields of MeshConfig and ProxyConfig that later minors dropped. ``first`` and ``last`` are the minors that have a field or an enum value;
other minors ignore the field, and refuse the value. ``oneofFirst`` is the first minor in which a field belongs to its oneof.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self, TypeVar

from injector.errors import ConfigError
from injector.golang.json import go_json, load_json
from injector.golang.time import parse_duration
from injector.gotemplate.budget import spend
from injector.gotemplate.values import Func, Int32, Int64, Map, Pointer, SizedInt, Slice, Struct, Uint32, Uint64
from injector.istio.behaviours import Minor, format_minor, parse_minor
from injector.istio.goview import FieldStruct, getter

MESH_CONFIG: Final = "istio.mesh.v1alpha1.MeshConfig"
PROXY_CONFIG: Final = "istio.mesh.v1alpha1.ProxyConfig"
DURATION: Final = "google.protobuf.Duration"
WRAPPERS: Final = {
    "google.protobuf.BoolValue": "bool",
    "google.protobuf.Int32Value": "int32",
    "google.protobuf.UInt32Value": "uint32",
    "google.protobuf.Int64Value": "int64",
    "google.protobuf.StringValue": "string",
    "google.protobuf.DoubleValue": "double",
}
STRUCT: Final = "google.protobuf.Struct"

_ISTIOS: Final = "istio."
_LAST_GOGO: Final = "1.13"
_AT: Final = "@"
_MAX_QUOTED: Final = 100  # characters of a value in a message
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
# jsonpb removes the quotes around a number and reads the rest as JSON, spaces included. No range has more than 20 digits.
_INTEGER = re.compile(r" *(?P<digits>-?(?:0|[1-9][0-9]{0,19})) *", re.ASCII)
_NUMBER = re.compile(r" *-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)? *", re.ASCII)
T = TypeVar("T")


class _InvalidFieldError(Exception):
    """A JSON value that a field cannot hold; every list, map and message around it adds its part of the path."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint
        self.path = ""

    def inside(self, place: str) -> Self:
        """Add the index or the key of the value."""
        self.path = place + ("." if self.path and not self.path.startswith("[") else "") + self.path
        return self


def _wrong(wanted: str, value: Any) -> _InvalidFieldError:
    if isinstance(value, dict | list):
        text = "a mapping" if isinstance(value, dict) else "a list"
    else:
        text = repr(value[: _MAX_QUOTED + 1] if isinstance(value, str) else value)
        text = text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}..."
    return _InvalidFieldError(f" is {text}", f"make it {wanted}")


class _Codec:
    """A type of values: reads JSON into the plain form, writes JSON, and returns the Go value that templates see."""

    go_type: str

    def read(self, value: Any) -> Any:
        return value

    def write(self, value: Any) -> Any:
        return value

    def go(self, value: Any) -> Any:
        return deepcopy(value)  # which templates may change

    def is_zero(self, value: Any) -> bool:
        del value
        return False


class _Scalar(_Codec):
    """A number, a boolean or a string."""

    def __init__(self, go_type: str, kind: type, wanted: str, parse: Callable[[Any], Any]) -> None:
        self.go_type = go_type
        self._kind = kind
        self._wanted = wanted
        self._parse = parse

    def read(self, value: Any) -> Any:
        result = self._parse(value)
        if result is None:
            raise _wrong(self._wanted, value)
        return result

    def write(self, value: Any) -> Any:
        if self.go_type in ("int64", "uint64"):
            return str(value)
        if isinstance(value, float) and not math.isfinite(value):
            return next(name for name, number in _NOT_FINITE.items() if str(number) == str(value))
        return value

    def go(self, value: Any) -> Any:
        return self._kind() if value is None else self._kind(value)

    def is_zero(self, value: Any) -> bool:
        return not value and str(value) != "-0.0"


def _of_type(kind: type, value: Any) -> Any:
    """Return a value of a type, the zero value for null, and None for others."""
    return kind() if value is None else value if isinstance(value, kind) else None


def _integer(low: int, high: int, value: Any) -> int | None:
    """Return the whole number that jsonpb reads, None if it reads none in the range."""
    if isinstance(value, str):
        match = _INTEGER.fullmatch(value) if low or "-" not in value else None
        value = None if _is_null(value) else int(match["digits"]) if match else value
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None:
        return 0
    return value if type(value) is int and low <= value <= high else None


def _float(value: Any) -> float | None:
    """Return the number that jsonpb reads, None if it reads none."""
    if isinstance(value, str):
        if value in _NOT_FINITE:
            return _NOT_FINITE[value]
        value = None if _is_null(value) else float(value) if _NUMBER.fullmatch(value) else value
    if value is None:
        return 0.0
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if math.isfinite(value) else None


def _is_null(text: str) -> bool:
    return text.strip(" ") == "null"


def _integers(go_type: str, kind: type[SizedInt], low: int, high: int) -> _Scalar:
    return _Scalar(go_type, kind, f"a whole number ({go_type})", partial(_integer, low, high))


_SCALARS: Final = {
    "string": _Scalar("string", str, "a string", partial(_of_type, str)),
    "bool": _Scalar("bool", bool, "true or false", partial(_of_type, bool)),
    "double": _Scalar("float64", float, "a number", _float),
    "int32": _integers("int32", Int32, -(2**31), 2**31 - 1),
    "int64": _integers("int64", Int64, -(2**63), 2**63 - 1),
    "uint32": _integers("uint32", Uint32, 0, 2**32 - 1),
    "uint64": _integers("uint64", Uint64, 0, 2**64 - 1),
}


_NUMBERS: Final = frozenset({"double", "int32", "int64", "uint32", "uint64"})


@dataclass(frozen=True, slots=True)
class _EnumType(_Codec):
    """An enumeration: numbers by name and names by number."""

    go_type: str
    numbers: Mapping[str, int]
    names: Mapping[int, str]

    def read(self, value: Any) -> int:
        number: int | None = self.numbers.get(value) if isinstance(value, str) else _integer(-(2**31), 2**31 - 1, value)
        if number is None:
            raise _wrong(f"one of {', '.join(self.numbers)}", value)
        return number

    def write(self, value: int) -> str | int:
        return self.names.get(value, value)

    def go(self, value: int | None) -> EnumValue:
        return EnumValue(self, value or 0)

    def is_zero(self, value: int) -> bool:
        return not value


class _MessageCodec(_Codec):
    """A message, which templates see as a pointer."""

    zero: ClassVar[Any] = None
    """The plain form of the message without any field."""

    def go(self, value: Any) -> MessagePointer:
        return MessagePointer(self, None if value is None else self.message(value))

    def message(self, value: Any) -> Any:
        raise NotImplementedError


class _DurationCodec(_MessageCodec):
    go_type = "durationpb.Duration"
    zero = 0

    def read(self, value: Any) -> int:
        if value is None:
            return 0
        if not isinstance(value, str):
            raise _wrong("a duration such as 45s", value)
        try:
            return parse_duration(value)
        except ValueError as error:
            raise _InvalidFieldError(f": bad Duration: {error}", "write it as 45s or 1m") from error

    def write(self, value: int) -> str:
        return json_duration(value)

    def message(self, value: int) -> WellKnown:
        sign = -1 if value < 0 else 1
        seconds, nanos = divmod(abs(value), 1_000_000_000)
        fields = {"Seconds": Int64(sign * seconds), "Nanos": Int32(sign * nanos)}
        return WellKnown(self.go_type, fields, value, self.write(value))


class _WrapperCodec(_MessageCodec):
    def __init__(self, go_type: str, scalar: _Scalar) -> None:
        self.go_type = go_type
        self._scalar = scalar

    def read(self, value: Any) -> Any:
        return self._scalar.read(value)

    def write(self, value: Any) -> Any:
        return self._scalar.write(value)

    def message(self, value: Any) -> WellKnown:
        scalar = self._scalar.go(value)
        return WellKnown(self.go_type, {"Value": scalar}, value, self.write(value))


class _StructCodec(_Codec):
    """A google.protobuf.Struct: any JSON object, with sorted keys."""

    def __init__(self, go_type: str) -> None:
        self.go_type = go_type

    def read(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise _wrong("a mapping", value)
        return _with_sorted_keys(value)


def _with_sorted_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_sorted_keys(item) for key, item in sorted(value.items())}
    return [_with_sorted_keys(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its names in JSON, in protobuf and in Go, its kind, and the name of the message or enum that it holds.

    ``writes_empty`` says whether JSON has a list or a map that is set and empty, as gogo/protobuf writes it, which Istio used up to 1.13.
    """

    json: str
    proto: str
    go: str
    kind: str
    type: str = ""
    repeated: bool = False
    map_key: str = ""
    oneof: str = ""
    writes_empty: bool = False

    @property
    def codec(self) -> _Codec:
        """The type of the value, or of each element of a list or map."""
        if self.kind == "enum":
            return enum_type(self.type)
        if self.kind != "message":
            return _SCALARS[self.kind]
        return _message_codec(self.type)

    def read(self, value: Any) -> Any:
        """Return the plain form of a JSON value."""
        codec = self.codec
        if self.map_key:
            if not isinstance(value, dict):
                raise _wrong("a mapping", value)
            return {str(key): _read_at(str(key), codec, item) for key, item in value.items()}
        if self.repeated:
            if not isinstance(value, list):
                raise _wrong("a list", value)
            return [_read_at(f"[{index}]", codec, item) for index, item in enumerate(value)]
        return codec.read(value)

    def write(self, value: Any) -> Any:
        """Return a plain form as JSON data, None if jsonpb leaves it out."""
        write = self.codec.write
        if self.map_key:
            return (
                {key: write(value[key]) for key in sorted(value)} if value or self.oneof or self.writes_empty else None
            )
        if self.repeated:
            return [write(item) for item in value] if value or self.writes_empty else None
        return write(value) if self.oneof or not self.codec.is_zero(value) else None

    def go_value(self, value: Any) -> Any:
        """Return a plain form as the Go field that templates read; None is the zero value."""
        codec = self.codec
        if not self.map_key and not self.repeated:
            return codec.go(value)
        spend(len(value or ()))
        element = f"*{codec.go_type}" if self.kind == "message" else codec.go_type
        if self.map_key:
            items = {key: codec.go(item) for key, item in (value or {}).items()}
            return Map(self.map_key, element, items, nil=value is None)
        return Slice(element, [codec.go(item) for item in value or ()], nil=value is None)


def _read_at(place: str, reader: _Codec | Field, value: Any) -> Any:
    try:
        return reader.read(value)
    except _InvalidFieldError as error:
        raise error.inside(place) from None


@dataclass(frozen=True, slots=True)
class _MessageType(_MessageCodec):
    """A message of istio.io/api: its fields in declaration order, and by each of their names."""

    zero: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    name: str
    go_type: str
    fields: tuple[Field, ...]
    by_json: Mapping[str, Field]
    by_go: Mapping[str, Field]
    oneofs: frozenset[str]

    def read(self, value: Any) -> dict[str, Any]:
        data = {} if value is None else value
        if not isinstance(data, dict):
            raise _wrong(f"a {self.name.rpartition('.')[2]}", data)
        values: dict[str, Any] = {}
        members: dict[str, str] = {}
        for field in self.fields:
            key = field.json if field.json in data else field.proto
            item = data.get(key)
            if item is None:
                continue
            values[field.json] = _read_at(key, field, item)
            if field.oneof:
                values.pop(members.get(field.oneof, ""), None)
                members[field.oneof] = field.json
        return values

    def write(self, value: Mapping[str, Any]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for field in self.fields:
            item = value.get(field.json)
            written = None if item is None else field.write(item)
            if written is not None:
                data[field.json] = written
        return data

    def message(self, value: Mapping[str, Any]) -> Message:
        return Message(self, value)


@cache
def _message_codec(name: str) -> _Codec:
    if name == DURATION:
        return _DurationCodec()
    go_type = message_type(name).go_type
    if name in WRAPPERS:
        return _WrapperCodec(go_type, _SCALARS[WRAPPERS[name]])
    return _StructCodec(go_type) if name == STRUCT else message_type(name)


@cache
def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = load_json(files(__package__).joinpath("meshschema.json").read_bytes())
    return table


def mesh_config_type(minor: Minor) -> str:
    """Return the name of the minor's MeshConfig, for ``message_type``."""
    return _name_at(MESH_CONFIG, format_minor(minor))


def proxy_config_type(minor: Minor) -> str:
    """Return the name of the minor's ProxyConfig, for ``message_type``."""
    return _name_at(PROXY_CONFIG, format_minor(minor))


def _name_at(name: str, version: str) -> str:
    return f"{name}{_AT}{version}" if version and name.startswith(_ISTIOS) else name


def _has(limits: Mapping[str, str], version: str) -> bool:
    """Return whether a version is between ``first`` and ``last``; without a version everything is."""
    if not version:
        return True
    minor = parse_minor(version)
    return parse_minor(limits.get("first", "1.0")) <= minor <= parse_minor(limits.get("last", version))


@cache
def message_type(name: str) -> _MessageType:
    """Return a message type by its full protobuf name.

    It has the fields of all minors; by the names that ``mesh_config_type`` and ``proxy_config_type`` return, those of one minor.
    """
    base, _, version = name.partition(_AT)
    raw = _table()["messages"][base]
    known = {item["json"]: item for item in raw["fields"] if _has(item, version)}
    fields = [
        Field(
            json=item["json"],
            proto=item.get("proto", item["json"]),
            go=item["go"],
            kind=item["kind"],
            type=_name_at(item.get("type", ""), version),
            repeated=item.get("repeated", False),
            map_key=item.get("mapKey", ""),
            oneof=item.get("oneof", "") if _has({"first": item.get("oneofFirst", "1.0")}, version) else "",
            writes_empty=bool(version) and _has({"last": _LAST_GOGO}, version),
        )
        for item in known.values()
    ]
    by_json = {field.proto: field for field in fields} | {field.json: field for field in fields}
    oneofs = frozenset(field.oneof for field in fields if field.oneof)
    return _MessageType(name, raw["goType"], tuple(fields), by_json, {field.go: field for field in fields}, oneofs)


@cache
def enum_type(name: str) -> _EnumType:
    """Return an enumeration by its full protobuf name, with the values of all minors or, as for ``message_type``, of one."""
    base, _, version = name.partition(_AT)
    raw = _table()["enums"][base]
    limits = raw.get("limits", {})
    numbers = {value: number for value, number in raw["values"].items() if _has(limits.get(value, {}), version)}
    return _EnumType(raw["goType"], numbers, {number: text for text, number in reversed(numbers.items())})


class EnumValue(Int32):
    """A value of an enumeration: a number that prints by its name."""

    _kind: _EnumType
    go_type: str  # type: ignore[misc] # each enumeration has its own; int leaves no room for slots

    def __new__(cls, kind: _EnumType, number: int) -> Self:
        """Make the value ``number`` of an enumeration."""
        self = super().__new__(cls, number)
        self.go_type = kind.go_type
        self._kind = kind
        return self

    def go_string(self) -> str:
        """Return the name; the number if the enumeration has none."""
        return str(self._kind.write(int(self)))

    __str__ = go_string

    def method(self, name: str) -> Func | None:
        """Return the method String."""
        return Func(name, "func() string", self.go_string) if name == "String" else None

    def __deepcopy__(self, memo: object) -> Self:
        return self


def json_duration(nanoseconds: int) -> str:
    """Return a duration as protobuf's JSON has it: seconds with 0, 3, 6 or 9 decimals."""
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    seconds, fraction = divmod(rest, 1_000_000_000)
    digits = f"{fraction:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{sign}{seconds}.{digits}s" if digits else f"{sign}{seconds}s"


class WellKnown(FieldStruct):
    """A google.protobuf.Duration, or a wrapped scalar such as google.protobuf.BoolValue, with its plain form and protobuf's JSON."""

    __slots__ = ("json", "plain")

    def __init__(self, go_type: str, fields: dict[str, Any], plain: Any, json: Any) -> None:
        super().__init__(go_type, fields)
        self.plain = plain
        self.json = json

    def method(self, name: str) -> Func | None:
        """Return a generated getter."""
        return getter(self.field, name, self._fields)

    def go_string(self) -> str:
        """Return it as protobuf's text format prints it."""
        return " ".join(f"{name}:{'true' if value is True else value}" for name, value in self.json_value().items())

    def json_value(self) -> dict[str, Any]:
        """Return it as encoding/json marshals the struct, which knows nothing of protobuf's JSON."""
        return {name.lower(): value for name, value in self.fields() if value}


def parse_message(
    type_name: str, data: Mapping[str, Any], *, base: Mapping[str, Any] | None = None, where: str = ""
) -> Message:
    """Read JSON data as a message on top of ``base``; unknown fields are ignored, as Istio ignores them.

    A member of a oneof replaces the one that ``base`` sets. Raises ConfigError, with the path, if a field has the wrong type.
    """
    kind = message_type(type_name)
    try:
        values = kind.read(data)
    except _InvalidFieldError as error:
        raise ConfigError(f"`{error.path}`{error.problem}", where=where, hint=error.hint) from error
    oneofs = {kind.by_json[name].oneof for name in values} - {""}
    unchanged = {name: value for name, value in (base or {}).items() if kind.by_json[name].oneof not in oneofs}
    return Message(kind, {**unchanged, **values})


def with_numbers(type_name: str, data: Any) -> Any:
    """Return JSON data of a message in which a number that is written as a text, such as ``" 2"``, is a number.

    ``parse_message`` reads both in the same way. Data of a wrong type stays as it is.
    """
    kind = message_type(type_name)
    if not isinstance(data, dict):
        return data
    return {key: _with_number(kind.by_json[key], item) if key in kind.by_json else item for key, item in data.items()}


def _with_number(field: Field, value: Any) -> Any:
    if isinstance(value, list) and field.repeated:
        return [_one_with_number(field, item) for item in value]
    if isinstance(value, dict) and field.map_key:
        return {key: _one_with_number(field, item) for key, item in value.items()}
    return _one_with_number(field, value)


def _one_with_number(field: Field, value: Any) -> Any:
    if field.kind == "message" and field.type not in (*WRAPPERS, DURATION, STRUCT):
        return with_numbers(field.type, value)
    if not isinstance(value, str) or WRAPPERS.get(field.type, field.kind) not in _NUMBERS:
        return value
    try:
        number = field.codec.read(value)
    except _InvalidFieldError:
        return value
    return number if math.isfinite(number) else value


class MessagePointer(Pointer):
    """A pointer to a message, nil or not; getters work on nil too, as the generated ones do."""

    __slots__ = ("_codec",)

    def __init__(self, codec: _MessageCodec, target: Any = None) -> None:
        super().__init__(f"*{codec.go_type}", target)
        self._codec = codec

    def method(self, name: str) -> Func | None:
        """Return a getter; on a nil pointer, it returns the zero value."""
        target = self._codec.message(self._codec.zero) if self.target is None else self.target
        method: Func | None = target.method(name)
        return method

    def json_value(self) -> Any:
        """Return the message as JSON; null for nil."""
        return None if self.target is None else self.target.json_value()


class Message(Struct):
    """A message: the fields that are set, by JSON name and in plain form. It never changes."""

    __slots__ = ("_derived", "go_type", "kind", "values")

    def __init__(self, kind: _MessageType, values: Mapping[str, Any]) -> None:
        self.go_type = kind.go_type
        self._derived: dict[Any, Any] = {}
        self.kind = kind
        self.values = values

    def derive(self, compute: Callable[..., T], *arguments: Hashable) -> T:
        """Return the result of a pure function of the message and other arguments, which is called only once for each."""
        key = compute, arguments
        if key not in self._derived:
            self._derived[key] = compute(self, *arguments)
        result: T = self._derived[key]
        return result

    def field(self, name: str) -> Any:
        """Return a field by its Go name, or a oneof by its own; KeyError for neither. A member of a oneof only has a getter."""
        field = self.kind.by_go.get(name)
        if field is not None and not field.oneof:
            return self._value(field)
        if name in self.kind.oneofs:
            return self._oneof(name)
        raise KeyError(name)

    def _value(self, field: Field) -> Any:
        return field.go_value(self.values.get(field.json))

    def _get(self, name: str) -> Any:
        return self._oneof(name) if name in self.kind.oneofs else self._value(self.kind.by_go[name])

    def _oneof(self, name: str) -> Any:
        for field in self.kind.fields:
            if field.oneof == name and field.json in self.values:
                go_type = f"{self.go_type}_{field.go}"
                return Pointer(f"*{go_type}", FieldStruct(go_type, {field.go: self._value(field)}))
        return None

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Yield the fields in declaration order."""
        for field in self.kind.fields:
            yield field.go, self._value(field)

    def parts(self) -> Any:
        """Return the fields that are set."""
        return self.values

    def method(self, name: str) -> Func | None:
        """Return a generated getter."""
        return getter(self._get, name, self.kind.by_go.keys() | self.kind.oneofs)

    def go_string(self) -> str:
        """Return the message as jsonpb prints it; Go prints protobuf's text format, which is not stable."""
        return go_json(self.json_value())

    def json_value(self) -> dict[str, Any]:
        """Return the message as JSON data, set fields in declaration order."""
        return self.kind.write(self.values)

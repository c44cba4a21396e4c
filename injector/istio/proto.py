"""Messages of istio.io/api: read from JSON, written as JSON, and seen by templates as Go's generated structs.

Follows golang/protobuf's jsonpb (v1.5.4), by which Istio reads and writes its mesh config (pkg/util/protomarshal, 1.30.3). Fields go by
their JSON or their protobuf name, the JSON name first. Enums go by name or number, durations as Go writes them. Of the members of a
oneof, the last declared one counts. Null leaves a field unset, and is the zero value in a list or a map.

Plain forms: fields by JSON name, enums as numbers, durations as nanoseconds, wrapped scalars as the scalar, messages as nested mappings.

``meshschema.json`` is generated from the descriptors of istio.io/api (tests/istio/recorder/schema). ``_OLD_FIELDS`` adds fields that
older minors had and later ones dropped, so that their mesh configs load unchanged.
"""

from __future__ import annotations

import math
import re
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import orjson

from injector.errors import ConfigError
from injector.golang.json import go_json
from injector.golang.time import go_duration, parse_duration
from injector.gotemplate.values import Func, Int32, Int64, Map, Pointer, SizedInt, Slice, Struct, Uint32, Uint64

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from injector.istio.behaviours import Minor

_SECOND: Final = 1_000_000_000
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
FREE_FORM: Final = frozenset({"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"})


# Up to 1.6.14 a ProxyConfig's concurrency is a plain number, which is 0 and not nil where it is not set; from 1.7.8 on it is wrapped.
_UP_TO_1_6: Final = "@1.6"
_PLAIN: Final = {"concurrency": ("int32", ""), "defaultConfig": ("message", PROXY_CONFIG + _UP_TO_1_6)}


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its names in JSON, in protobuf and in Go, its kind, and the message or enum it holds."""

    json: str
    proto: str
    go: str
    kind: str
    type: str
    repeated: bool
    map_key: str
    oneof: str


@dataclass(frozen=True, slots=True)
class MessageType:
    """A message: its fields in declaration order, and by each of their names."""

    name: str
    go_type: str
    fields: tuple[Field, ...]
    by_json: Mapping[str, Field]
    by_go: Mapping[str, Field]
    oneofs: frozenset[str]


@dataclass(frozen=True, slots=True)
class EnumType:
    """An enumeration: numbers by name and names by number."""

    go_type: str
    numbers: Mapping[str, int]
    names: Mapping[int, str]


# Field, kind and the field it stands behind; the number of the minors that had each is in the mesh defaults.
_OLD_FIELDS: Final[dict[str, tuple[tuple[str, str, str], ...]]] = {
    PROXY_CONFIG: (
        ("parentShutdownDuration", DURATION, "drainDuration"),
        ("connectTimeout", DURATION, "zipkinAddress"),
    ),
    MESH_CONFIG: (
        ("mixerCheckServer", "string", ""),
        ("mixerReportServer", "string", "mixerCheckServer"),
        ("disablePolicyChecks", "bool", "mixerReportServer"),
        ("policyCheckFailOpen", "bool", "disablePolicyChecks"),
        ("sidecarToTelemetrySessionAffinity", "bool", "policyCheckFailOpen"),
        ("enableClientSidePolicyCheck", "bool", "sidecarToTelemetrySessionAffinity"),
        ("sdsUdsPath", "string", "enableTracing"),
        ("sdsRefreshDelay", DURATION, "sdsUdsPath"),
        ("enableSdsTokenMount", "bool", "sdsUdsPath"),
        ("sdsUseK8sSaJwt", "bool", "enableSdsTokenMount"),
        ("rdsRefreshDelay", DURATION, "sdsUdsPath"),
    ),
}


@cache
def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = orjson.loads(files(__package__).joinpath("meshschema.json").read_bytes())
    return table


def mesh_config_type(minor: Minor) -> str:
    """Return the name of the minor's MeshConfig, for ``message_type``."""
    return MESH_CONFIG + (_UP_TO_1_6 if minor <= (1, 6) else "")


def proxy_config_type(minor: Minor) -> str:
    """Return the name of the minor's ProxyConfig, for ``message_type``."""
    return PROXY_CONFIG + (_UP_TO_1_6 if minor <= (1, 6) else "")


@cache
def message_type(name: str) -> MessageType:
    """Return a message type by its full protobuf name, or by one of ``mesh_config_type`` and ``proxy_config_type``."""
    base, variant, _ = name.partition(_UP_TO_1_6)
    raw = _table()["messages"][base]
    fields = [
        Field(
            json=item["json"],
            proto=item.get("proto", item["json"]),
            go=item["go"],
            kind=item["kind"],
            type=item.get("type", ""),
            repeated=item.get("repeated", False),
            map_key=item.get("mapKey", ""),
            oneof=item.get("oneof", ""),
        )
        for item in raw["fields"]
    ]
    _add_old(fields, base)
    if variant:
        kinds = [_PLAIN.get(field.json, (field.kind, field.type)) for field in fields]
        fields = [replace(field, kind=kind, type=of) for field, (kind, of) in zip(fields, kinds, strict=True)]
    by_json = {field.proto: field for field in fields} | {field.json: field for field in fields}
    oneofs = frozenset(field.oneof for field in fields if field.oneof)
    return MessageType(name, raw["goType"], tuple(fields), by_json, {field.go: field for field in fields}, oneofs)


def _add_old(fields: list[Field], name: str) -> None:
    known = {field.json for field in fields}
    for json_name, kind, after in _OLD_FIELDS.get(name, ()):
        if json_name in known:
            continue
        is_message = "." in kind
        field = Field(
            json=json_name,
            proto=_snake(json_name),
            go=json_name[0].upper() + json_name[1:],
            kind="message" if is_message else kind,
            type=kind if is_message else "",
            repeated=False,
            map_key="",
            oneof="",
        )
        place = next((index + 1 for index, other in enumerate(fields) if other.json == after), 0)
        fields.insert(place, field)


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)


@cache
def enum_type(name: str) -> EnumType:
    """Return an enumeration by its full protobuf name."""
    raw = _table()["enums"][name]
    numbers = raw["values"]
    return EnumType(raw["goType"], numbers, {number: text for text, number in reversed(numbers.items())})


def json_duration(nanoseconds: int) -> str:
    """Return a duration as protobuf's JSON has it: seconds with 0, 3, 6 or 9 decimals."""
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    seconds, fraction = divmod(rest, _SECOND)
    digits = f"{fraction:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{sign}{seconds}.{digits}s" if digits else f"{sign}{seconds}s"


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


_RANGES: Final = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}
# What jsonpb makes a number of, once it has taken the quotes away: JSON, white space and all. No range has more than 20 digits.
_INTEGER = re.compile(r" *(?P<digits>-?(?:0|[1-9][0-9]{0,19})) *", re.ASCII)
_NUMBER = re.compile(r" *-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)? *", re.ASCII)
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_NULL: Final = "null"
_SHOWN: Final = 100


def read_fields(kind: MessageType, data: Any, *, where: str = "") -> dict[str, Any]:
    """Return what JSON data sets of a message; unknown fields are ignored, as Istio ignores them.

    Raises:
        ConfigError: it is no mapping, or a field has the wrong type; with its path.
    """
    return _parsed_fields(kind, data, where, "")


def _parsed_fields(kind: MessageType, data: Any, where: str, path: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise _wrong(where, path, f"a {kind.name.rpartition('.')[2]}", data)
    found: dict[str, Any] = {}
    members: dict[str, str] = {}
    for field in kind.fields:
        key = field.json if field.json in data else field.proto
        value = data.get(key)
        if value is None:
            continue
        found[field.json] = _parsed(field, value, where, f"{path}.{key}" if path else key)
        if field.oneof:
            found.pop(members.get(field.oneof, ""), None)
            members[field.oneof] = field.json
    return found


def _parsed(field: Field, value: Any, where: str, path: str) -> Any:
    if field.map_key:
        if not isinstance(value, dict):
            raise _wrong(where, path, "a mapping", value)
        return {str(key): _parsed_element(field, item, where, f"{path}.{key}") for key, item in value.items()}
    if field.repeated:
        if not isinstance(value, list):
            raise _wrong(where, path, "a list", value)
        return [_parsed_element(field, item, where, f"{path}[{index}]") for index, item in enumerate(value)]
    return _parsed_element(field, value, where, path)


def _parsed_element(field: Field, value: Any, where: str, path: str) -> Any:
    if field.kind == "enum":
        return _parsed_enum(field, value, where, path)
    if field.kind != "message":
        return _parsed_scalar(field.kind, value, where, path)
    if field.type == DURATION:
        return _parsed_duration(value, where, path)
    if field.type in WRAPPERS:
        return _parsed_scalar(WRAPPERS[field.type], value, where, path)
    if field.type in FREE_FORM:
        return value
    return _parsed_fields(message_type(field.type), {} if value is None else value, where, path)


def _parsed_enum(field: Field, value: Any, where: str, path: str) -> int:
    kind = enum_type(field.type)
    found = kind.numbers.get(value) if isinstance(value, str) else _integer("int32", value)
    if found is None:
        raise _wrong(where, path, f"one of {', '.join(kind.numbers)}", value)
    return found


def _parsed_duration(value: Any, where: str, path: str) -> int:
    if value is None:
        return 0
    if isinstance(value, str):
        try:
            return parse_duration(value)
        except ValueError as error:
            raise ConfigError(f"`{path}`: bad Duration: {error}", where=where, hint="write it as 45s or 1m") from error
    raise _wrong(where, path, "a duration such as 45s", value)


def _parsed_scalar(kind: str, value: Any, where: str, path: str) -> Any:
    found: Any
    if kind in _RANGES:
        wanted, found = f"a whole number ({kind})", _integer(kind, value)
    elif kind in ("double", "float"):
        wanted, found = "a number", _float(value)
    elif kind == "bool":
        wanted, found = "true or false", _of_type(bool, value)
    else:
        wanted, found = "a string", _of_type(str, value)
    if found is None:
        raise _wrong(where, path, wanted, value)
    return found


def _of_type(kind: type, value: Any) -> Any:
    """Return a value of a type, the type's zero value for null, and None for others."""
    return kind() if value is None else value if isinstance(value, kind) else None


def _integer(kind: str, value: Any) -> int | None:
    """Return the whole number that jsonpb reads, None where it reads none in the kind's range."""
    if isinstance(value, str):
        match = _INTEGER.fullmatch(value) if "-" not in value or not kind.startswith("u") else None
        value = None if _is_null(value) else int(match["digits"]) if match else value
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None:
        return 0
    low, high = _RANGES[kind]
    return value if type(value) is int and low <= value <= high else None


def _float(value: Any) -> float | None:
    """Return the number that jsonpb reads, None where it reads none."""
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
    return text.strip(" ") == _NULL


def _wrong(where: str, path: str, wanted: str, value: Any) -> ConfigError:
    shown = "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list) else _shown(value)
    return ConfigError(f"`{path}` is {shown}", where=where, hint=f"make it {wanted}")


def _shown(value: Any) -> str:
    text = repr(value[: _SHOWN + 1] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def write_fields(kind: MessageType, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields as jsonpb writes them: in declaration order, zero values left out."""
    found: dict[str, Any] = {}
    for field in kind.fields:
        value = values.get(field.json)
        if value is None or (not field.oneof and _is_zero(field, value)):
            continue
        if field.map_key:
            found[field.json] = {key: _json_element(field, value[key]) for key in sorted(value)}
        elif field.repeated:
            found[field.json] = [_json_element(field, item) for item in value]
        else:
            found[field.json] = _json_element(field, value)
    return found


def _is_zero(field: Field, value: Any) -> bool:
    if field.map_key or field.repeated:
        return not value
    # A negative zero is set, as far as protobuf is concerned.
    return field.kind != "message" and not value and str(value) != "-0.0"


def _json_element(field: Field, value: Any) -> Any:
    if field.kind == "enum":
        return enum_type(field.type).names.get(value, value)
    kind = WRAPPERS.get(field.type, field.kind)
    if kind in ("int64", "uint64"):
        return str(value)
    if kind in ("double", "float"):
        return next((name for name, found in _NOT_FINITE.items() if str(found) == str(value)), value)
    if kind != "message":
        return value
    if field.type == DURATION:
        return json_duration(value)
    return value if field.type in FREE_FORM else write_fields(message_type(field.type), value)


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

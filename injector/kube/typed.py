"""Go's typed view of a JSON object: what decoding it into a struct and encoding it again leaves, adds and refuses.

Follows encoding/json on the structs of k8s.io/api and, for manifests, sigs.k8s.io/yaml (v1.6.0), which turns numbers and
bools into strings where the field is a string. ``normalise`` decodes: empty ``omitempty`` fields and nulls go, names match in any case,
quantities and times come out canonical. Unlike in Go, fields that the structs do not have stay, so that those of a newer API server
survive. ``prune`` removes them. ``go_encode`` prints: fields in the struct's order, and Go's zero values (``resources: {}``).

``schema.json`` is written by tests/kube/recorder/schema, which reflects over the Go structs: every struct that a Pod, a Namespace or a
workload kind of kube-inject reaches, its fields in order, their Go types (``[]v1.Container``, ``*int64``) and their tags for JSON and
strategic merge. OpenShift's types are spelled ``openshiftv1.DeploymentConfig``, because two packages called v1 would clash.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from operator import is_
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from injector.errors import DataError, ManifestError
from injector.golang.json import go_json, load_json
from injector.golang.strconv import format_g, go_float
from injector.golang.time import canonical_time
from injector.kube.quantity import canonical_quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

# Go types that encode themselves; ``typed`` knows each.
OPAQUE: Final = frozenset({"intstr.IntOrString", "resource.Quantity", "runtime.RawExtension", "v1.FieldsV1", "v1.Time"})
# kube-inject knows workloads by kind alone, in whatever API version they come (Istio's inject/initializer.go).
_KINDS: Final = {
    "Pod": "v1.Pod",
    "ReplicationController": "v1.ReplicationController",
    "Deployment": "v1.Deployment",
    "DaemonSet": "v1.DaemonSet",
    "ReplicaSet": "v1.ReplicaSet",
    "StatefulSet": "v1.StatefulSet",
    "Job": "v1.Job",
    "CronJob": "v1.CronJob",
    "DeploymentConfig": "openshiftv1.DeploymentConfig",
    "List": "v1.List",
}


@dataclass(frozen=True, slots=True)
class FieldType:
    """A field of a struct.

    ``json`` is empty for an embedded struct whose fields stand in the outer JSON object. ``strategy`` is that of
    strategic merge, ``retainKeys`` left out: ``merge``, ``replace`` or empty.
    """

    go: str
    json: str
    type: str
    omitempty: bool = False
    omitzero: bool = False
    embedded: bool = False
    strategy: str = ""
    merge_key: str = ""

    @property
    def inline(self) -> bool:
        """Whether its own fields stand in the outer JSON object."""
        return self.embedded and not self.json


@dataclass(frozen=True, slots=True)
class StructType:
    """A struct: its fields in Go's order, by Go name, and by JSON name with those of inline fields among them."""

    name: str
    fields: tuple[FieldType, ...]
    by_go: Mapping[str, FieldType]
    by_json: Mapping[str, FieldType]
    by_folded: Mapping[str, FieldType]

    def json_field(self, key: str) -> FieldType | None:
        """Return the field that encoding/json finds for a key: of that name, else of that name in any case."""
        return self.by_json.get(key) or self.by_folded.get(key.casefold())

    def go_path(self, name: str) -> tuple[FieldType, ...]:
        """Return the fields that lead to the Go field ``name``: itself, after the embedded structs it is promoted from.

        Empty where the struct has no such field.
        """
        if name in self.by_go:
            return (self.by_go[name],)
        for field in self.fields:
            inner = struct_type(field.type).go_path(name) if field.embedded else ()
            if inner:
                return (field, *inner)
        return ()


def is_struct(name: str) -> bool:
    """Return whether ``name`` is a struct of the table."""
    return name in _table()["structs"]


@cache
def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = load_json(files(__package__).joinpath("schema.json").read_bytes())
    return table


@cache
def struct_type(name: str) -> StructType:
    """Return the struct of a Go name, such as ``v1.PodSpec``; KeyError if the table has no such struct."""
    fields = tuple(_field(raw) for raw in _table()["structs"][name])
    by_json: dict[str, FieldType] = {}
    for field in fields:
        # A field of the struct itself wins over an embedded struct's of the same name; k8s.io/api has no such pair.
        by_json.update(struct_type(field.type).by_json if field.inline else {field.json: field})
    by_folded = {key.casefold(): field for key, field in reversed(by_json.items())}
    return StructType(name, fields, {field.go: field for field in fields}, by_json, by_folded)


def _field(raw: Mapping[str, Any]) -> FieldType:
    strategies = [part for part in raw.get("patchStrategy", "").split(",") if part != "retainKeys"]
    return FieldType(
        go=raw["go"],
        json=sys.intern(raw.get("json", "")),
        type=raw["type"],
        omitempty=raw.get("omitempty", False),
        omitzero=raw.get("omitzero", False),
        embedded=raw.get("embedded", False),
        strategy=strategies[0] if strategies else "",
        merge_key=raw.get("patchMergeKey", ""),
    )


@cache
def underlying(name: str) -> str:
    """Return the underlying type of a defined type, such as ``string`` for ``v1.DNSPolicy``; else ``name`` itself."""
    return str(_table()["named"].get(name, name))


def kind_type(kind: str) -> str | None:
    """Return the Go type of a workload kind, such as ``v1.Deployment``; None for a kind that has no pods."""
    return _KINDS.get(kind)


FieldName: TypeAlias = tuple[str, str]
"""A field as its struct's Go name and its JSON name, such as ``("v1.Container", "restartPolicy")``."""

_ZEROS: Final[Mapping[str, Any]] = {
    "string": "",
    "bool": False,
    "int32": 0,
    "int64": 0,
    "resource.Quantity": "0",
    "intstr.IntOrString": 0,
}
# Structs that encode as scalars: Go writes them wherever they are not pointers, such as ``divisor: "0"``.
_SCALAR_STRUCTS: Final = frozenset({"resource.Quantity", "intstr.IntOrString"})


def always_written(struct: StructType) -> Mapping[str, Any]:
    """Return the zero values that Go writes for fields of a struct that have no value, if a merge or a reader needs them.

    Of the fields that the API server requires, a template can leave out any, and the next merge of a list needs its merge key.
    """
    scalars = {field.json: zero_json(field.type) for field in struct.by_json.values() if field.type in _SCALAR_STRUCTS}
    return {**scalars, **_merge_keys().get(struct.name, {})}


@cache
def _merge_keys() -> Mapping[str, Mapping[str, Any]]:
    """Return the zero values of the merge keys that are not left out, by the struct of the list's items."""
    keys: dict[str, dict[str, Any]] = {}
    for field in (
        declared for name in _table()["structs"] for declared in struct_type(name).fields if declared.merge_key
    ):
        items = field.type.removeprefix("[]")
        key = struct_type(items).by_json[field.merge_key]
        if not key.omitempty:
            keys.setdefault(items, {})[key.json] = zero_json(key.type)
    return keys


def zero_json(type_name: str) -> Any:
    """Return the JSON of a type's zero value; that of a struct has what is always written of it."""
    return {**always_written(struct_type(type_name))} if is_struct(type_name) else _ZEROS.get(underlying(type_name))


def drops_empty(field: FieldType) -> bool:
    """Return whether encoding/json leaves the field out when it is empty: it never does so with structs."""
    return field.omitempty and not field.type.startswith("*") and not _encodes_as_struct(field.type)


def _encodes_as_struct(type_name: str) -> bool:
    return type_name in OPAQUE or is_struct(type_name)


# --- the codec


class _Options(NamedTuple):
    """``keep_unknown`` keeps fields that a struct does not have; ``coerce`` makes numbers and bools strings where a field is a string."""

    keep_unknown: bool
    coerce: bool


def normalise(value: Any, type_name: str, *, keep_unknown: bool = True, coerce: bool = False) -> Any:
    """Return ``value`` as Go reads and writes it as ``type_name``, such as ``v1.Pod`` or ``[]v1.Container``; None is the zero value.

    Of what Go would add, only quantities and ports are added (``divisor: "0"``); ``go_encode`` adds ``status: {}`` and the like. If nothing
    changes, the result is ``value`` itself, and so is each part of it. With ``keep_unknown``, fields that the type does not have stay. With
    ``coerce``, numbers and bools count as strings, as for kube-inject. Raises ManifestError, with Go's words and the path of keys, if a
    value does not fit its field.
    """
    if value is None:
        return zero_json(type_name)
    try:
        return _codec(type_name).decode(value, _Options(keep_unknown, coerce))
    except _DecodeError as error:
        raise ManifestError(str(error), where=dotted_path(error.path), hint=error.hint) from error.__cause__


def prune(value: Any, type_name: str, missing: AbstractSet[FieldName] = frozenset()) -> Any:
    """Return ``value`` without the fields that ``type_name`` does not have, or has in ``missing``: Go's decoder drops them silently.

    Strategic merge's directives (``$patch``) stay, and so does a value of another kind than its field, which decoding refuses. If
    nothing goes, the result is ``value`` itself.
    """
    return _codec(type_name).prune(value, missing)


def go_encode(value: Any, type_name: str, *, creation_timestamp: bool = False) -> Any:
    """Return a normalised value as Go encodes it: fields in Go's order, with the zero values that are not left out.

    Map keys are sorted, and fields that the type does not have come last. ``omitempty`` leaves out empty scalars, lists, maps and nil
    pointers, but no struct. With ``creation_timestamp``, ``creationTimestamp: null`` is printed too, as Kubernetes' libraries before
    0.34 do.
    """
    return _codec(type_name).encode(value, creation_timestamp=creation_timestamp)


def go_struct_json(value: Any, type_name: str) -> str:
    """Return a normalised value as encoding/json prints the Go type: compact, in field order, HTML escaped."""
    return go_json(go_encode(value, type_name))


class _TypeCodec:
    """Decodes, prunes and encodes the values of one Go type. This class is that of scalars.

    Values of the Python class ``plain``, if there is one, need no decoding.
    """

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name
        self.base = underlying(type_name)
        self.plain: type | None = {"string": str, "bool": bool}.get(self.base)
        self.zero = _ZEROS.get(self.base)

    def decode(self, value: Any, options: _Options) -> Any:
        """Return a value, which is not None, in the form of ``normalise``. Raises _DecodeError if it is of another type."""
        if self.plain is None:
            return _SCALARS[self.base](value)
        if isinstance(value, self.plain):
            return value
        if self.plain is str and options.coerce:
            return _coerce_string(value, self.type_name)
        raise _mismatch(value, self.type_name)

    def prune(self, value: Any, missing: AbstractSet[FieldName]) -> Any:
        """Return a value without unknown fields."""
        del missing
        return value

    def encode(self, value: Any, *, creation_timestamp: bool) -> Any:
        """Return a decoded value, or None, as Go writes it."""
        del creation_timestamp
        return self.zero if value is None else value


class _Pointer(_TypeCodec):
    """Pointers: as what they point to, but the zero value is nil."""

    def __init__(self, type_name: str) -> None:
        super().__init__(type_name)
        self.target = _codec(type_name[1:])
        self.plain = self.target.plain
        self.decode = self.target.decode  # type: ignore[method-assign] # one call less
        self.prune = self.target.prune  # type: ignore[method-assign]

    def encode(self, value: Any, *, creation_timestamp: bool) -> Any:
        return None if value is None else self.target.encode(value, creation_timestamp=creation_timestamp)


class _Collection(_TypeCodec):
    """Lists and maps."""

    def __init__(self, type_name: str) -> None:
        super().__init__(type_name)
        self.kind: Any = list if self.base.startswith("[]") else dict
        self.element = _codec(self.base.partition("]")[2])

    def decode(self, value: Any, options: _Options) -> Any:
        if type(value) is not self.kind:
            raise _mismatch(value, self.type_name)
        plain, decode = self.element.plain, self.element.decode
        changed: dict[Any, Any] = {}
        for key, item in value.items() if self.kind is dict else enumerate(value):
            if item.__class__ is plain:
                continue
            try:
                decoded = zero_json(self.element.type_name) if item is None else decode(item, options)
            except _DecodeError as error:
                error.path.insert(0, key)
                raise
            if decoded is not item:
                changed[key] = decoded
        if not changed:
            return value
        result = value.copy()
        for key, decoded in changed.items():
            result[key] = decoded
        return result

    def prune(self, value: Any, missing: AbstractSet[FieldName]) -> Any:
        if type(value) is not self.kind:
            return value
        prune = self.element.prune
        if self.kind is list:
            items = [prune(item, missing) for item in value]
            return value if all(map(is_, items, value)) else items
        entries = {key: prune(item, missing) for key, item in value.items()}
        return value if all(map(is_, entries.values(), value.values())) else entries

    def encode(self, value: Any, *, creation_timestamp: bool) -> Any:
        if value is None:
            return None
        encode = partial(self.element.encode, creation_timestamp=creation_timestamp)
        return list(map(encode, value)) if self.kind is list else {key: encode(value[key]) for key in sorted(value)}


class _Field(NamedTuple):
    """A field of a struct for the codec.

    ``drops_empty`` is whether Go leaves the field out when it is empty, and ``omits_zero`` whether it does so with the zero value, which
    is another one for structs. ``go_path`` is the name that encoding/json gives the field in errors, with the embedded struct that it
    comes from. ``is_inline`` is whether it comes from one.
    """

    codec: _TypeCodec
    field: FieldType
    drops_empty: bool
    omits_zero: bool
    go_path: str
    is_inline: bool = False


_LEFT_OUT: Final = object()
"""Stands for the value of a field that goes."""


class _Struct(_TypeCodec):
    """Structs."""

    def __init__(self, type_name: str) -> None:
        super().__init__(type_name)
        self.struct = struct_type(type_name)
        self.fields = _fields_of(self.struct)
        self.always = always_written(self.struct)

    def decode(self, value: Any, options: _Options) -> Any:
        if type(value) is not dict:
            raise _mismatch(value, self.type_name)
        fields = self.fields
        changed: dict[str, Any] = {}
        for key, item in value.items():
            field = fields.get(key)
            if field is None:
                if self.struct.json_field(key):
                    return self.decode(self._in_one_case(value, options), options)
                if not options.keep_unknown:
                    changed[key] = _LEFT_OUT
            elif item is None:
                changed[key] = _LEFT_OUT
            elif not item or item.__class__ is not field.codec.plain:
                try:
                    # sigs.k8s.io/yaml looks no deeper than the outer struct, and so misses the strings of inline ones.
                    inner = options._replace(coerce=False) if options.coerce and field.is_inline else options
                    decoded = field.codec.decode(item, inner)
                except _DecodeError as error:
                    error.leave_struct(self.type_name, key, field.go_path)
                    raise
                if decoded is None or (field.drops_empty and not decoded):
                    changed[key] = _LEFT_OUT
                elif decoded is not item:
                    changed[key] = decoded
        if changed:
            decoded_items = ((key, changed.get(key, item)) for key, item in value.items())
            value = {key: item for key, item in decoded_items if item is not _LEFT_OUT}
        return value if self.always.keys() <= value.keys() else {**self.always, **value}

    def _in_one_case(self, value: Mapping[str, Any], options: _Options) -> dict[str, Any]:
        """Return an object with the fields' own names. Go decodes keys that differ only in case one after another into the same field."""
        result: dict[str, Any] = {}
        for key, item in value.items():
            field = self.struct.json_field(key)
            name = field.json if field else key
            before = result.get(name)
            if before is not None and not isinstance(before, dict):
                self.decode({name: before}, options)  # what is replaced has to fit, too
            result[name] = _decode_into(before, item)
        return result

    def prune(self, value: Any, missing: AbstractSet[FieldName]) -> Any:
        if not isinstance(value, dict):
            return value
        result: dict[str, Any] = {}
        for key, item in value.items():
            field = self.struct.json_field(key)
            if key.startswith("$"):
                result[key] = item
            elif field is not None and (self.type_name, field.json) not in missing:
                result[key] = self.fields[field.json].codec.prune(item, missing)
        is_same = len(result) == len(value) and all(map(is_, result.values(), value.values()))
        return value if is_same else result

    def encode(self, value: Any, *, creation_timestamp: bool) -> Any:
        value = value or {}
        result: dict[str, Any] = {}
        for name, field in self.fields.items():
            if name in value:
                item = value[name]
                is_text = item.__class__ is str  # most values: one call less
                result[name] = item if is_text else field.codec.encode(item, creation_timestamp=creation_timestamp)
            elif not field.omits_zero or (creation_timestamp and field.field.omitzero):
                result[name] = field.codec.encode(None, creation_timestamp=creation_timestamp)
        if not value.keys() <= self.fields.keys():
            result |= {name: item for name, item in value.items() if name not in self.fields}
        return result


def _decode_into(before: Any, value: Any) -> Any:
    """Decode a value into a field that has the value ``before``, as encoding/json does; but of a list, only the new items stay."""
    if isinstance(before, dict) and isinstance(value, dict):
        return {**before, **{key: _decode_into(before.get(key), item) for key, item in value.items()}}
    return before if value is None and not isinstance(before, dict | list) else value


def _fields_of(struct: StructType) -> dict[str, _Field]:
    """Return the fields of a struct by their JSON names, those of inline structs among them."""
    fields: dict[str, _Field] = {}
    for field in struct.fields:
        if field.inline:
            inner = _fields_of(struct_type(field.type))
            fields |= {
                name: member._replace(go_path=f"{field.go}.{member.go_path}", is_inline=True)
                for name, member in inner.items()
            }
        else:
            omits_zero = field.omitzero or (field.omitempty and not _encodes_as_struct(field.type))
            fields[field.json] = _Field(_codec(field.type), field, drops_empty(field), omits_zero, field.json)
    return fields


@cache
def _codec(type_name: str) -> _TypeCodec:
    """Return the codec of a Go type."""
    if type_name.startswith("*"):
        return _Pointer(type_name)
    if is_struct(type_name):
        return _Struct(type_name)
    return (_Collection if underlying(type_name).startswith(("[]", "map[")) else _TypeCodec)(type_name)


class _DecodeError(Exception):
    """A value that its field cannot hold. Each level that the error passes on its way out completes the path.

    ``wanted`` is the Go type; empty for a text with a syntax error, of which ``what`` is the whole message. ``struct`` is the innermost one
    around the value. ``fields`` lead to it from the outermost struct, as encoding/json names them, and ``path`` through the document.
    """

    def __init__(self, what: str, wanted: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.wanted = wanted
        self.hint = hint
        self.struct = ""
        self.fields: list[str] = []
        self.path: list[str | int] = []

    def __str__(self) -> str:
        if not self.wanted:
            return str(self.args[0])
        place = f"struct field {self.struct}.{'.'.join(self.fields)} of" if self.struct else "value of"
        return (
            f"json: cannot unmarshal {self.args[0]} into Go {place} type {self.wanted.replace('openshiftv1.', 'v1.')}"
        )

    def leave_struct(self, name: str, key: str, go_path: str) -> None:
        """Add a struct that the error passes, and the key and field of it."""
        self.path.insert(0, key)
        if go_path:
            self.struct = self.struct or name.rpartition(".")[2]
            self.fields.insert(0, go_path)


_HINTS: Final = {
    "string": "a string: quote it",
    "bool": "true or false",
    "int32": "a whole number",
    "int64": "a whole number",
    "map[string]string": "a mapping of strings",
    "[]string": "a list of strings",
}
_GO_NAMES: Final[dict[type, str]] = {dict: "object", list: "array", bool: "bool", int: "number", float: "number"}


def _mismatch(value: Any, wanted: str, what: str = "") -> _DecodeError:
    """Return the error of a value that is not a ``wanted``, a Go type."""
    hint = f"make it {_HINTS.get(wanted, 'what the API asks for')}"
    return _DecodeError(what or _GO_NAMES.get(type(value), "string"), wanted, hint)


def dotted_path(path: Sequence[str | int]) -> str:
    """Return a path such as ``spec.containers[0].name``. Keys of labels and annotations, which can have dots, are in brackets."""
    text = ""
    for index, part in enumerate(path):
        in_brackets = isinstance(part, int) or (index > 0 and path[index - 1] in ("annotations", "labels"))
        text += f"[{part}]" if in_brackets else f".{part}"
    return text.removeprefix(".")


# --- decoding scalars

_LIMITS: Final = {"int32": 2**31, "int64": 2**63}
# encoding/json prints a whole float below this as an integer, which then decodes into integer fields.
_WHOLE: Final = 1e21


def _coerce_string(value: Any, wanted: str) -> str:
    """Decode a string, number or bool, as sigs.k8s.io/yaml does."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return format_g(value, bits=32)
    raise _mismatch(value, wanted)


def _integer(value: Any, wanted: str) -> int:
    """Decode an integer. A whole float is one: YAML's ``15.0`` is JSON's 15."""
    limit = _LIMITS[wanted]
    if type(value) is int and -limit <= value < limit:
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _mismatch(value, wanted)
    if isinstance(value, float) or not -limit <= value < limit:
        text = go_float(value) if isinstance(value, float) else str(value)
        raise _mismatch(value, wanted, f"number {text}")
    return value


def _int_or_string(value: Any) -> int | str:
    return value if isinstance(value, str) else _integer(value, "int32")


_CANONICAL: Final = re.compile("[1-9][0-9]{0,2}(?:[mkMGT]|[KMGT]i)?", re.ASCII)
"""Most quantities: as Go writes them, since fewer than four digits fit no larger unit."""


def _quantity(value: Any) -> str:
    """Decode a resource.Quantity, and write it as Go does."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, bool):
        text = "true"
    elif isinstance(value, int):
        text = str(int(value))
    else:
        text = go_float(value) if isinstance(value, float) else ""
    if _CANONICAL.fullmatch(text):
        return text
    canonical = canonical_quantity(text.strip())
    return text if canonical == text else canonical


def _time(value: Any) -> str | None:
    """Decode a metav1.Time, and write it as Go does."""
    if not isinstance(value, str):
        raise _mismatch(value, "string")
    canonical = canonical_time(value)
    return value if canonical == value else canonical


def _parser_of(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decoder of texts that have a syntax."""

    def decode(value: Any) -> Any:
        try:
            return parse(value)
        except DataError as error:
            raise _DecodeError(error.what, hint=error.hint) from error

    return decode


_SCALARS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "int32": partial(_integer, wanted="int32"),
    "int64": partial(_integer, wanted="int64"),
    "resource.Quantity": _parser_of(_quantity),
    "intstr.IntOrString": _int_or_string,
    "v1.Time": _parser_of(_time),
    "v1.FieldsV1": lambda value: value,
    "runtime.RawExtension": lambda value: value,
}

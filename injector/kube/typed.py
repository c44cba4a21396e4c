"""Go's typed view of a JSON object: what is left of it when Go decodes it into a struct and encodes it again.

Follows encoding/json on the structs of k8s.io/api (``schema``) and, for manifests, sigs.k8s.io/yaml (v1.6.0), which
turns numbers and bools into strings where the field is one. Empty ``omitempty`` fields and nulls go, names match in any
case, quantities and times come out canonical. Fields that the structs do not have are kept, unlike in Go: those of a
newer API server shall survive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import takewhile
from operator import is_
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from injector.errors import DataError, ManifestError
from injector.kube import typedscalar as scalar
from injector.kube.goencode import go_encode, go_struct_json, zero_of
from injector.kube.schema import OPAQUE, FieldType, StructType, struct_type, underlying
from injector.kube.typedscalar import TypeMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["ALWAYS_WRITTEN", "drops_empty", "go_encode", "go_struct_json", "normalise"]

Decoder: TypeAlias = "Callable[[Any], Any]"


# Structs that encode as scalars: Go writes them wherever they are no pointers, such as ``divisor: "0"``.
ALWAYS_WRITTEN: Final = frozenset({"resource.Quantity", "intstr.IntOrString"})


@dataclass(frozen=True, slots=True)
class _Options:
    keep_unknown: bool
    coerce: bool


def normalise(value: Any, type_name: str, *, keep_unknown: bool = True, coerce: bool = False) -> Any:
    """Return ``value`` as Go reads and writes it as ``type_name``, such as ``v1.Pod`` or ``[]v1.Container``.

    Of what Go would add, quantities and ports are added (``divisor: "0"``), and nothing else: ``status: {}`` and the
    like are ``go_encode``'s. Where nothing changes, the result is ``value`` itself, and so is each part of it.

    Args:
        value: JSON data; None is Go's zero value.
        type_name: a Go type of ``schema``.
        keep_unknown: keep fields that the type does not have.
        coerce: take numbers and bools for strings, as kube-inject does with manifests.

    Raises:
        ManifestError: a value does not fit its field; with Go's words, and the path of keys.
    """
    options = _Options(keep_unknown, coerce)
    if value is None:
        return zero_of(type_name)
    try:
        return _decoder(type_name, options)(value)
    except TypeMismatchError as error:
        raise scalar.hinted(error, _dotted(error.path)) from None
    except _PlacedError as error:
        raise ManifestError(error.cause.what, where=_dotted(error.path), hint=error.cause.hint) from error.cause


class _PlacedError(Exception):
    """An error of a value's own syntax, on its way out to where its path is known."""

    def __init__(self, cause: DataError) -> None:
        super().__init__(cause)
        self.cause = cause
        self.path: list[str | int] = []


def _dotted(path: list[str | int]) -> str:
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return text.removeprefix(".")


@cache
def _decoder(type_name: str, options: _Options) -> Decoder:
    if type_name in _OPAQUE_DECODERS:
        return _OPAQUE_DECODERS[type_name]
    if type_name.startswith("*"):
        return _decoder(type_name[1:], options)
    if struct_type.known(type_name):
        return _struct_decoder(struct_type(type_name), options)
    base = underlying(type_name)
    if base.startswith("[]"):
        return _list_decoder(type_name, base[2:], options)
    if base.startswith("map["):
        return _map_decoder(type_name, base.partition("]")[2], options)
    if base == "string":
        return scalar.coerced_string(type_name) if options.coerce else scalar.string(type_name)
    return scalar.boolean(type_name) if base == "bool" else scalar.integer(base)


def _placing(decode: Decoder) -> Decoder:
    """Wrap a decoder of texts with a syntax, so that its errors find their place."""

    def placed(value: Any) -> Any:
        try:
            return decode(value)
        except DataError as error:
            raise _PlacedError(error) from error

    return placed


_OPAQUE_DECODERS: Final[Mapping[str, Decoder]] = {
    "resource.Quantity": _placing(scalar.quantity),
    "intstr.IntOrString": scalar.int_or_string,
    "v1.Time": _placing(scalar.time),
    "v1.FieldsV1": scalar.raw,
    "runtime.RawExtension": scalar.raw,
}


class _Field(NamedTuple):
    """How to decode a field.

    Attributes:
        kind: the Python class whose values need no decoding, None where there is none.
        decode: decodes a value of any class.
        drops_empty: whether Go leaves the field out when it is empty.
        name: the JSON name.
        go_path: the name that encoding/json gives the field in errors, with the embedded struct that it comes from.
    """

    kind: type | None
    decode: Decoder
    drops_empty: bool
    name: str
    go_path: str


_KINDS: Final = {"string": str, "bool": bool}


def _fields_of(struct: StructType, options: _Options) -> dict[str, _Field]:
    fields: dict[str, _Field] = {}
    for field in struct.fields:
        if field.inline:
            # sigs.k8s.io/yaml looks no deeper than the outer struct, and so misses the strings of inline ones.
            inner = _fields_of(struct_type(field.type), replace(options, coerce=False))
            fields.update((name, each._replace(go_path=f"{field.go}.{each.go_path}")) for name, each in inner.items())
        else:
            kind = _KINDS.get(underlying(field.type.removeprefix("*")))
            decode = _decoder(field.type, options)
            fields[field.json] = _Field(kind, decode, drops_empty(field), field.json, field.json)
    return fields


def drops_empty(field: FieldType) -> bool:
    """Return whether encoding/json leaves the field out when it is empty: it never does with structs."""
    is_struct = field.type in OPAQUE or struct_type.known(field.type)
    return field.omitempty and not field.type.startswith("*") and not is_struct


def _struct_decoder(struct: StructType, options: _Options) -> Decoder:
    fields = _fields_of(struct, options)
    keep_unknown = options.keep_unknown
    always = {field.json: zero_of(field.type) for field in struct.by_json.values() if field.type in ALWAYS_WRITTEN}

    def find(key: str) -> _Field | None:
        found = struct.json_field(key)
        return fields[found.json] if found is not None else None

    def decode(value: Any) -> Any:
        if type(value) is not dict:
            raise scalar.mismatch(value, struct.name)
        # Most objects come as Go writes them: nothing is copied before something changes.
        result: dict[str, Any] | None = None
        key = ""
        field: _Field | None = None
        try:
            for key, item in value.items():
                field = fields.get(key) or find(key)
                if field is None:
                    if keep_unknown:
                        if result is not None:
                            result[key] = item
                        continue
                    decoded, drops = None, True
                    name = key
                else:
                    kind, decode_item, drops, name, _ = field
                    decoded = item if item.__class__ is kind or item is None else decode_item(item)
                if decoded is None or (drops and not decoded):
                    if result is None:
                        result = _before(value, key)
                    continue
                if result is None:
                    if decoded is item and name == key:
                        continue
                    result = _before(value, key)
                result[name] = decoded
        except (TypeMismatchError, _PlacedError) as error:
            _place(error, struct, key, field)
            raise
        found = value if result is None else result
        return {**always, **found} if always and not always.keys() <= found.keys() else found

    return decode


def _before(value: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the entries of ``value`` that come before ``key``."""
    return dict(takewhile(lambda entry: entry[0] != key, value.items()))


def _place(error: TypeMismatchError | _PlacedError, struct: StructType, key: str, field: _Field | None) -> None:
    error.path.insert(0, key)
    if isinstance(error, TypeMismatchError) and field is not None:
        error.struct = error.struct or struct.name.rpartition(".")[2]
        error.fields.insert(0, field.go_path)


def _list_decoder(type_name: str, element_type: str, options: _Options) -> Decoder:
    decode_item = _decoder(element_type, options)
    zero = partial(zero_of, element_type)

    def decode(value: Any) -> Any:
        if type(value) is not list:
            raise scalar.mismatch(value, type_name)
        result: list[Any] = []
        try:
            for item in value:
                result.append(zero() if item is None else decode_item(item))  # noqa: PERF401 -- its length places an error
        except (TypeMismatchError, _PlacedError) as error:
            error.path.insert(0, len(result))
            raise
        return value if all(map(is_, result, value)) else result

    return decode


def _map_decoder(type_name: str, element_type: str, options: _Options) -> Decoder:
    decode_item = _decoder(element_type, options)
    zero = partial(zero_of, element_type)
    kind = _KINDS.get(underlying(element_type))

    def decode(value: Any) -> Any:
        if type(value) is not dict:
            raise scalar.mismatch(value, type_name)
        result: dict[str, Any] = {}
        key = ""
        try:
            for key, item in value.items():
                if item.__class__ is kind:
                    result[key] = item
                else:
                    result[key] = zero() if item is None else decode_item(item)
        except (TypeMismatchError, _PlacedError) as error:
            error.path.insert(0, key)
            raise
        return value if all(map(is_, result.values(), value.values())) else result

    return decode

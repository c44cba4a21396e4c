"""How encoding/json decodes the scalars of Kubernetes' types: strings, numbers, quantities, ports, times.

A value of the wrong type is a ``TypeMismatchError``, which ``typed`` completes with the place on its way out.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ManifestError
from injector.golang.strconv import format_g, go_float
from injector.golang.time import canonical_time
from injector.kube.quantity import canonical_quantity

if TYPE_CHECKING:
    from collections.abc import Callable

INTEGERS: Final = {"int32": 2**31, "int64": 2**63}
_SHORT: Final = 32
# encoding/json prints a whole float below this as an integer, which then decodes into integer fields.
_WHOLE: Final = 1e21


class TypeMismatchError(Exception):
    """A JSON value that its field cannot hold.

    ``found`` is Go's word for the value and ``wanted`` the Go type. ``struct`` is the innermost struct around it and
    ``fields`` the way from the outermost, as encoding/json names them; ``path`` is the way through the document.
    """

    def __init__(self, found: str, wanted: str) -> None:
        super().__init__(found, wanted)
        self.found = found
        self.wanted = wanted
        self.struct = ""
        self.fields: list[str] = []
        self.path: list[str | int] = []

    def __str__(self) -> str:
        place = f"struct field {self.struct}.{'.'.join(self.fields)} of" if self.struct else "value of"
        wanted = self.wanted.replace("openshiftv1.", "v1.")
        return f"json: cannot unmarshal {self.found} into Go {place} type {wanted}"


_KINDS: Final[dict[type, str]] = {dict: "object", list: "array", bool: "bool", int: "number", float: "number"}


def mismatch(value: Any, wanted: str) -> TypeMismatchError:
    """Make the error of a value that is no ``wanted``, a Go type."""
    return TypeMismatchError(_KINDS.get(type(value), "string"), wanted)


def string(wanted: str) -> Callable[[Any], Any]:
    """Return a decoder of strings, of a Go type."""

    def decode(value: Any) -> Any:
        if isinstance(value, str):
            return value
        raise mismatch(value, wanted)

    return decode


def coerced_string(wanted: str) -> Callable[[Any], Any]:
    """Return a decoder of strings that takes numbers and bools too, as sigs.k8s.io/yaml does."""

    def decode(value: Any) -> Any:
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return str(int(value))
        if isinstance(value, float):
            return format_g(value, bits=32)
        raise mismatch(value, wanted)

    return decode


def boolean(wanted: str) -> Callable[[Any], Any]:
    """Return a decoder of bools, of a Go type."""

    def decode(value: Any) -> Any:
        if isinstance(value, bool):
            return value
        raise mismatch(value, wanted)

    return decode


def integer(wanted: str) -> Callable[[Any], Any]:
    """Return a decoder of the integers that ``wanted``, a Go type, holds.

    A whole float is one: YAML's ``15.0`` is JSON's 15.
    """
    limit = INTEGERS[wanted]

    def decode(value: Any) -> Any:
        if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise mismatch(value, wanted)
        if isinstance(value, float) or not -limit <= value < limit:
            shown = go_float(value) if isinstance(value, float) else str(value)
            raise TypeMismatchError(f"number {shown}", wanted)
        return value

    return decode


_int32 = integer("int32")


def int_or_string(value: Any) -> Any:
    """Decode an intstr.IntOrString."""
    return value if isinstance(value, str) else _int32(value)


# A cluster uses few different quantities, and reading one takes longer than finding it again.
@lru_cache(1024)
def _short_quantity(text: str) -> str:
    return canonical_quantity(text.strip())


def quantity(value: Any) -> str:
    """Decode a resource.Quantity, and write it as Go does.

    Raises:
        DataError: it is no quantity.
    """
    if isinstance(value, str):
        written = _short_quantity(value) if len(value) <= _SHORT else canonical_quantity(value.strip())
        return value if written == value else written
    if isinstance(value, bool):
        return canonical_quantity("true")
    if isinstance(value, int):
        return canonical_quantity(str(int(value)))
    return canonical_quantity(go_float(value) if isinstance(value, float) else "")


def time(value: Any) -> str | None:
    """Decode a metav1.Time, and write it as Go does.

    Raises:
        ManifestError: it is no time.
    """
    if not isinstance(value, str):
        raise mismatch(value, "string")
    written = canonical_time(value)
    return value if written == value else written


def raw(value: Any) -> Any:
    """Decode what Go keeps as it is: metav1.FieldsV1, runtime.RawExtension."""
    return value


def hinted(error: TypeMismatchError, where: str) -> ManifestError:
    """Make the error that a user sees."""
    return ManifestError(str(error), where=where, hint=f"make it {_ASKED.get(error.wanted, 'what the API asks for')}")


_ASKED: Final = {
    "string": "a string: quote it",
    "bool": "true or false",
    "int32": "a whole number",
    "int64": "a whole number",
    "map[string]string": "a mapping of strings",
    "[]string": "a list of strings",
}

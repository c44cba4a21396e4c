"""Kubernetes objects as the Go structs that templates read.

A view wraps a plain, normalised dict, and its fields have Go's names: ``.Spec.Containers`` reads ``containers``. An absent field has Go's
zero value: an empty string, 0, a nil slice, a nil pointer. The types come from the table of k8s.io/api in ``kube.typed``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from functools import cache, partial
from typing import Any, Final

from injector.gotemplate.values import SIZED_INTS, Func, Int32, Int64, Map, NamedString, Pointer, Slice, Struct
from injector.kube.typed import go_encode, is_struct, struct_type, underlying

# Shorter texts of digits always fit into 64 bits.
_INT_DIGITS: Final = 19


def getter(read: Callable[[str], Any], name: str, fields: Container[str]) -> Func | None:
    """Return the method ``Get`` followed by one of ``fields``, which reads that field; None for another name."""
    field = name.removeprefix("Get")
    return Func(name, "func() interface {}", lambda: read(field)) if field != name and field in fields else None


class GoStruct(Struct):
    """A view of one JSON object as a Go struct. The object must not change while the view is used."""

    __slots__ = ("_fields", "data", "go_type")

    def __init__(self, type_name: str, data: dict[str, Any]) -> None:
        self.go_type = type_name
        self._fields: dict[str, Any] = {}
        self.data = data

    def field(self, name: str) -> Any:
        """Return a field by its Go name, or its zero value if the object lacks it; KeyError if there is no such field."""
        if name not in self._fields:
            self._fields[name] = _field_reader(self.go_type, name)(self.data)
        return self._fields[name]

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Yield the fields in the order of Go's declaration."""
        for field in struct_type(self.go_type).fields:
            yield field.go, self.field(field.go)

    def parts(self) -> Any:
        """Return the object."""
        return self.data

    def json_value(self) -> Any:
        """Return the object as encoding/json marshals the struct."""
        return go_encode(self.data, self.go_type)

    def method(self, name: str) -> Func | None:
        """Return a getter of metav1.Object, which ObjectMeta has."""
        return getter(self.field, name, struct_type(self.go_type).by_go) if self.go_type == "v1.ObjectMeta" else None


class FieldStruct(Struct):
    """A struct of given fields."""

    __slots__ = ("_fields", "go_type")

    def __init__(self, go_type: str, fields: dict[str, Any]) -> None:
        self.go_type = go_type
        self._fields = fields

    def field(self, name: str) -> Any:
        """Return a field; KeyError if there is no such field."""
        return self._fields[name]

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Yield the fields in order."""
        return iter(self._fields.items())


class NamespacedName(FieldStruct):
    """A types.NamespacedName."""

    __slots__ = ()

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__("types.NamespacedName", {"Namespace": namespace, "Name": name})

    def method(self, name: str) -> Func | None:
        """Return ``String``."""
        return Func(name, "func() string", self.go_string) if name == "String" else None

    def go_string(self) -> str:
        """Return both names, as Go prints them."""
        return "/".join(self._fields.values())


class IntOrString(FieldStruct):
    """An intstr.IntOrString: a port by its number or its name."""

    __slots__ = ("_value",)

    def __init__(self, value: int | str) -> None:
        self._value = value
        number, text = (0, value) if isinstance(value, str) else (value, "")
        fields = {"Type": Int64(int(isinstance(value, str))), "IntVal": Int32(number), "StrVal": text}
        super().__init__("intstr.IntOrString", fields)

    def method(self, name: str) -> Func | None:
        """Return ``String`` or ``IntValue``."""
        if name == "String":
            return Func(name, "func() string", self.go_string)
        return Func(name, "func() int", self._number) if name == "IntValue" else None

    def _number(self) -> int:
        # As Istio does with Go's Atoi: 0 if the text is not a number.
        text = str(self._value)
        return int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) < _INT_DIGITS else 0

    def go_string(self) -> str:
        """Return the number or the name, as Go prints it."""
        return str(self._value)

    def json_value(self) -> int | str:
        """Return the value as encoding/json writes it."""
        return self._value


@cache
def _field_reader(type_name: str, name: str) -> Callable[[dict[str, Any]], Any]:
    """Return the function that reads a field of a Go struct; KeyError if there is no such field."""
    path = struct_type(type_name).go_path(name)
    if not path:
        raise KeyError(name)
    field = path[-1]
    outer = tuple(step.json for step in path[:-1] if not step.inline)
    as_go: Callable[[Any], Any] = partial(GoStruct, field.type) if field.inline else wrapper(field.type)

    def read(data: dict[str, Any]) -> Any:
        for key in outer:
            data = data.get(key) or {}
        return as_go(data if field.inline else data.get(field.json))

    return read


@cache
def wrapper(go_type: str) -> Callable[[Any], Any]:
    """Return the function that makes JSON data a value of a Go type, in the template engine's model; None is the type's zero value."""
    if go_type in SIZED_INTS:
        integer = SIZED_INTS[go_type]
        return lambda value: integer(value or 0)
    if go_type in _WRAPPERS:
        return _WRAPPERS[go_type]
    if go_type.startswith("*"):
        target = wrapper(go_type[1:])
        return lambda value: Pointer(go_type, None if value is None else target(value))
    if is_struct(go_type):
        return lambda value: GoStruct(go_type, value or {})
    base = underlying(go_type)
    if base.startswith("[]"):
        element, item = base[2:], wrapper(base[2:])
        return lambda value: Slice(element, map(item, value or ()), nil=value is None)
    if base.startswith("map["):
        key, _, element = base[4:].partition("]")
        entry = wrapper(element)
        return lambda value: Map(
            key, element, {name: entry(inner) for name, inner in (value or {}).items()}, nil=value is None
        )
    return lambda value: NamedString(go_type, value or "")


_WRAPPERS: Final[dict[str, Callable[[Any], Any]]] = {
    "string": lambda value: value or "",
    "bool": bool,
    "intstr.IntOrString": lambda value: IntOrString(0 if value is None else value),
    "map[string]string": lambda value: Map("string", "string", value or (), nil=value is None),
    "[]string": lambda value: Slice("string", value or (), nil=value is None),
}

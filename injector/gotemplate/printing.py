"""How Go prints a value by a verb: scalars, lists, maps, structs, pointers and what their methods say (fmt/print.go, Go 1.26)."""

from __future__ import annotations

from typing import Any, Final

from injector.gotemplate.budget import check_size, reserve, spend
from injector.gotemplate.errors import FuncError
from injector.gotemplate.formats import (
    Spec,
    format_bool,
    format_bytes,
    format_complex,
    format_integer,
    format_real,
    format_string,
    hexadecimal,
)
from injector.gotemplate.reflect import ANY, NO_VALUE, basic_kind, is_nil, kind_of, sorted_items, type_of
from injector.gotemplate.values import Func, Pointer, Slice, Struct, Uint8

# Deeper data is hostile, or refers to itself; Go would go on until its stack ends.
_MAX_DEPTH: Final = 100
_METHOD_VERBS: Final = "vsxXq"
_TEXT_VERBS: Final = "sqxX"
_VALUE_STEPS: Final = 20
_VALUE_BYTES: Final = 96


def print_operand(value: Any, verb: str, spec: Spec) -> str:
    """Return an operand of Print or Printf by a verb (printArg)."""
    if value is None:
        return spec.pad("<nil>") if verb in "Tv" else f"%!{verb}(<nil>)"
    if verb == "T":
        return spec.pad(spec.cut(type_of(value)))
    if verb == "p":
        return _address(value, verb, spec)
    return _Values(spec).value(value, verb, 0)


class _Values:
    """Prints one operand and what is inside it."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.erroring = False
        self.size = 0

    def value(self, value: Any, verb: str, depth: int) -> str:
        """Return a value by a verb (printValue)."""
        if depth > _MAX_DEPTH:
            raise FuncError("value nests too deeply to print")
        # A list of bytes has no methods where it is the operand itself: its elements complain.
        is_plain = self.erroring or (depth == 0 and verb == "w" and type_of(value) == "[]uint8")
        text = None if is_plain else self.by_method(value, verb)
        if text is None:
            text = self.scalar(value, verb)
        if text is not None:
            self.size += len(text)
            check_size(self.size)
            return text
        text = self.composite(value, verb, depth)
        return self.bad_verb(value, verb) if text is None else text

    def by_method(self, value: Any, verb: str) -> str | None:
        """Return what a value's own method makes of it, None for a value without one (handleMethods)."""
        if verb == "w":
            return self.bad_verb(value, verb)
        if verb not in _METHOD_VERBS or self.spec.sharp_v:
            return None
        target = value
        if isinstance(value, Pointer):
            if value.target is None:
                return "<nil>" if value.method("String") or value.method("Error") else None
            target = value.target
        stringer = getattr(target, "go_string", None)
        if stringer is None:
            return None
        try:
            text = stringer()
        except FuncError as panic:
            return f"%!{verb}(PANIC=String method: {panic})"
        return format_string(text, verb, self.spec)

    def bad_verb(self, value: Any, verb: str) -> str:
        """Return the complaint about a verb that a value has not (badVerb)."""
        outer, self.erroring = self.erroring, True
        text = f"%!{verb}({type_of(value)}={self.value(value, 'v', 0)})"
        self.erroring = outer
        return text

    def scalar(self, value: Any, verb: str) -> str | None:
        """Return a boolean, number or string by a verb; None for other values, and for a verb that it has not."""
        match basic_kind(value):
            case "bool":
                return format_bool(value, verb, self.spec)
            case "string":
                return format_string(str.__str__(value), verb, self.spec)
            case "int":
                return format_integer(int(value), verb, self.spec)
            case "uint":
                return format_integer(int(value), verb, self.spec, unsigned=True)
            case "float":
                return format_real(float(value), verb, self.spec, 32 if kind_of(value) == "float32" else 64)
            case "complex":
                return format_complex(value, verb, self.spec)
        return None

    def composite(self, value: Any, verb: str, depth: int) -> str | None:
        """Return a list, map, struct or pointer by a verb; None for a verb that it has not."""
        if isinstance(value, list | bytes | dict):
            values = len(value) * (2 if isinstance(value, dict) else 1)
            spend(_VALUE_STEPS * values)
            reserve(_VALUE_BYTES * values)
        if isinstance(value, list | bytes):
            return self.items(value, verb, depth)
        if isinstance(value, dict):
            return self.entries(value, verb, depth)
        if isinstance(value, Struct):
            return self.fields(value, verb, depth)
        if isinstance(value, Pointer):
            if depth == 0 and isinstance(value.target, Struct | list | dict):
                return "&" + self.value(value.target, verb, depth + 1)
            if depth == 0 and verb == "v" and value.target is not None and not self.erroring:
                # Go prints the address, which is another on every run.
                return self.value(value.target, verb, depth + 1)
            return _address(value, verb, self.spec)
        if isinstance(value, Func):
            return _address(value, verb, self.spec)
        return "<no value>" if value is NO_VALUE else None

    def items(self, value: Any, verb: str, depth: int) -> str:
        """Return the elements of a list."""
        elem = value.elem if isinstance(value, Slice) else "uint8" if isinstance(value, bytes) else ANY
        if elem == "uint8" and verb in _TEXT_VERBS:
            return self.text(bytes(value), verb)
        items = [self.inner(item, verb, depth) for item in (map(Uint8, value) if isinstance(value, bytes) else value)]
        if not self.spec.sharp_v:
            return self.joined("[", items, " ", "]")
        # At the top Go prints the type []uint8 by its other name.
        plain = elem == "uint8" and depth == 0 and verb in "vd" and not self.erroring
        name = "[]byte" if plain else type_of(value)
        if is_nil(value):
            return f"{name}(nil)"
        return self.joined(f"{name}{{", items, ", ", "}")

    def text(self, raw: bytes, verb: str) -> str:
        """Return bytes as text."""
        if verb in "xX":
            return format_bytes(raw, verb, self.spec)
        return format_string(raw.decode("utf-8", "surrogateescape"), verb, self.spec) or ""

    def entries(self, value: dict[Any, Any], verb: str, depth: int) -> str:
        """Return the entries of a map, by key."""
        if self.spec.sharp_v and is_nil(value):
            return f"{type_of(value)}(nil)"
        entries = [
            f"{self.inner(key, verb, depth)}:{self.inner(item, verb, depth)}" for key, item in sorted_items(value)
        ]
        if self.spec.sharp_v:
            return self.joined(f"{type_of(value)}{{", entries, ", ", "}")
        return self.joined("map[", entries, " ", "]")

    def fields(self, value: Struct, verb: str, depth: int) -> str:
        """Return the fields of a struct, with their names where the flags ask for them."""
        named = self.spec.plus_v or self.spec.sharp_v
        fields = [f"{name}:" * named + self.inner(item, verb, depth) for name, item in value.fields()]
        if self.spec.sharp_v:
            return self.joined(f"{value.go_type}{{", fields, ", ", "}")
        return self.joined("{", fields, " ", "}")

    def inner(self, value: Any, verb: str, depth: int) -> str:
        """Return an element of a list, map or struct."""
        if value is None:
            return f"{ANY}(nil)" if self.spec.sharp_v else "<nil>"
        return self.value(value, verb, depth + 1)

    def joined(self, opening: str, parts: list[str], separator: str, closing: str) -> str:
        """Return elements in their brackets; the elements have been counted."""
        self.size += len(opening) + len(separator) * len(parts) + len(closing)
        check_size(self.size)
        return opening + separator.join(parts) + closing


def _address(value: Any, verb: str, spec: Spec) -> str:
    """Return a pointer by a verb (fmtPointer)."""
    if not isinstance(value, Pointer | Func | list | dict):
        return _Values(spec).bad_verb(value, verb)
    address = 0 if is_nil(value) else id(value)
    if verb == "v" and spec.sharp_v:
        shown = hexadecimal(address, spec) if address else "nil"
        return f"({type_of(value)})({shown})"
    if verb == "v" and not address:
        return spec.pad("<nil>")
    if verb in "vp":
        return hexadecimal(address, spec, prefix=not spec.sharp)
    text = format_integer(address, verb, spec, unsigned=True) if verb in "bodxX" else None
    return _Values(spec).bad_verb(value, verb) if text is None else text

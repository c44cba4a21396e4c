"""Fields, map entries and methods by name (text/template/exec.go evalField, Go 1.26)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from injector.gotemplate.reflect import NO_VALUE, element_type, type_of, zero_of
from injector.gotemplate.values import Func, Map, Pointer, Struct

if TYPE_CHECKING:
    from injector.gotemplate.state import State


def field_of(state: State, receiver: Any, name: str, static: str, missing_key: str, *, has_args: bool) -> Any:
    """Return what ``.name`` is on ``receiver``: a field, a map entry, or a method as an unbound ``Func`` to call.

    ``static`` is the type that errors name where it is not the value's own.
    """
    if type(receiver) is dict:
        if name in receiver and not has_args:
            return receiver[name]
    elif receiver is NO_VALUE:
        if missing_key == "error":
            state.fail(f'nil data; no entry for key "{name}"')
        return NO_VALUE
    value = receiver
    while isinstance(value, Pointer) and value.target is not None:
        value = value.target
    if value is None:
        state.fail(f"nil pointer evaluating interface {{}}.{name}")
    method = _method(value, name)
    if method is not None:
        return method
    if isinstance(value, Struct):
        found = _struct_field(state, value, name, has_args=has_args)
        if found is not NO_VALUE:
            return found
    elif isinstance(value, dict):
        if not isinstance(value, Map) or value.key == "string":
            return _entry(state, value, name, missing_key, has_args=has_args)
    elif isinstance(value, Pointer) and not _lacks(value, name):
        state.fail(f"nil pointer evaluating {static or type_of(receiver)}.{name}")
    state.fail(f"can't evaluate field {name} in type {static or type_of(receiver)}")


def _method(value: Any, name: str) -> Func | None:
    method = getattr(value, "method", None)
    if method is None:
        return None
    found: Func | None = method(name)
    return found


def _lacks(pointer: Pointer, name: str) -> bool:
    """Return whether a nil pointer is known to point at a struct without the field."""
    has_field = getattr(pointer, "has_field", None)
    return has_field is not None and not has_field(name)


def _struct_field(state: State, value: Struct, name: str, *, has_args: bool) -> Any:
    try:
        found = value.field(name)
    except KeyError:
        return NO_VALUE
    if has_args:
        state.fail(f"{name} has arguments but cannot be invoked as function")
    return found


def _entry(state: State, value: dict[Any, Any], name: str, missing_key: str, *, has_args: bool) -> Any:
    if has_args:
        state.fail(f"{name} is not a method but has arguments")
    if name in value:
        return value[name]
    if missing_key == "error":
        state.fail(f'map has no entry for key "{name}"')
    return zero_of(element_type(value)) if missing_key == "zero" else NO_VALUE

"""Fields, map entries and methods by name (text/template/exec.go evalField, Go 1.26)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from injector.gotemplate.errors import FuncError
from injector.gotemplate.failures import Failure, FieldFailure, MethodFailure
from injector.gotemplate.reflect import ANY, NO_VALUE, key_type, zero_element
from injector.gotemplate.signatures import parse_signature
from injector.gotemplate.text import quote
from injector.gotemplate.values import Func, Pointer, Struct

if TYPE_CHECKING:
    from collections.abc import Callable

_NAMES: Final = ("string", ANY)
"""Types of keys that a name in a template can be."""


def field_reader(missing_key: str) -> Callable[[Any, str], Any]:
    """Return the function that reads ``receiver.name``, calling it where it is a method, for a value of the option missingkey."""
    missing = _MISSING[missing_key]
    invalid = _nil_data if missing_key == "error" else _no_value
    # Classes that have turned out to be structs: asking an abstract class each time takes longer than reading the field.
    structs: set[type] = set()

    def field(receiver: Any, name: str) -> Any:
        value = receiver
        if value.__class__ not in structs:
            if value is NO_VALUE:
                return invalid(name)
            value = pointed(value)
            if value.__class__ not in structs:
                if isinstance(value, Struct):
                    structs.add(value.__class__)
                else:
                    return entry(receiver, value, name)
        try:
            return value.field(name)
        except KeyError:
            return _method_or_failure(receiver, value, name)

    def entry(receiver: Any, value: Any, name: str) -> Any:
        if value is None:
            raise FieldFailure(f"nil pointer evaluating {{type}}.{name}", receiver)
        if isinstance(value, dict) and key_type(value) in _NAMES:
            return value[name] if name in value else missing(value, name)
        return _method_or_failure(receiver, value, name)

    return field


def pointed(value: Any) -> Any:
    """Return what a pointer points at, or the pointer if that is nil."""
    while isinstance(value, Pointer) and value.target is not None:
        value = value.target
    return value


def _method_or_failure(receiver: Any, value: Any, name: str) -> Any:
    """Call the method of a value that has no such field: no Go type has both."""
    found = method_of(value, name)
    if found is not None:
        return _called(found, name)
    raise _no_field(receiver, value, name)


def method_reader(missing_key: str) -> Callable[[Any, str], Any]:
    """Return the function that finds the method ``name`` of a receiver that is given arguments; ``NO_VALUE`` has none."""
    invalid = _nil_data if missing_key == "error" else _no_value

    def method(receiver: Any, name: str) -> Any:
        if receiver is NO_VALUE:
            return invalid(name)
        value = pointed(receiver)
        if value is None:
            raise FieldFailure(f"nil pointer evaluating {{type}}.{name}", receiver)
        found = method_of(value, name)
        if found is not None:
            return found
        if isinstance(value, dict) and key_type(value) in _NAMES:
            raise Failure(f"{name} is not a method but has arguments")
        if isinstance(value, Struct) and _has_field(value, name):
            raise Failure(f"{name} has arguments but cannot be invoked as function")
        raise _no_field(receiver, value, name)

    return method


def method_of(value: Any, name: str) -> Func | None:
    """Return the method ``name`` of a value, or None."""
    method = getattr(value, "method", None)
    if method is None:
        return None
    found: Func | None = method(name)
    return found


def _called(method: Func, name: str) -> Any:
    miscount = parse_signature(method.signature).miscount(0, final=False)
    if miscount:
        raise Failure(f"wrong number of args for {name}: {miscount}")
    try:
        return method.call()
    except FuncError as error:
        raise MethodFailure(f"error calling {name}: {error}") from error


def _has_field(value: Struct, name: str) -> bool:
    try:
        value.field(name)
    except KeyError:
        return False
    return True


def _no_field(receiver: Any, value: Any, name: str) -> FieldFailure:
    """Return the failure of a field that a receiver, which ``value`` is behind, has not."""
    if isinstance(value, Struct) and value.is_unexported(name):
        return FieldFailure(f"{name} is an unexported field of struct type {{type}}", receiver)
    if isinstance(value, Pointer) and value.has_field(name):
        return FieldFailure(f"nil pointer evaluating {{type}}.{name}", receiver)
    return FieldFailure(f"can't evaluate field {name} in type {{type}}", receiver)


def _no_value(_name: str) -> Any:
    return NO_VALUE


def _nil_data(name: str) -> Any:
    raise Failure(f"nil data; no entry for key {quote(name)}")


def _missing_error(_value: Any, name: str) -> Any:
    raise Failure(f"map has no entry for key {quote(name)}")


_MISSING: Final[dict[str, Callable[[Any, str], Any]]] = {
    "default": lambda _value, _name: NO_VALUE,
    "invalid": lambda _value, _name: NO_VALUE,
    "zero": lambda value, _name: zero_element(value),
    "error": _missing_error,
}

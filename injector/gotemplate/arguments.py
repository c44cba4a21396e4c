"""Arguments of template functions: constants converted to, and values checked against, the types of the parameters.

Follows ``evalArg``, ``validateType`` and what they call in text/template/exec.go (Go 1.26).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from injector.gotemplate import nodes as n
from injector.gotemplate.failures import Failure
from injector.gotemplate.reflect import ANY, NO_VALUE, type_of, zero_of
from injector.gotemplate.values import Float32, Pointer, SizedInt, Struct

if TYPE_CHECKING:
    from collections.abc import Callable

REFLECT: Final = "reflect.Value"
_SIZED: Final = {cls.go_type: cls for cls in SizedInt.__subclasses__() if cls.__module__ == SizedInt.__module__}
_UNSIGNED: Final = frozenset({"uint", "uint8", "uint16", "uint32", "uint64", "uintptr"})
_SIGNED: Final = frozenset({"int", "int8", "int16", "int32", "int64"})


def can_be_nil(go_type: str) -> bool:
    """Return whether a type has nil."""
    return go_type in (ANY, REFLECT) or go_type.startswith(("*", "[]", "map[", "func(", "interface"))


def zero_argument(go_type: str) -> Any:
    """Return nil of a type that has it."""
    if go_type == REFLECT:
        return NO_VALUE
    return zero_of(go_type)


def checked(value: Any, go_type: str, container: Any = None) -> Any:
    """Return ``value`` fit for a parameter of type ``go_type``.

    Args:
        value: the argument.
        go_type: the parameter's type.
        container: what the value is an element or field of, where that is known: a struct's address can be taken only there.

    Raises:
        Failure: it does not fit; in Go's words.
    """
    if value is NO_VALUE:
        if can_be_nil(go_type):
            return zero_argument(go_type)
        raise Failure(f"invalid value; expected {go_type}")
    if go_type in (ANY, REFLECT):
        return value
    found = ANY if value is None else type_of(value)
    if found == go_type:
        return value
    if isinstance(value, Pointer) and value.go_type == f"*{go_type}":
        if value.target is None:
            raise Failure(f"dereference of nil pointer of type {go_type}")
        return value.target
    if isinstance(value, Struct) and go_type == f"*{found}" and isinstance(container, Pointer | list):
        return Pointer(go_type, value)
    raise Failure(f"wrong type for value; expected {go_type}; got {found}")


def ideal_constant(node: n.NumberNode) -> Any:
    """Return a number as the type it has where none is asked for (exec.go idealConstant).

    Raises:
        Failure: it overflows int.
    """
    text = node.text
    if node.as_complex is not None:
        return node.as_complex
    is_hex = text[:2] in ("0x", "0X") and not any(mark in text for mark in "pP")
    if node.as_float is not None and not is_hex and not text.startswith("'") and any(mark in text for mark in ".eEpP"):
        return node.as_float
    if node.as_int is not None:
        return node.as_int
    raise Failure(f"{text} overflows int")


def constant(node: n.Node, go_type: str) -> Any:
    """Return a literal as a value of a parameter's type.

    Raises:
        Failure: it is a literal of another kind.
    """
    if isinstance(node, n.NilNode):
        if can_be_nil(go_type):
            return zero_argument(go_type)
        raise Failure(f"cannot assign nil to {go_type}")
    if go_type in (ANY, REFLECT):
        return free_constant(node)
    converter = _CONVERTERS.get(_kind(go_type))
    if converter is None:
        raise Failure(f"can't handle {node} for arg of type {go_type}")
    return converter(node, go_type)


def free_constant(node: n.Node) -> Any:
    """Return a literal as the type it has where none is asked for.

    Raises:
        Failure: it is a number that no type but uint64 holds.
    """
    if isinstance(node, n.NumberNode):
        return ideal_constant(node)
    if isinstance(node, n.BoolNode):
        return node.value
    if isinstance(node, n.StringNode):
        return node.text
    raise Failure(f"can't handle assignment of {node} to empty interface argument")


def _kind(go_type: str) -> str:
    if go_type in _SIGNED:
        return "int"
    if go_type in _UNSIGNED:
        return "uint"
    if go_type in ("float32", "float64"):
        return "float"
    return "complex" if go_type in ("complex64", "complex128") else go_type


def _bool(node: n.Node, _go_type: str) -> Any:
    if isinstance(node, n.BoolNode):
        return node.value
    raise Failure(f"expected bool; found {node}")


def _string(node: n.Node, _go_type: str) -> Any:
    if isinstance(node, n.StringNode):
        return node.text
    raise Failure(f"expected string; found {node}")


def _int(node: n.Node, go_type: str) -> Any:
    if isinstance(node, n.NumberNode) and node.as_int is not None:
        return sized(node.as_int, go_type)
    raise Failure(f"expected integer; found {node}")


def _uint(node: n.Node, go_type: str) -> Any:
    if isinstance(node, n.NumberNode) and node.as_uint is not None:
        return sized(node.as_uint, go_type)
    raise Failure(f"expected unsigned integer; found {node}")


def sized(number: int, go_type: str) -> Any:
    """Return an integer as one of a Go type, with the bits that the type has room for (reflect.Value.SetInt)."""
    if go_type == "int":
        return number
    bits = int(go_type.lstrip("uint") or 64)
    number &= (1 << bits) - 1
    if go_type in _SIGNED and number >> (bits - 1):
        number -= 1 << bits
    return _SIZED[go_type](number)


def _float(node: n.Node, go_type: str) -> Any:
    if isinstance(node, n.NumberNode) and node.as_float is not None:
        return Float32(node.as_float) if go_type == "float32" else node.as_float
    raise Failure(f"expected float; found {node}")


def _complex(node: n.Node, _go_type: str) -> Any:
    if isinstance(node, n.NumberNode) and node.as_complex is not None:
        return node.as_complex
    raise Failure(f"expected complex; found {node}")


_CONVERTERS: Final[dict[str, Callable[[n.Node, str], Any]]] = {
    "bool": _bool,
    "string": _string,
    "int": _int,
    "uint": _uint,
    "float": _float,
    "complex": _complex,
}

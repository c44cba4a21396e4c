"""Arguments of template functions: constants converted to, and values checked against, the types of the parameters.

Follows ``evalArg``, ``validateType`` and what they call in text/template/exec.go (Go 1.26).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from injector.gotemplate import nodes as n
from injector.gotemplate.reflect import ANY, NO_VALUE, type_of, zero_of
from injector.gotemplate.values import Float32, Pointer, SizedInt, Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from injector.gotemplate.state import State

REFLECT: Final = "reflect.Value"
_SIZED: Final = {cls.go_type: cls for cls in SizedInt.__subclasses__()}
_UNSIGNED: Final = frozenset({"uint", "uint8", "uint16", "uint32", "uint64", "uintptr"})
_SIGNED: Final = frozenset({"int", "int8", "int16", "int32", "int64"})
_EXACT: Final[dict[str, type]] = {"string": str, "bool": bool, "int": int, "float64": float}


class Unfit(Exception):  # noqa: N818 - a signal between two functions of the compiler, no error of its own
    """A constant that does not fit its parameter; the text is Go's reason."""


def can_be_nil(go_type: str) -> bool:
    """Return whether a type has nil."""
    return go_type in (ANY, REFLECT) or go_type.startswith(("*", "[]", "map[", "func(", "interface"))


def checked(state: State, value: Any, go_type: str) -> Any:
    """Return ``value`` fit for a parameter of type ``go_type``; fail with Go's words where it does not fit."""
    if type(value) is _EXACT.get(go_type):
        return value
    if go_type == REFLECT:
        return value
    if value is NO_VALUE:
        if can_be_nil(go_type):
            return zero_of(go_type)
        state.fail(f"invalid value; expected {go_type}")
    if go_type == ANY:
        return value
    found = ANY if value is None else type_of(value)
    if found == go_type:
        return value
    if isinstance(value, Pointer) and value.go_type == f"*{go_type}":
        if value.target is None:
            state.fail(f"dereference of nil pointer of type {value.go_type}")
        return value.target
    if isinstance(value, Struct) and go_type == f"*{found}":
        return Pointer(go_type, value)
    state.fail(f"wrong type for value; expected {go_type}; got {found}")


def ideal_constant(node: n.NumberNode) -> Any:
    """Return a number as the type it has where none is asked for (exec.go idealConstant).

    Raises:
        Unfit: it overflows int.
    """
    text = node.text
    if node.as_complex is not None:
        return node.as_complex
    is_hex = text.lstrip("+-")[:2] in ("0x", "0X") and not any(mark in text for mark in "pP")
    if node.as_float is not None and not is_hex and not text.startswith("'") and any(mark in text for mark in ".eEpP"):
        return node.as_float
    if node.as_int is not None:
        return node.as_int
    raise Unfit(f"{text} overflows int")


def constant(node: n.Node, go_type: str) -> Any:
    """Return a literal as a value of a parameter's type.

    Raises:
        Unfit: it is a literal of another kind.
    """
    if isinstance(node, n.NilNode):
        if go_type == REFLECT:
            return NO_VALUE
        if can_be_nil(go_type):
            return zero_of(go_type)
        raise Unfit(f"cannot assign nil to {go_type}")
    if go_type in (ANY, REFLECT):
        return _free_constant(node)
    converter = _CONVERTERS.get(_kind(go_type))
    if converter is None:
        raise Unfit(f"can't handle {node} for arg of type {go_type}")
    return converter(node, go_type)


def _free_constant(node: n.Node) -> Any:
    if isinstance(node, n.BoolNode):
        return node.value
    if isinstance(node, n.StringNode):
        return node.text
    if isinstance(node, n.NumberNode):
        return ideal_constant(node)
    raise Unfit(f"can't handle assignment of {node} to empty interface argument")


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
    raise Unfit(f"expected bool; found {node}")


def _string(node: n.Node, _go_type: str) -> Any:
    if isinstance(node, n.StringNode):
        return node.text
    raise Unfit(f"expected string; found {node}")


def _int(node: n.Node, go_type: str) -> Any:
    if isinstance(node, n.NumberNode) and node.as_int is not None:
        return _SIZED[go_type](node.as_int) if go_type in _SIZED else node.as_int
    raise Unfit(f"expected integer; found {node}")


def _uint(node: n.Node, go_type: str) -> Any:
    if isinstance(node, n.NumberNode) and node.as_uint is not None:
        return _SIZED[go_type](node.as_uint)
    raise Unfit(f"expected unsigned integer; found {node}")


def _float(node: n.Node, go_type: str) -> Any:
    if isinstance(node, n.NumberNode) and node.as_float is not None:
        return Float32(node.as_float) if go_type == "float32" else node.as_float
    raise Unfit(f"expected float; found {node}")


def _complex(node: n.Node, _go_type: str) -> Any:
    if isinstance(node, n.NumberNode) and (node.as_complex is not None or node.as_float is not None):
        return node.as_complex if node.as_complex is not None else complex(node.as_float or 0)
    raise Unfit(f"expected complex; found {node}")


_CONVERTERS: Final[dict[str, Callable[[n.Node, str], Any]]] = {
    "bool": _bool,
    "string": _string,
    "int": _int,
    "uint": _uint,
    "float": _float,
    "complex": _complex,
}

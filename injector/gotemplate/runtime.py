"""The runtime of templates: function signatures and arguments, fields and methods, and the elements of ``range``.

Follows ``evalArg``, ``validateType`` and what they call in text/template/exec.go (Go 1.26).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from injector.golang.strconv import quote
from injector.gotemplate import nodes as n
from injector.gotemplate.budget import spend
from injector.gotemplate.errors import Failure, FieldFailure, FuncError, MethodFailure
from injector.gotemplate.fmt import sprint
from injector.gotemplate.values import (
    ANY,
    BASIC_KINDS,
    NO_VALUE,
    REFLECT,
    SIZED_INTS,
    Float32,
    Func,
    Pointer,
    Struct,
    Uint8,
    basic_kind,
    indirect,
    key_type,
    sorted_items,
    type_of,
    zero_element,
    zero_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_OPENING = "([{"
_CLOSING = ")]}"


@dataclass(frozen=True, slots=True)
class Signature:
    """The types of a function's parameters and of its first result.

    ``variadic`` is the type of each further argument, empty if the function is not variadic.
    """

    params: tuple[str, ...]
    variadic: str
    result: str = ""

    def type_at(self, index: int) -> str:
        """Return the type of the argument at ``index``."""
        return self.params[index] if index < len(self.params) else self.variadic

    def miscount(self, args: int, *, final: bool) -> str:
        """Return the error of a wrong number of arguments, in the words of exec.go's evalCall, or an empty text.

        ``final`` says whether the pipeline's stage before adds an argument to the ``args`` of the command.
        """
        count, fixed = args + final, len(self.params)
        if self.variadic:
            return f"want at least {fixed} got {args}" if count < fixed else ""
        return f"want {fixed} got {count}" if count != fixed else ""


@cache
def parse_signature(text: str) -> Signature:
    """Read a signature in Go's spelling."""
    params, end = _types(text, text.index("(") + 1)
    results = text[end:].strip()
    result = results if not results.startswith("(") else next(iter(_types(results, 1)[0]), "")
    if params and params[-1].startswith("..."):
        return Signature(tuple(params[:-1]), params[-1].removeprefix("..."), result)
    return Signature(tuple(params), "", result)


def _types(text: str, begin: int) -> tuple[list[str], int]:
    """Return the types in parentheses that opened before ``begin``, and the index after those that close them."""
    depth, types, index = 0, [], begin
    while text[index] != ")" or depth:
        char = text[index]
        if char == "," and not depth:
            types.append(text[begin:index].strip())
            begin = index + 1
        depth += (char in _OPENING) - (char in _CLOSING)
        index += 1
    types.append(text[begin:index].strip())
    return [item for item in types if item], index + 1


_EXPECTED: Final = {
    "bool": "bool",
    "string": "string",
    "int": "integer",
    "uint": "unsigned integer",
    "float": "float",
    "complex": "complex",
}
"""Names of basic kinds in errors."""


def can_be_nil(go_type: str) -> bool:
    """Return whether a type has nil."""
    return go_type in (ANY, REFLECT) or go_type.startswith(("*", "[]", "map[", "func(", "interface"))


def check_type(value: Any, go_type: str, container: Any = None) -> Any:
    """Return ``value`` fit for a parameter of type ``go_type``. Raises Failure in Go's words.

    ``container`` is what the value is an element or field of, where that is known: a struct's address can be taken only there.
    """
    if value is NO_VALUE:
        if can_be_nil(go_type):
            return zero_of(go_type)
        raise Failure(f"invalid value; expected {go_type}")
    if go_type in (ANY, REFLECT):
        return value
    actual = ANY if value is None else type_of(value)
    if actual == go_type:
        return value
    if isinstance(value, Pointer) and value.go_type == f"*{go_type}":
        if value.target is None:
            raise Failure(f"dereference of nil pointer of type {go_type}")
        return value.target
    if isinstance(value, Struct) and go_type == f"*{actual}" and isinstance(container, Pointer | list):
        return Pointer(go_type, value)
    raise Failure(f"wrong type for value; expected {go_type}; got {actual}")


def constant(node: n.Node, go_type: str) -> Any:
    """Return a literal as a value of a parameter's type. Raises Failure if it is a literal of another kind."""
    if isinstance(node, n.NilNode):
        if can_be_nil(go_type):
            return zero_of(go_type)
        raise Failure(f"cannot assign nil to {go_type}")
    if go_type in (ANY, REFLECT):
        return free_constant(node)
    kind = BASIC_KINDS.get(go_type)
    if kind is None:
        raise Failure(f"can't handle {node} for arg of type {go_type}")
    value = _kinds_of(node).get(kind)
    if value is None:
        raise Failure(f"expected {_EXPECTED[kind]}; found {node}")
    if kind in _INTEGERS:
        return truncate_int(value, go_type)
    return Float32(value) if go_type == "float32" else value


def _kinds_of(node: n.Node) -> dict[str, Any]:
    """Return the values of a literal by kind."""
    if isinstance(node, n.NumberNode):
        return {"int": node.as_int, "uint": node.as_uint, "float": node.as_float, "complex": node.as_complex}
    if isinstance(node, n.BoolNode):
        return {"bool": node.value}
    return {"string": node.text} if isinstance(node, n.StringNode) else {}


def free_constant(node: n.Node) -> Any:
    """Return a literal in its default type. Raises Failure for a number that no type but uint64 holds."""
    if isinstance(node, n.NumberNode):
        return _ideal_constant(node)
    if isinstance(node, n.BoolNode):
        return node.value
    if isinstance(node, n.StringNode):
        return node.text
    raise Failure(f"can't handle assignment of {node} to empty interface argument")


def _ideal_constant(node: n.NumberNode) -> Any:
    """Return a number in its default type (exec.go idealConstant)."""
    if node.as_complex is not None:
        return node.as_complex
    is_hex = node.text[:2] in ("0x", "0X") and not any(mark in node.text for mark in "pP")
    if node.as_float is not None and not is_hex and node.text[0] != "'" and any(mark in node.text for mark in ".eEpP"):
        return node.as_float
    if node.as_int is None:
        raise Failure(f"{node.text} overflows int")
    return node.as_int


def truncate_int(number: int, go_type: str) -> Any:
    """Return an integer of a Go type, cut to the bits of the type (reflect.Value.SetInt)."""
    if go_type == "int":
        return number
    bits = int(go_type.lstrip("uint") or 64)
    number &= (1 << bits) - 1
    if BASIC_KINDS[go_type] == "int" and number >> (bits - 1):
        number -= 1 << bits
    return SIZED_INTS[go_type](number)


_NAMES: Final = ("string", ANY)
"""Types of keys that a name in a template can be."""


def field_reader(missing_key: str) -> Callable[[Any, str], Any]:
    """Return the function that reads ``receiver.name``, calling it where it is a method, for a value of the option missingkey."""

    def field(receiver: Any, name: str) -> Any:
        value = receiver
        while isinstance(value, Pointer) and value.target is not None:
            value = value.target
        if isinstance(value, Struct):
            try:
                return value.field(name)
            except KeyError:  # it may be a method; no Go type has both
                pass
        elif isinstance(value, dict) and key_type(value) in _NAMES:
            return value[name] if name in value else _missing_entry(missing_key, value, name)
        elif value is NO_VALUE:
            return _field_of_nothing(missing_key, name)
        func = method_of(value, name)
        if func is None:
            raise _no_field(receiver, value, name)
        return _call_method(func, name)

    return field


def method_reader(missing_key: str) -> Callable[[Any, str], Any]:
    """Return the function that finds the method ``name`` of a receiver that is given arguments; ``NO_VALUE`` has none."""

    def method(receiver: Any, name: str) -> Any:
        if receiver is NO_VALUE:
            return _field_of_nothing(missing_key, name)
        value = indirect(receiver)[0]
        func = method_of(value, name)
        if func is not None:
            return func
        if isinstance(value, dict) and key_type(value) in _NAMES:
            raise Failure(f"{name} is not a method but has arguments")
        if isinstance(value, Struct):
            with suppress(KeyError):
                value.field(name)
                raise Failure(f"{name} has arguments but cannot be invoked as function")
        raise _no_field(receiver, value, name)

    return method


def method_of(value: Any, name: str) -> Func | None:
    """Return the method ``name`` of a value, or None."""
    method: Callable[[str], Func | None] | None = getattr(value, "method", None)
    return None if method is None else method(name)


def _call_method(method: Func, name: str) -> Any:
    miscount = parse_signature(method.signature).miscount(0, final=False)
    if miscount:
        raise Failure(f"wrong number of args for {name}: {miscount}")
    try:
        return method.call()
    except FuncError as error:
        raise MethodFailure(f"error calling {name}: {error}") from error


def _no_field(receiver: Any, value: Any, name: str) -> FieldFailure:
    """Return the failure of a field that a receiver lacks; ``value`` is the receiver or its target."""
    if isinstance(value, Struct) and value.is_unexported(name):
        return FieldFailure(f"{name} is an unexported field of struct type {{type}}", receiver)
    if value is None or (isinstance(value, Pointer) and value.has_field(name)):
        return FieldFailure(f"nil pointer evaluating {{type}}.{name}", receiver)
    return FieldFailure(f"can't evaluate field {name} in type {{type}}", receiver)


def _field_of_nothing(missing_key: str, name: str) -> Any:
    """Return the field of a missing value."""
    if missing_key == "error":
        raise Failure(f"nil data; no entry for key {quote(name)}")
    return NO_VALUE


def _missing_entry(missing_key: str, entries: dict[Any, Any], name: str) -> Any:
    """Return the entry of a map that lacks it."""
    if missing_key == "error":
        raise Failure(f"map has no entry for key {quote(name)}")
    return zero_element(entries) if missing_key == "zero" else NO_VALUE


# A Go iterator pushes its values; they are taken before the loop begins, and an endless one would never let it begin.
MAX_PUSHED: Final = 100_000
_INTEGERS: Final = ("int", "uint")


def elements(value: Any) -> Iterable[Any]:
    """Return the values of a range with one variable or none: elements, map entries, integers, the values of an iterator."""
    value = indirect(value)[0]
    if isinstance(value, list):
        return value  # no template can change it meanwhile
    if value is None or value is NO_VALUE or isinstance(value, bytes | dict):
        return (element for _, element in pairs(value))
    if basic_kind(value) in _INTEGERS:
        return map(type(value), range(value))
    return [entry[0] for entry in _collect_pushed(value, 1)]


def pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the pairs of a range with two variables: index and element, key and entry."""
    value = indirect(value)[0]
    if isinstance(value, list | bytes):
        return enumerate(value if isinstance(value, list) else map(Uint8, value))
    if isinstance(value, dict):
        spend(len(value))
        return sorted_items(value)
    if value is None or value is NO_VALUE:
        return ()
    if basic_kind(value) in _INTEGERS:
        raise Failure(f"can't use {sprint(value)} to iterate over more than one variable")
    return [(entry[0], entry[1]) for entry in _collect_pushed(value, 2)]


def _collect_pushed(value: Any, variables: int) -> list[tuple[Any, ...]]:
    """Return the arguments of all calls that a function iterator makes of its parameter ``yield``: one value or two each."""
    params = parse_signature(value.signature).params if isinstance(value, Func) else ()
    is_iterator = len(params) == 1 and params[0].startswith("func(") and params[0].endswith(") bool")
    arity = len(parse_signature(params[0]).params) if is_iterator else 0
    if arity not in (1, 2):
        raise Failure(f"range can't iterate over {sprint(value)}")
    if arity < variables:
        raise Failure(f"can't use {sprint(value)} iterate over more than one variable")
    entries: list[tuple[Any, ...]] = []

    def take(*values: Any) -> bool:
        if len(entries) >= MAX_PUSHED:
            raise FuncError(f"iterator yields more than {MAX_PUSHED} values")
        entries.append(values)
        return True

    value.call(take)
    return entries

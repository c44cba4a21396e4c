"""Go's own template functions (text/template funcs.go, Go 1.26), except and, or and call, which the compiler evaluates."""

from __future__ import annotations

import html as _html
import operator
from typing import Any, Final
from urllib.parse import quote_from_bytes

from injector.golang.strconv import byte_slice, is_printable, to_bytes
from injector.gotemplate import costs
from injector.gotemplate.budget import check_size
from injector.gotemplate.errors import FuncError, Unprintable
from injector.gotemplate.fmt import sprint, sprintf, sprintln
from injector.gotemplate.runtime import can_be_nil, parse_signature, truncate_int
from injector.gotemplate.values import (
    ANY,
    NO_VALUE,
    Func,
    OpaqueStruct,
    Pointer,
    Slice,
    Struct,
    Uint8,
    basic_kind,
    indirect,
    is_nil,
    key_type,
    kind_of,
    length,
    type_of,
    zero_element,
    zero_of,
)

_INTEGERS: Final = ("int", "uint")
_VALUES: Final = "...interface {}"


def fit(value: Any, go_type: str, kind: str = "") -> Any:
    """Return a value fit for a map's key or a function's parameter (funcs.go prepareArg).

    ``kind`` is the kind of ``go_type`` if that is a defined type. Raises FuncError if the value does not fit.
    """
    if value is None or value is NO_VALUE:
        if not can_be_nil(go_type):
            raise FuncError(f"value is nil; should be of type {go_type}")
        return zero_of(go_type)
    go_type_of_value = type_of(value)
    if go_type in (ANY, go_type_of_value):
        return value
    kind = kind or go_type
    if basic_kind(value) in _INTEGERS and kind.lstrip("u").startswith("int"):
        return truncate_int(int(value), kind)
    raise FuncError(f"value has type {go_type_of_value}; should be {go_type}")


def _index_of(index: Any, cap: int) -> int:
    if basic_kind(index) not in ("int", "uint"):
        if index is None or index is NO_VALUE:
            raise FuncError("cannot index slice/array with nil")
        raise FuncError(f"cannot index slice/array with type {type_of(index)}")
    if not 0 <= index <= cap:
        raise FuncError(f"index out of range: {int(index)}")
    return int(index)


def index(item: Any, *indexes: Any) -> Any:
    """Return an element of nested lists and maps."""
    if len(indexes) == 1 and isinstance(item, dict):
        return _element(item, indexes[0])
    if item is None or item is NO_VALUE:
        raise FuncError("index of untyped nil")
    for position in indexes:
        item, nil = indirect(item)
        if nil:
            raise FuncError("index of nil pointer")
        item = _element(item, position)
    return item


def _element(item: Any, position: Any) -> Any:
    if isinstance(item, dict):
        if type(position) is str and key_type(item) == "string":
            return item[position] if position in item else zero_element(item)
        key = fit(position, key_type(item), kind_of(next(iter(item), None)))
        return item[key] if key in item else zero_element(item)
    size = length(item)
    if size is None:
        raise FuncError(f"can't index item of type {type_of(item)}")
    at = _index_of(position, size)
    if at == size:
        kind = "string" if isinstance(item, str) else "slice"
        raise FuncError(f"reflect: {kind} index out of range")
    if isinstance(item, str | bytes):
        return Uint8((to_bytes(item) if isinstance(item, str) else item)[at])
    return item[at]


def slice_(item: Any, *indexes: Any) -> Any:
    """Return a part of a string or list."""
    if item is None or item is NO_VALUE:
        raise FuncError("slice of untyped nil")
    item, nil = indirect(item)
    if nil:
        raise FuncError("slice of nil pointer")
    if len(indexes) > 3:  # noqa: PLR2004 - item[i:j:k]
        raise FuncError(f"too many slice indexes: {len(indexes)}")
    if isinstance(item, str) and len(indexes) == 3:  # noqa: PLR2004 - item[i:j:k]
        raise FuncError("cannot 3-index slice a string")
    size = length(item)
    if size is None or isinstance(item, dict):
        raise FuncError(f"can't slice item of type {type_of(item)}")
    bounds = [0, size, size]
    for place, position in enumerate(indexes):
        bounds[place] = _index_of(position, size)
    for low, high in ((0, 1), (1, 2))[: max(len(indexes) - 1, 1)]:
        if bounds[low] > bounds[high]:
            raise FuncError(f"invalid slice index: {bounds[low]} > {bounds[high]}")
    if isinstance(item, str):
        return byte_slice(item, bounds[0], bounds[1])
    part = item[bounds[0] : bounds[1]]
    return Slice(item.elem, part) if isinstance(item, Slice) else part


def length_of(item: Any) -> int:
    """Return the length of a string (in bytes), list or map."""
    item, nil = indirect(item)
    if nil:
        raise FuncError("len of nil pointer")
    if item is NO_VALUE:
        raise FuncError("reflect: call of reflect.Value.Type on zero Value")
    size = length(item)
    if size is None:
        raise FuncError(f"len of type {type_of(item)}")
    return size


def eq(first: Any, *others: Any) -> bool:
    """Return whether the first argument equals any other."""
    if not others:
        raise FuncError("missing argument for comparison")
    return any(_equal(first, other) for other in others)


def _equal(first: Any, other: Any) -> bool:
    left, right = basic_kind(first), basic_kind(other)
    if left != right:
        if {left, right} == {"int", "uint"}:
            return int(first) == int(other)
        if _valid(first) and _valid(other):
            raise FuncError(f"incompatible types for comparison: {type_of(first)} and {type_of(other)}")
        return False
    if left:
        return bool(first == other)
    kinds = kind_of(first), kind_of(other)
    if kinds[0] != kinds[1] and "invalid" not in kinds:
        raise FuncError(
            f"non-comparable types {sprintf('%s', first)}: {type_of(first)}, {type_of(other)}: {sprint(other)}"
        )
    if is_nil(first) or is_nil(other):
        return is_nil(first) == is_nil(other)
    if kinds[1] in ("slice", "map", "func") or not _comparable(other):
        raise FuncError(f"non-comparable type {sprintf('%s', other)}: {type_of(other)}")
    return _identical(first, other)


def _valid(value: Any) -> bool:
    return value is not None and value is not NO_VALUE


def _comparable(value: Any) -> bool:
    return not isinstance(value, Struct) or all(not isinstance(item, list | dict) for _, item in value.fields())


def _identical(first: Any, other: Any) -> bool:
    if isinstance(first, OpaqueStruct):
        return bool(first == other)
    if isinstance(first, Struct) and isinstance(other, Struct):
        return type_of(first) == type_of(other) and list(first.fields()) == list(other.fields())
    if isinstance(first, Pointer) and isinstance(other, Pointer):
        return isinstance(first.target, Struct | list | dict) and first.target is other.target
    return first is other


def ne(first: Any, other: Any) -> bool:
    """Return whether the arguments differ."""
    return not eq(first, other)


def lt(first: Any, other: Any) -> bool:
    """Return whether the first argument is less than the second."""
    left, right = basic_kind(first), basic_kind(other)
    if not left or not right:
        raise FuncError("invalid type for comparison")
    if left != right:
        if {left, right} == {"int", "uint"}:
            return int(first) < int(other)
        raise FuncError(f"incompatible types for comparison: {type_of(first)} and {type_of(other)}")
    if left in ("bool", "complex"):
        raise FuncError("invalid type for comparison")
    if left == "string" and not (first.isascii() and other.isascii()):
        return bool(to_bytes(first) < to_bytes(other))
    return bool(first < other)


def le(first: Any, other: Any) -> bool:
    """Return whether the first argument is at most the second."""
    return lt(first, other) or eq(first, other)


def gt(first: Any, other: Any) -> bool:
    """Return whether the first argument is greater than the second."""
    return not le(first, other)


def ge(first: Any, other: Any) -> bool:
    """Return whether the first argument is at least the second."""
    return not lt(first, other)


def _eval_args(args: tuple[Any, ...]) -> str:
    """Return the arguments printed as actions print them (funcs.go evalArgs)."""
    return sprint(*map(_printable, args))


def _printable(value: Any) -> Any:
    if value is None or value is NO_VALUE:
        return "<no value>"
    return indirect(value)[0]


def print_value(value: Any) -> str:
    """Return the value of an action as it is printed (exec.go printValue). Raises Unprintable for a function."""
    value = _printable(value)
    if isinstance(value, Func):
        raise Unprintable(f"can't print {{node}} of type {type_of(value)}")
    return sprint(value)


def html(*args: Any) -> str:
    """Return the arguments printed and escaped for HTML."""
    text = _eval_args(args)
    check_size(len(text) * len("&#34;"))
    escaped = _html.escape(text, quote=False)
    return escaped.replace('"', "&#34;").replace("'", "&#39;").replace("\0", "\ufffd")


_JS: Final = {
    "\\": "\\\\",
    "'": "\\'",
    '"': '\\"',
    "<": "\\u003C",
    ">": "\\u003E",
    "&": "\\u0026",
    "=": "\\u003D",
    "\x7f": "\x7f",
}


def js(*args: Any) -> str:
    """Return the arguments printed and escaped for a JavaScript string."""
    text = _eval_args(args)
    check_size(len(text) * len("\\u0000"))
    return "".join(
        _JS.get(char) or (char if is_printable(char) or "\udc80" <= char <= "\udcff" else f"\\u{ord(char):04X}")
        for char in text
    )


def urlquery(*args: Any) -> str:
    """Return the arguments printed and escaped for the query of a URL."""
    raw = to_bytes(_eval_args(args))
    check_size(len(raw) * len("%00"))
    return quote_from_bytes(raw, safe=" ").replace(" ", "+").replace("%7E", "~")


def call(callee: str, func: Any, *args: Any) -> Any:
    """Call a function value, which errors name ``callee``.

    Raises FuncError if it is not a function, the arguments do not fit it, or it fails.
    """
    if not _valid(func):
        raise FuncError("call of nil")
    if not isinstance(func, Func):
        raise FuncError(f"non-function {callee} of type {type_of(func)}")
    if func.nil:
        raise FuncError("reflect.Value.Call: call of nil function")
    signature = parse_signature(func.signature)
    fixed = len(signature.params)
    if len(args) < fixed or (len(args) > fixed and not signature.variadic):
        wanted = f"at least {fixed}" if signature.variadic else fixed
        raise FuncError(f"wrong number of args for {callee}: got {len(args)} want {wanted}")
    return func.call(*(_nth(at, arg, signature.type_at(at)) for at, arg in enumerate(args)))


def _nth(at: int, arg: Any, go_type: str) -> Any:
    try:
        return fit(arg, go_type)
    except FuncError as error:
        raise FuncError(f"arg {at}: {error}") from error


def callee_name(value: Any) -> str:
    """Return how errors of ``call`` name a function that comes from the pipeline (reflect.Value.String)."""
    if isinstance(value, str):
        return value
    return "<invalid Value>" if value is NO_VALUE else f"<{type_of(value)} Value>"


_AND_OR: Final = "func(reflect.Value, ...reflect.Value) reflect.Value"
BUILTINS: Final[dict[str, Func]] = {
    func.name: func
    for func in (
        Func("and", _AND_OR, bool, cost=costs.NOTHING),  # the compiler evaluates and, or
        Func("or", _AND_OR, bool, cost=costs.NOTHING),
        Func("call", _AND_OR, call, cost=costs.NOTHING),
        Func("html", f"func({_VALUES}) string", html, cost=costs.PRINTED),
        Func("index", "func(reflect.Value, ...reflect.Value) (reflect.Value, error)", index, cost=costs.PASS),
        Func("slice", "func(reflect.Value, ...reflect.Value) (reflect.Value, error)", slice_, cost=costs.COPY),
        Func("js", f"func({_VALUES}) string", js, cost=costs.BY_CHARACTER),
        Func("len", "func(reflect.Value) (int, error)", length_of, cost=costs.PASS),
        Func("not", "func(reflect.Value) bool", operator.not_, cost=costs.NOTHING),
        Func("print", f"func({_VALUES}) string", sprint, cost=costs.PRINTED),
        Func("printf", f"func(string, {_VALUES}) string", sprintf, cost=costs.PRINTED),
        Func("println", f"func({_VALUES}) string", sprintln, cost=costs.PRINTED),
        Func("urlquery", f"func({_VALUES}) string", urlquery, cost=costs.PRINTED),
        Func("eq", "func(reflect.Value, ...reflect.Value) (bool, error)", eq, cost=costs.PASS),
        Func("ge", "func(reflect.Value, reflect.Value) (bool, error)", ge, cost=costs.PASS),
        Func("gt", "func(reflect.Value, reflect.Value) (bool, error)", gt, cost=costs.PASS),
        Func("le", "func(reflect.Value, reflect.Value) (bool, error)", le, cost=costs.PASS),
        Func("lt", "func(reflect.Value, reflect.Value) (bool, error)", lt, cost=costs.PASS),
        Func("ne", "func(reflect.Value, reflect.Value) (bool, error)", ne, cost=costs.PASS),
    )
}

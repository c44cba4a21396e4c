"""What ``range`` ranges over (text/template/exec.go walkRange, Go 1.26)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from injector.gotemplate.errors import FuncError
from injector.gotemplate.failures import Failure
from injector.gotemplate.printf import sprint
from injector.gotemplate.reflect import NO_VALUE, indirect, kind_of, sorted_items
from injector.gotemplate.signatures import parse_signature
from injector.gotemplate.values import Func, Uint8

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# A Go iterator pushes its values; they are taken before the loop begins, and an endless one would never let it begin.
MAX_PUSHED: Final = 100_000
_INTEGERS: Final = ("int", "uint")


def elements(value: Any) -> Iterable[Any]:
    """Return what a range with one variable, or none, gives: elements, map entries, integers below one, what an iterator yields."""
    value = indirect(value)[0]
    if isinstance(value, list):
        return value
    if isinstance(value, bytes):
        return map(Uint8, value)
    if isinstance(value, dict):
        return [entry for _, entry in sorted_items(value)]
    if value is None or value is NO_VALUE:
        return ()
    if kind_of(value).startswith(_INTEGERS):
        return _below(value)
    pushed = _pushed(value)
    if pushed is None:
        raise Failure(f"range can't iterate over {sprint(value)}")
    return [entry[0] for entry in pushed[1]]


def pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return what a range with two variables gives: index and element, key and entry."""
    value = indirect(value)[0]
    if isinstance(value, list):
        return enumerate(value)
    if isinstance(value, bytes):
        return enumerate(map(Uint8, value))
    if isinstance(value, dict):
        return sorted_items(value)
    if value is None or value is NO_VALUE:
        return ()
    if kind_of(value).startswith(_INTEGERS):
        raise Failure(f"can't use {sprint(value)} to iterate over more than one variable")
    pushed = _pushed(value)
    if pushed is None:
        raise Failure(f"range can't iterate over {sprint(value)}")
    arity, entries = pushed
    if arity == 1:
        raise Failure(f"can't use {sprint(value)} iterate over more than one variable")
    return [(entry[0], entry[1]) for entry in entries]


def _below(value: Any) -> Iterable[Any]:
    return range(value) if type(value) is int else map(type(value), range(value))


def _pushed(value: Any) -> tuple[int, list[tuple[Any, ...]]] | None:
    """Return what a function iterator yields at a time, one value or two, and all that it yields; None for what is no iterator."""
    arity = _ARITIES.get(_yielded(value)) if isinstance(value, Func) else None
    if arity is None:
        return None
    entries: list[tuple[Any, ...]] = []
    value.call(_collector(entries))
    return arity, entries


def _yielded(func: Func) -> int:
    """Return how many values a function's parameter ``yield`` takes, -1 for a function that is no iterator."""
    params = parse_signature(func.signature).params
    if len(params) != 1 or not params[0].startswith("func(") or not params[0].endswith(") bool"):
        return -1
    return len(parse_signature(params[0]).params)


_ARITIES: Final = {1: 1, 2: 2}


def _collector(entries: list[tuple[Any, ...]]) -> Callable[..., bool]:
    def take(*values: Any) -> bool:
        if len(entries) >= MAX_PUSHED:
            raise FuncError(f"iterator yields more than {MAX_PUSHED} values")
        entries.append(values)
        return True

    return take

"""Functions of templates: how they are declared, and how a call is counted before it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from injector.gotemplate.budget import METER, reserve
from injector.gotemplate.costs import ANY, NOTHING, Cost
from injector.gotemplate.errors import FuncError
from injector.gotemplate.hidden import HiddenText
from injector.gotemplate.values import Func, Map, Pointer, Slice, Struct

_Call = TypeVar("_Call", bound="Callable[..., Any]")


class FuncMap(dict[str, Func]):
    """Functions by the names that templates call them by (Go's template.FuncMap).

    ::

        functions = FuncMap()

        @functions.define("func(string, int) string", "shout")
        def shout(text: str, times: int) -> str:
            return text.upper() + "!" * times
    """

    def define(
        self,
        signature: str,
        *names: str,
        cost: Cost = ANY,
        hermetic: bool = True,
        mutates: bool = False,
        must: bool = False,
    ) -> Callable[[_Call], _Call]:
        """Return a decorator that adds a function by its names in templates.

        Arguments are checked and converted by the Go signature. ``cost`` is that of a call. ``hermetic`` is whether the result depends on
        the arguments only, ``mutates`` whether it changes a map that it is given. With ``must``, the function has a second name that starts
        with ``must`` and a signature with an error.
        """
        signatures = dict.fromkeys(names, signature)
        if must:
            params, _, result = signature.rpartition(") ")
            signatures |= {f"must{name[0].upper()}{name[1:]}": f"{params}) ({result}, error)" for name in names}

        def add(call: _Call) -> _Call:
            for name, declared in signatures.items():
                self[name] = Func(name, declared, call, hermetic=hermetic, mutates=mutates, cost=cost)
            return call

        return add

    def add(self, name: str, signature: str, call: Callable[..., Any], cost: Cost) -> None:
        """Add a function whose one expression needs no further description; see ``define``."""
        self.define(signature, name, cost=cost)(call)

    def bind(self, source: Any) -> FuncMap:
        """Return these functions with ``source`` as their first argument: a clock, an environment."""
        return FuncMap(
            {name: replace(func, call=partial(func.call, source), hermetic=False) for name, func in self.items()}
        )


def or_else(must: Callable[..., Any], fallback: Any) -> Callable[..., Any]:
    """Return a function that returns ``fallback`` where another one fails."""

    def call(*args: Any) -> Any:
        try:
            return must(*args)
        except FuncError:
            return fallback

    return call


_SHORT: Final = 64
"""Characters of a text that nothing is counted for."""
_TEXT: Final = 64
"""Bytes of a text in addition to its characters, and its place in a list."""
_AT_ONCE: Final = 500
"""Steps after which a walk through arguments is counted."""
_ENTRY: Final = 104
"""Bytes of an entry of a map."""
_FAILURES: Final = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""Python's exceptions for the panics of Go's functions, which text/template reports as errors (safeCall)."""


def meter(func: Func) -> Func:
    """Return a function that counts its cost before it runs, and its result afterwards.

    It raises ``FuncError`` if the function fails otherwise, and ``errors.Spent`` if the budget of the rendering is spent.
    """
    function, cost = func.call, func.cost
    if cost is NOTHING:
        return func
    looks_inside, longest, makes = cost.item > 0, -1 if cost.once else _SHORT, cost.makes

    def call(*args: Any) -> Any:
        for value in args:
            if value.__class__ is str:
                if len(value) > longest:
                    _charge(args, cost)
                    break
            elif (looks_inside or isinstance(value, str)) and value.__class__ not in _SCALARS:
                _charge(args, cost)
                break
        try:
            result = function(*args)
        except _FAILURES as error:
            raise FuncError(f"{type(error).__name__}: {error}") from error
        kind = result.__class__
        if makes and (len(result) > _SHORT if kind is str else kind not in _SCALARS):
            grown = bool(args) and result is args[0]
            reserve(_ENTRY if grown else _size_of(result, cost))
        return result

    return replace(func, call=call)


_SCALARS: Final = frozenset({bool, int, float, type(None)})


def _charge(values: tuple[Any, ...], cost: Cost) -> None:
    """Count the cost of a call while walking its arguments: values can contain themselves, or be in many places."""
    meter = METER.get()
    if meter is None:
        return
    steps, length, items = cost.once, 0, 0
    item, looks_inside = cost.item, cost.item > 0
    level: Sequence[Any] = values
    while level:
        converted: list[Any] = []
        for value in level:
            if type(value) is HiddenText:
                continue
            if isinstance(value, str):
                length += len(value)
            elif looks_inside and value.__class__ not in _SCALARS:
                inner = _inside(value)
                converted += inner
                steps += len(inner) * item
                if steps > _AT_ONCE:
                    meter.spend(steps)
                    steps = 0
        items += len(converted)
        level, looks_inside = converted, looks_inside and cost.deep
    meter.spend(steps + length // cost.characters)
    meter.reserve(length * cost.text_bytes + items * cost.item_bytes)


def _inside(value: Any) -> Sequence[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, Pointer):
        return () if value.target is None else (value.target,)
    return (value.parts(),) if isinstance(value, Struct) else ()


def _size_of(value: Any, cost: Cost) -> int:
    """Return the bytes of a result, without those of the arguments in it."""
    if isinstance(value, str):
        return _TEXT + (len(value) if value.isascii() else 4 * len(value))
    if isinstance(value, list | dict):
        texts = value if isinstance(value, Slice) else value.values() if isinstance(value, Map) else ()
        return len(value) * (_ENTRY if isinstance(value, dict) else cost.entry) + sum(
            _TEXT + len(text) for text in texts if isinstance(text, str)
        )
    return 0

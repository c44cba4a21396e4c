"""The budget of one rendering of a Jinja2 template: its steps, its time, its memory, and the size of each value.

Values are data (text, numbers, booleans, null, lists, tuples, mappings, ranges) that templates cannot change, but can nest. A list that
contains another list twice, and so on, is small in memory but takes very long to walk. So every function that walks or copies a value
charges the budget first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

import jinja2
from jinja2.runtime import Undefined

from injector.gotemplate.budget import TimeLimit, spend
from injector.gotemplate.errors import Spent

_T = TypeVar("_T")

MAX_OUTPUT: Final = 1 << 20
"""Bytes of the output, characters of a text, items of a list."""
MAX_STEPS: Final = 200_000
MAX_SECONDS: Final = 0.5
STEPS_UNTIL_CLOCK_CHECK: Final = 512
"""Reading the clock is a system call, which takes up to 10 us on a virtual machine."""
MAX_MEMORY: Final = 20 << 20
"""Bytes of all values that a rendering creates, since a template can keep them."""
MAX_BITS: Final = 256
"""Bits of an integer; Python's are unlimited."""
_TEXT_PER_STEP: Final = 256
_POINTER_SIZE: Final = 8
_MAX_CHARACTER_SIZE: Final = 4
SEQUENCES: Final = (list, tuple)
"""For ``isinstance``: ``list | tuple`` would be made again for each call, which takes ten times as long."""
_FIXED: Final = (bool, type(None), float)
"""Classes of values that all have the same size."""
_CURRENT: Final[ContextVar[JinjaBudget]] = ContextVar("jinja_budget")


class JinjaBudget:
    """Counts the steps and the memory of one rendering, and charges the steps to the budget of the injection as well."""

    __slots__ = ("_steps", "_stretch", "_time_limit", "left", "memory")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._time_limit = TimeLimit(clock, MAX_SECONDS)
        self.memory = 0
        self._steps = 0
        # The steps left until the next check, and their number after the last one.
        self.left = self._stretch = STEPS_UNTIL_CLOCK_CHECK

    def check(self) -> None:
        """Check the steps and the time, and charge the steps since the last check."""
        steps = self._stretch - self.left
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise Spent(f"more than {MAX_STEPS} steps")
        self.left = self._stretch = min(STEPS_UNTIL_CLOCK_CHECK, MAX_STEPS - self._steps)
        if self._time_limit.expired():
            raise Spent(f"more than {MAX_SECONDS:g} s")
        spend(steps)


@contextmanager
def spending(budget: JinjaBudget) -> Iterator[None]:
    """Use ``budget`` for this rendering and the templates it imports. Templates cannot access it by name."""
    token = _CURRENT.set(budget)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def tick(steps: int = 1) -> None:
    """Count steps of this rendering."""
    budget = _CURRENT.get()
    budget.left -= steps
    if budget.left < 0:
        budget.check()


def check_value_size(size: int) -> None:
    """Refuse a value larger than the largest output, before it is created."""
    if size > MAX_OUTPUT:
        raise Spent(f"a value of {size} bytes or items")


def reserve_bytes(size: int) -> None:
    """Refuse a value for which this rendering has no memory left, before it is created."""
    budget = _CURRENT.get()
    budget.memory += size
    if budget.memory > MAX_MEMORY:
        raise Spent(f"more than {MAX_MEMORY} bytes of values")


def charged(value: _T) -> _T:
    """Count the memory of a new value and return it; its items were counted before."""
    if isinstance(value, str):
        budget = _CURRENT.get()
        budget.memory += len(value) if value.isascii() else _MAX_CHARACTER_SIZE * len(value)
        if len(value) > MAX_OUTPUT or budget.memory > MAX_MEMORY:
            check_value_size(len(value))
            reserve_bytes(0)
    elif isinstance(value, SEQUENCES):
        check_value_size(len(value))
        reserve_bytes(_POINTER_SIZE * len(value))
    elif isinstance(value, int):
        check_bits(value.bit_length())
    return value


def check_bits(bits: int) -> None:
    """Refuse a very long integer."""
    if bits > MAX_BITS:
        raise Spent(f"an integer of more than {MAX_BITS} bits")


def counted(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the items; each is a step."""
    for item in items:
        tick()
        yield item


def measure(value: Any, cost: int = 1) -> int:
    """Walk a value and return the number of characters and numbers in it. An item that occurs twice counts twice.

    It is called for a value that is going to be printed, compared, sorted or written as JSON; ``cost`` are the steps for each item. Raises
    Spent if the value is too large, and TemplateRuntimeError if an item is not data.
    """
    if value.__class__ is str:
        size = len(value)
        if size > MAX_OUTPUT:
            check_value_size(size)
        tick(cost + size // _TEXT_PER_STEP)
        return size
    if value.__class__ in _FIXED:
        tick(cost)
        return 1
    size = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            size += len(item)
        elif isinstance(item, dict):
            tick(cost * (1 + 2 * len(item)))
            waiting += item.keys()
            waiting += item.values()
        elif isinstance(item, SEQUENCES):
            tick(cost * (1 + len(item)))
            waiting += item
        else:
            size += _size_of_scalar(item)
        if size > MAX_OUTPUT:
            check_value_size(size)
    tick(cost + size // _TEXT_PER_STEP)
    return size


def _size_of_scalar(item: Any) -> int:
    if isinstance(item, int):
        check_bits(item.bit_length())
    elif isinstance(item, range):
        tick(len(item))
    elif isinstance(item, Undefined):
        str(item)  # which raises: the environment's undefined is strict
    elif item is not None and not isinstance(item, float):
        raise jinja2.TemplateRuntimeError(f"{type(item).__name__} is not data")
    return 1


def text_of(value: Any) -> str:
    """Return a value as Jinja2 prints it."""
    if value.__class__ is str and len(value) < _TEXT_PER_STEP:
        tick()  # what ``measure`` does with a short text
        return value
    size = measure(value)
    if isinstance(value, str):
        return value
    check_value_size(size)
    return charged(str(value))


def join_counted(parts: Iterable[Any], between: str = "") -> str:
    """Return the texts of the parts as one text."""
    texts: list[str] = []
    size = 0
    for part in counted(parts):
        text = text_of(part)
        size += len(text) + (len(between) if texts else 0)
        check_value_size(size)
        texts.append(text)
    return charged(between.join(texts))

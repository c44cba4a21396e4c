"""The budget of one rendering of a Jinja2 template: its steps, its time, its memory, and the size of each value.

Values are data (text, numbers, booleans, null, lists, tuples, mappings, ranges) that templates cannot change, but can nest: a list
that holds one list twice, and so on, is small in memory and endless to walk. What walks or copies a value asks here first.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar

import jinja2
from jinja2.runtime import Undefined

from injector.gotemplate.budget import Stopwatch, spend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_T = TypeVar("_T")

MAX_OUTPUT: Final = 1 << 20
"""Bytes of the output, characters of a text, items of a list."""
MAX_STEPS: Final = 200_000
MAX_SECONDS: Final = 0.5
CLOCK_EVERY: Final = 32
"""Steps from one look at the clock to the next: a look may take as long as several steps."""
MAX_MEMORY: Final = 20 << 20
"""Bytes of all the values that a rendering makes: a template can keep them."""
MAX_BITS: Final = 256
"""Of an integer; Python's have no end."""
_TEXT_PER_STEP: Final = 256
_POINTER: Final = 8
_WIDEST: Final = 4
_CURRENT: Final[ContextVar[Budget]] = ContextVar("jinja_budget")


class BudgetSpentError(Exception):
    """A rendering that asks for more than it may; the text says of what."""


class Budget:
    """Counts the steps and the memory of one rendering, and looks at the clock once in a while; and so does the injection it is for."""

    __slots__ = ("_left", "_memory", "_steps", "_stopwatch", "_stretch")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._stopwatch = Stopwatch(clock, MAX_SECONDS)
        self._memory = 0
        self._steps = 0
        # The steps until the next look, and how many they were after the last one.
        self._left = self._stretch = 0

    def tick(self, steps: int = 1) -> None:
        """Count steps."""
        self._left -= steps
        if self._left < 0:
            self._look()

    def _look(self) -> None:
        """Look at the steps so far and at the clock."""
        taken = self._stretch - self._left
        self._steps += taken
        if self._steps > MAX_STEPS:
            raise BudgetSpentError(f"more than {MAX_STEPS} steps")
        self._left = self._stretch = min(CLOCK_EVERY, MAX_STEPS - self._steps)
        if self._stopwatch.expired():
            raise BudgetSpentError(f"more than {MAX_SECONDS:g} s")
        spend(taken)

    def keep(self, size: int) -> None:
        """Count bytes."""
        self._memory += size
        if self._memory > MAX_MEMORY:
            raise BudgetSpentError(f"more than {MAX_MEMORY} bytes of values")


@contextmanager
def spending(budget: Budget) -> Iterator[None]:
    """Make ``budget`` the one of this rendering. It is none of the template's names, and imported templates spend it too."""
    token = _CURRENT.set(budget)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def tick(steps: int = 1) -> None:
    """Count steps of this rendering."""
    _CURRENT.get().tick(steps)


def check_size(size: int) -> None:
    """Refuse a value larger than any output may be; before it is made."""
    if size > MAX_OUTPUT:
        raise BudgetSpentError(f"a value of {size} bytes or items")


def reserve(size: int) -> None:
    """Refuse what takes more memory than this rendering has left; before it is made."""
    _CURRENT.get().keep(size)


def made(value: _T) -> _T:
    """Return a value that was just made, and count its memory; what is in it was counted before."""
    if isinstance(value, str):
        check_size(len(value))
        reserve(len(value) if value.isascii() else _WIDEST * len(value))
    elif isinstance(value, list | tuple):
        check_size(len(value))
        reserve(_POINTER * len(value))
    elif isinstance(value, int):
        check_bits(value.bit_length())
    return value


def check_bits(bits: int) -> None:
    """Refuse an integer longer than any real one."""
    if bits > MAX_BITS:
        raise BudgetSpentError(f"an integer of more than {MAX_BITS} bits")


def counted(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the items, a step each."""
    step = _CURRENT.get().tick
    for item in items:
        step()
        yield item


def measure(value: Any, cost: int = 1) -> int:
    """Walk a value; return the characters and numbers in it. What is in it twice counts twice.

    Args:
        value: what is to be walked: printed, compared, sorted, written as JSON.
        cost: steps that each item takes.

    Raises:
        BudgetSpentError: there is more in it than a rendering may walk.
        TemplateRuntimeError: there is something in it that is no data.
    """
    if value.__class__ is str:
        check_size(len(value))
        tick(cost + len(value) // _TEXT_PER_STEP)
        return len(value)
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
        elif isinstance(item, list | tuple):
            tick(cost * (1 + len(item)))
            waiting += item
        else:
            size += _size_of_scalar(item)
        check_size(size)
    tick(cost + size // _TEXT_PER_STEP)
    return size


def _size_of_scalar(item: Any) -> int:
    if isinstance(item, int):
        check_bits(item.bit_length())
    elif isinstance(item, range):
        tick(len(item))
    elif isinstance(item, Undefined):
        str(item)  # which raises: the environment's undefined is strict
    elif not isinstance(item, float | None):
        raise jinja2.TemplateRuntimeError(f"{type(item).__name__} is no data")
    return 1


def text_of(value: Any) -> str:
    """Return a value as Jinja2 prints it."""
    size = measure(value)
    if isinstance(value, str):
        return value
    check_size(size)
    return made(str(value))


def joined(parts: Iterable[Any], between: str = "") -> str:
    """Return the texts of the parts as one text."""
    texts: list[str] = []
    size = 0
    for part in counted(parts):
        text = text_of(part)
        size += len(text) + (len(between) if texts else 0)
        check_size(size)
        texts.append(text)
    return made(between.join(texts))

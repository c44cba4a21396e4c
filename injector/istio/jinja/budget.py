"""The budget of one rendering of a Jinja2 template, beside the steps, the time and the memory of any rendering: the size of each value.

Values are data (text, numbers, booleans, null, lists, tuples, mappings, ranges) that templates cannot change, but can nest. A list that
contains another list twice, and so on, is small in memory but takes very long to walk. So every function that walks or copies a value
charges the budget first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

import jinja2
from jinja2.runtime import Undefined

from injector.gotemplate.budget import MAX_SIZE, reserve, spend
from injector.gotemplate.errors import Spent

_T = TypeVar("_T")

MAX_BITS: Final = 256
"""Bits of an integer; Python's are unlimited."""
# Characters that are copied or compared in a step, and bytes of a place in a list and of the widest character.
_TEXT_PER_STEP: Final = 256
_POINTER_SIZE: Final = 8
_MAX_CHARACTER_SIZE: Final = 4
_SHORT: Final = 64
"""Characters of a text that takes no more memory than the Python object of any text."""
SEQUENCES: Final = (list, tuple)
"""For ``isinstance``: ``list | tuple`` would be made again for each call, which takes ten times as long."""
_SCALARS: Final = (bool, int, float, type(None))


def check_value_size(size: int) -> None:
    """Refuse a value larger than the largest output, before it is created."""
    if size > MAX_SIZE:
        raise Spent(f"a value of {size} bytes or items")


def charge(value: _T) -> _T:
    """Count the memory of a new value and return it; its items were counted before.

    Short texts are not counted: each is made by a step, and steps are limited.
    """
    if isinstance(value, str):
        size = len(value)
        if size <= _SHORT and value.isascii():
            return value
        check_value_size(size)
        reserve(size if value.isascii() else _MAX_CHARACTER_SIZE * size)
    elif isinstance(value, SEQUENCES):
        check_value_size(len(value))
        reserve(_POINTER_SIZE * len(value))
    elif isinstance(value, int):
        check_bits(value.bit_length())
    return value


def check_bits(bits: int) -> None:
    """Refuse a very long integer."""
    if bits > MAX_BITS:
        raise Spent(f"an integer of more than {MAX_BITS} bits")


def count_items(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the items; each is a step."""
    for item in items:
        spend()
        yield item


def measure(value: Any, cost: int = 1) -> int:
    """Walk a value and return the number of characters and numbers in it. An item that occurs twice counts twice.

    It is called for a value that is going to be printed, compared, sorted or written as JSON; ``cost`` are the steps for each item, but a
    short text or a number takes none beside the expression. Raises Spent if the value is too large, and TemplateRuntimeError if an item is
    not data.
    """
    if value.__class__ is str and len(value) < _TEXT_PER_STEP:
        return len(value)
    if value.__class__ in _SCALARS:
        return _size_of_scalar(value)
    size = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            size += len(item)
        elif isinstance(item, dict):
            spend(cost * (1 + 2 * len(item)))
            waiting += item.keys()
            waiting += item.values()
        elif isinstance(item, SEQUENCES):
            spend(cost * (1 + len(item)))
            waiting += item
        else:
            size += _size_of_scalar(item)
        if size > MAX_SIZE:
            check_value_size(size)
    spend(cost + size // _TEXT_PER_STEP)
    return size


def _size_of_scalar(item: Any) -> int:
    if isinstance(item, int):
        check_bits(item.bit_length())
    elif isinstance(item, range):
        spend(len(item))
    elif isinstance(item, Undefined):
        str(item)  # which raises: the environment's undefined is strict
    elif item is not None and not isinstance(item, float):
        raise jinja2.TemplateRuntimeError(f"{type(item).__name__} is not data")
    return 1


def text_of(value: Any) -> str:
    """Return a value as Jinja2 prints it."""
    size = measure(value)
    if isinstance(value, str):
        return value
    check_value_size(size)
    return charge(str(value))


def join_counted(parts: Iterable[Any], between: str = "") -> str:
    """Return the texts of the parts as one text."""
    texts: list[str] = []
    size = 0
    for part in count_items(parts):
        text = text_of(part)
        size += len(text) + (len(between) if texts else 0)
        check_value_size(size)
        texts.append(text)
    return charge(between.join(texts))

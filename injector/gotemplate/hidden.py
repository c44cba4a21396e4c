"""A text that nothing may read: tells whether a template depends on it.

The answer cache keeps an answer for all names of a token volume only if no template reads the name. Comparing the answers for two names
does not tell: a template may decide by a letter that both have, or that neither has. The cost of a call, which counts letters, is no use.
"""

from __future__ import annotations

from typing import Any, NoReturn


class TextReadError(Exception):
    """Something uses a ``HiddenText``."""


class HiddenText:
    """Stands for a text. Any use of it as a value, also a look at its type, sets ``was_read`` and raises TextReadError."""

    def __init__(self) -> None:
        self.was_read = False

    def _read(self, *_: object) -> NoReturn:
        self.was_read = True
        raise TextReadError

    __class__ = property(_read)  # isinstance asks for it
    __bool__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _read
    __str__ = __repr__ = __format__ = __len__ = __iter__ = __contains__ = __getitem__ = _read
    __add__ = __radd__ = __mul__ = __rmul__ = __mod__ = __rmod__ = __reduce_ex__ = _read


def hide_text(value: Any, text: str, hidden: HiddenText) -> Any:
    """Return JSON data with ``hidden`` in place of each value that equals ``text``."""
    if isinstance(value, dict):
        return {key: hide_text(item, text, hidden) for key, item in value.items()}
    if isinstance(value, list):
        return [hide_text(item, text, hidden) for item in value]
    return hidden if value == text else value

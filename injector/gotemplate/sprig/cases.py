"""Snake, camel and kebab case, with the results of huandu/xstrings v1.5, which sprig calls.

A text is cut into words: connectors, punctuation, capitals with the small letters after them, small letters, digits, others. Digits
belong to the letters around them in ways that only the library's results tell; ``_joined`` keeps to those.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from injector.gotemplate.sprig.strings import SPACE

if TYPE_CHECKING:
    from collections.abc import Callable


class _Kind(Enum):
    END = auto()
    CONNECTOR = auto()
    PUNCTUATION = auto()
    UPPER = auto()
    LOWER = auto()
    NUMBER = auto()
    OTHER = auto()


_LETTERS_OR_DIGITS = frozenset({_Kind.LOWER, _Kind.NUMBER})
_NO_CONNECTOR_BEFORE = frozenset({_Kind.END, _Kind.CONNECTOR, _Kind.PUNCTUATION})


@dataclass(frozen=True, slots=True)
class _Word:
    kind: _Kind
    text: str

    def lowered(self, connector: str) -> str:
        if self.kind is _Kind.CONNECTOR:
            return connector * len(self.text)
        return self.text.lower() if self.kind is _Kind.UPPER else self.text


_END = _Word(_Kind.END, "")


def to_snake_case(text: str) -> str:
    """Return ``first_name`` for ``FirstName``."""
    return _joined(text, "_")


def to_kebab_case(text: str) -> str:
    """Return ``first-name`` for ``FirstName``."""
    return _joined(text, "-")


def _joined(text: str, connector: str) -> str:
    words = _words(text)
    out: list[str] = []
    at = 0

    def word(index: int) -> _Word:
        return words[index] if index < len(words) else _END

    while at < len(words):
        current, following = word(at), word(at + 1)
        out.append(current.lowered(connector))
        at += 1
        if at >= len(words) or current.kind in (_Kind.CONNECTOR, _Kind.PUNCTUATION):
            continue
        if current.kind is _Kind.NUMBER:
            at = _take_run(words, at, out)
            if word(at).kind not in _NO_CONNECTOR_BEFORE:
                out.append(connector)
        elif following.kind is not _Kind.NUMBER:
            if following.kind not in _NO_CONNECTOR_BEFORE:
                out.append(connector)
        elif at + 1 < len(words) and word(at + 1).kind is _Kind.LOWER:
            # Small letters after the digits take them into a word of their own: HTTP2xx is http_2xx.
            out += [connector, following.text]
            at = _take_run(words, at + 1, out)
            if word(at).kind not in _NO_CONNECTOR_BEFORE:
                out.append(connector)
        elif at + 1 < len(words):
            # Else the digits stay with the word before: Bld4Floor is bld4_floor.
            out.append(following.text)
            at += 1
            if word(at).kind not in _NO_CONNECTOR_BEFORE:
                out.append(connector)
    return "".join(out)


def _take_run(words: list[_Word], at: int, out: list[str]) -> int:
    while at < len(words) and words[at].kind in _LETTERS_OR_DIGITS:
        out.append(words[at].text)
        at += 1
    return at


def _words(text: str) -> list[_Word]:
    found: list[_Word] = []
    at = 0
    while at < len(text):
        kind, end = _word_at(text, at)
        found.append(_Word(kind, text[at:end]))
        at = end
    return found


def _word_at(text: str, at: int) -> tuple[_Kind, int]:
    char = text[at]
    if char.isupper():
        return _Kind.UPPER, _end_of_upper(text, at)
    for kind, belongs in _RUNS:
        if belongs(char):
            return kind, _run_end(text, at, belongs)
    return _Kind.OTHER, _run_end(text, at, lambda c: not any(belongs(c) for _, belongs in _RUNS) and not c.isupper())


def _end_of_upper(text: str, at: int) -> int:
    end = _run_end(text, at, str.isupper)
    if end - at == 1:
        return _run_end(text, end, _is_lower) if end < len(text) and _is_lower(text[end]) else end
    # Of several capitals before a small letter the last begins the next word: HTTPStatus is HTTP and Status.
    return end - 1 if end < len(text) and _is_lower(text[end]) else end


def _run_end(text: str, at: int, belongs: Callable[[str], bool]) -> int:
    while at < len(text) and belongs(text[at]):
        at += 1
    return at


def _is_connector(char: str) -> bool:
    return char in "-_" or char in SPACE


def _is_punctuation(char: str) -> bool:
    return unicodedata.category(char).startswith("P")


def _is_lower(char: str) -> bool:
    return char.isalpha() and not char.isupper()


def _is_number(char: str) -> bool:
    return unicodedata.category(char).startswith("N")


_RUNS: tuple[tuple[_Kind, Callable[[str], bool]], ...] = (
    (_Kind.CONNECTOR, _is_connector),
    (_Kind.PUNCTUATION, _is_punctuation),
    (_Kind.LOWER, _is_lower),
    (_Kind.NUMBER, _is_number),
)


def to_pascal_case(text: str) -> str:
    """Return ``HttpServer`` for ``http_server``; sprig calls it camelcase.

    One connector between words goes, more of them stay but for the last; capitals that follow a leading capital become small.
    """
    body = text.lstrip("".join(char for char in set(text) if _is_connector(char)))
    if not body:
        return text
    leading = text[: len(text) - len(body)]
    out: list[str] = []
    lowering = body[0].isupper()
    previous = body[0].upper()
    for char in body[1:]:
        if _is_connector(char) and _is_connector(previous):
            out.append(previous)
            previous = char
            continue
        if _is_connector(previous):
            lowering = char.isupper()
            previous = char.upper()
            continue
        shown = char.lower() if lowering and char.isupper() else char
        lowering = lowering and char.isupper()
        out.append(previous)
        previous = shown
    return leading + "".join(out) + previous

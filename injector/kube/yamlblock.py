"""YAML in block style as libyaml's emitter writes it, without an event for each value.

For texts that are printable ASCII, as nearly all of a Kubernetes object is: everything else is left to libyaml (``yamlwrite``). Follows
emitter.c of libyaml 0.2.5: ``yaml_emitter_analyze_scalar``, ``select_scalar_style``, ``write_plain_scalar`` and their like.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_TEXT: Final = re.compile(r"[\x20-\x7e]*")
_LINES: Final = re.compile(r"[\n\x20-\x7e]*")
_LINE_START: Final = re.compile(r"\n(?!\n)")
_INDICATORS: Final = frozenset("#,[]{}&*!|>'\"%@` ")
_KEY_LENGTH: Final = 128
"""Bytes of a key that libyaml writes before its value, with no mark of its own."""

_SHORT: Final = 80
_KEPT: Final = 4096
"""Texts up to that length repeat: names of fields, paths, words. Their forms take half a megabyte."""
BLOCKS: Final = 2048
_BLOCK: Final = 1024
"""Objects up to that many bytes of JSON repeat too: what a template adds is mostly the same for all workloads."""
_BLOCK_TEXT: Final = 4 * _BLOCK
"""Characters of the YAML of one that is remembered: what is nested deeply is indented in each line."""


class NotPlainError(Exception):
    """A value that is not written here."""


class BlockWriter:
    """Writes JSON data as YAML.

    Args:
        quotes: whether a text is no string unless it is quoted.
        text_of: the text of what is no string.
        ordered: the keys of an object in their order.
    """

    def __init__(
        self,
        quotes: Callable[[str], bool],
        text_of: Callable[[Any], str],
        ordered: Callable[[Iterable[str]], list[str]],
    ) -> None:
        self._quotes = quotes
        self._remembered = lru_cache(_KEPT)(self._made)
        self.blocks: dict[tuple[int, int, bytes], str] = {}
        self.text_of = text_of
        self.ordered = ordered

    def text(self, value: Any, width: int) -> str:
        """Return an object or a list as YAML, its texts wrapped beyond ``width`` columns.

        Raises:
            NotPlainError: it is neither, or a text in it is for libyaml to write.
        """
        parts: list[str] = []
        writing = _Writing(self, width, parts)
        if type(value) is dict and value:
            writing.object(value, 0, "")
        elif type(value) is list and value:
            writing.list(value, 0, "")
        else:
            raise NotPlainError
        parts.append("\n")
        return "".join(parts)

    def form(self, text: str) -> str:
        """Return a text as it stands in YAML, in quotes if need be; of several lines with the mark of a literal before them.

        Raises:
            NotPlainError: it is for libyaml to write.
        """
        return self._remembered(text) if len(text) <= _SHORT else self._made(text)

    def _made(self, text: str) -> str:
        if "\n" in text:
            return _literal(text)
        if not _TEXT.fullmatch(text):
            raise NotPlainError
        if self._quotes(text):
            if '"' in text or "\\" in text:
                raise NotPlainError
            return f'"{text}"'
        return text if _may_be_plain(text) else "'" + text.replace("'", "''") + "'"


def _literal(text: str) -> str:
    """Return a text of lines with the mark of a literal, where it needs no hint of its indentation."""
    if not _LINES.fullmatch(text) or text[0] <= " " or text[-1] == " " or " \n" in text or text.endswith("\n\n"):
        raise NotPlainError
    return f"|\n{text[:-1]}" if text[-1] == "\n" else f"|-\n{text}"


def _may_be_plain(text: str) -> bool:
    first = text[0]
    if first in _INDICATORS or text[-1] in " :" or ": " in text or " #" in text:
        return False
    if first in "-?:" and text[1:2] in ("", " "):
        return False
    return not text.startswith(("---", "..."))


class _Writing:
    """The writing of one value."""

    __slots__ = ("_blocks", "_form", "_ordered", "_parts", "_put", "_text_of", "_width")

    def __init__(self, writer: BlockWriter, width: int, parts: list[str]) -> None:
        self._form, self._ordered, self._text_of = writer.form, writer.ordered, writer.text_of
        self._blocks = writer.blocks
        self._width = width
        self._parts = parts
        self._put = parts.append

    def block(self, value: dict[str, Any], indent: int, lead: str) -> None:
        """Write an object as ``object`` does, from memory if there is one like it."""
        try:
            data = orjson.dumps(value)
        except TypeError:
            data = b""
        if not data or len(data) > _BLOCK:
            self.object(value, indent, lead)
            return
        key = (self._width, indent, data)
        text = self._blocks.get(key)
        if text is None:
            begun = len(self._parts)
            self.object(value, indent, "")
            text = "".join(self._parts[begun:])
            del self._parts[begun:]
            if len(text) <= _BLOCK_TEXT:
                if len(self._blocks) >= BLOCKS:
                    self._blocks.clear()
                self._blocks[key] = text
        self._put(lead + text)

    def object(self, value: dict[str, Any], indent: int, lead: str) -> None:
        """Write an object whose first key stands behind ``lead``, the others below it at ``indent``."""
        line = "\n" + " " * indent
        for key in self._ordered(value):
            if "\n" in key or len(key) > _KEY_LENGTH:
                raise NotPlainError
            form = self._form(key)
            self._value(value[key], indent, len(form) + 1, f"{lead}{form}:")
            lead = line

    def list(self, items: list[Any], indent: int, lead: str) -> None:
        """Write a list whose first dash stands behind ``lead``, the others below it at ``indent``."""
        line = "\n" + " " * indent
        for item in items:
            kind = type(item)
            if kind is dict and item:
                self.block(item, indent + 2, f"{lead}- ")
            elif kind is list and item:
                self.list(item, indent + 2, f"{lead}- ")
            else:
                self._value(item, indent, 1, f"{lead}-")
            lead = line

    def _value(self, item: Any, indent: int, taken: int, start: str) -> None:
        """Write what stands behind a key or a dash; ``taken`` are the columns that these take."""
        kind = type(item)
        if kind is str:
            form = self._form(item)
            if form[0] == "|":
                form = _LINE_START.sub("\n" + " " * (indent + 2), form)
            elif " " in form:
                form = self._wrapped(form, indent + taken + 1, indent + 2)
            self._put(f"{start} {form}")
        elif kind is dict and item:
            self._put(start)
            self.block(item, indent + 2, "\n" + " " * (indent + 2))
        elif kind is list and item:
            self._put(start)
            self.list(item, indent, "\n" + " " * indent)
        else:
            self._put(f"{start} {self._rest(item)}")

    def _wrapped(self, form: str, column: int, indent: int) -> str:
        """Return a form that begins at ``column`` with line breaks for spaces, each after the line has passed the width."""
        width = self._width
        if column + len(form) <= width:
            return form
        if form[0] == '"':
            raise NotPlainError
        before, *words = form.split(" ")
        closing = form[0] == "'"
        found = [before]
        column += len(before)
        inside = before != "'"
        for word in words:
            if column > width and inside and before and word and not (closing and word == "'" and word is words[-1]):
                found.append("\n" + " " * indent)
                column = indent + len(word)
            else:
                found.append(" ")
                column += 1 + len(word)
            found.append(word)
            before, inside = word, True
        return "".join(found)

    def _rest(self, value: Any) -> str:
        if isinstance(value, dict | list | str):
            if value or isinstance(value, str):
                raise NotPlainError
            return "{}" if isinstance(value, dict) else "[]"
        return self._text_of(value)

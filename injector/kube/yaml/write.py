"""YAML written as Go's sigs.k8s.io/yaml (v1.6.0) writes it.

For texts that are printable ASCII, as nearly all of a Kubernetes object is: everything else is left to libyaml (``yamlwrite``). Follows
emitter.c of libyaml 0.2.5: ``yaml_emitter_analyze_scalar``, ``select_scalar_style``, ``write_plain_scalar`` and their like.

go-yaml's emitter is a port of libyaml's, so libyaml writes here; what differs is chosen before: the style of each
string (go.yaml.in/yaml/v2 encode.go), the text of numbers and the order of keys (sorter.go). Text that Go itself cannot
write, or writes so that it reads back as another (control characters, line ends of Unicode), is written to read back.
"""

from __future__ import annotations

import io
import re
from functools import cmp_to_key, lru_cache
from typing import TYPE_CHECKING, Any, Final

import orjson
import yaml
from yaml.cyaml import CEmitter  # type: ignore[attr-defined] # its stub names the dumpers alone

from injector.golang.strconv import format_g, go_float
from injector.kube.escaping import escape_controls, has_controls
from injector.kube.yaml.read import is_timestamp, resolve_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Emit = Callable[[yaml.Event], None]

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


_BASE60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?", re.ASCII)
_NO_FOLD: Final = 2**31 - 1
_FOLD: Final = 80
_IMPLICIT: Final = (True, True)
_END_MARK: Final = "...\n"


def dump_yaml(value: Any, *, fold: bool = True, escape: bool = False) -> str:
    """Return JSON data as YAML: keys sorted, plain and quoted text wrapped at 80 columns.

    ``fold=False`` leaves lines as long as they are, as gopkg.in/yaml.v2 v2.3.0 does, and no other. Go writes C0 and C1 as escapes
    in double quotes, and bidirectional controls as they are; with ``escape`` these are escapes too.

    Raises:
        DataError: a number that is infinite or none.
    """
    width = _FOLD if fold else _NO_FOLD
    try:
        return _WRITER.text(value, width)
    except NotPlainError:
        return emitted(value, width, escape=escape)


def emitted(value: Any, width: int, *, escape: bool = False) -> str:
    """Return JSON data as YAML as libyaml's emitter writes it, whatever it holds; texts are wrapped beyond ``width`` columns.

    Raises:
        DataError: a number that is infinite or none.
    """
    stream = io.StringIO()
    emitter = CEmitter(stream, width=width, allow_unicode=True)
    try:
        emitter.emit(yaml.StreamStartEvent())
        emitter.emit(yaml.DocumentStartEvent(explicit=False))
        _emit(value, emitter.emit, escape=escape)
        emitter.emit(yaml.DocumentEndEvent(explicit=False))
        emitter.emit(yaml.StreamEndEvent())
    finally:
        emitter.dispose()
    text = stream.getvalue()
    # libyaml ends a document with the mark where its last text may have no end; go-yaml does not.
    text = text.removesuffix(_END_MARK) if text.endswith("\n" + _END_MARK) else text
    # Every text with such a character is in double quotes, where the escape means the character.
    return escape_controls(text) if escape else text


def _emit(value: Any, emit: Emit, *, escape: bool) -> None:
    if isinstance(value, dict):
        emit(yaml.MappingStartEvent(anchor=None, tag=None, implicit=True, flow_style=not value))
        for key in _sorted(value):
            emit(_scalar(key, escape=escape))
            _emit(value[key], emit, escape=escape)
        emit(yaml.MappingEndEvent())
    elif isinstance(value, list):
        emit(yaml.SequenceStartEvent(anchor=None, tag=None, implicit=True, flow_style=not value))
        for item in value:
            _emit(item, emit, escape=escape)
        emit(yaml.SequenceEndEvent())
    else:
        emit(_scalar(value, escape=escape))


def _scalar(value: Any, *, escape: bool) -> yaml.Event:
    style = _style(value, escape=escape) if isinstance(value, str) else None
    text = value if isinstance(value, str) else _text(value)
    return yaml.ScalarEvent(anchor=None, tag=None, implicit=_IMPLICIT, value=text, style=style)


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        # A float passes through JSON's text, which go-yaml reads: an integer where it has neither point nor exponent.
        text = go_float(value)
        number = resolve_plain(text)
        return str(number) if type(number) is int else format_g(number)
    return str(int(value))


def _style(text: str, *, escape: bool) -> str | None:
    if escape and has_controls(text):
        return '"'
    if "\n" in text:
        return "|"
    return '"' if _quotes(text) else None


def _quotes(text: str) -> bool:
    """Return whether a text without quotes would be something else than a text."""
    return type(resolve_plain(text)) is not str or is_timestamp(text) or _BASE60.fullmatch(text) is not None


def _sorted(keys: Iterable[str]) -> list[str]:
    """Sort keys as go-yaml does: letters after other characters, digits by the number they write."""
    if all(map(str.isalpha, keys)):
        return sorted(keys)
    return sorted(keys, key=_ORDER)


def _compare(left: str, right: str) -> int:
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return _compare_at(left, right, index)
    return len(left) - len(right)


def _compare_at(left: str, right: str, index: int) -> int:
    a, b = left[index], right[index]
    if a.isalpha() and b.isalpha():
        return -1 if a < b else 1
    if a.isalpha() or b.isalpha():
        return -1 if b.isalpha() else 1
    inside = _inside_number(left, index) if "0" in (a, b) else 0
    left_number, left_end = _number_at(left, index, inside)
    right_number, right_end = _number_at(right, index, inside)
    if left_number != right_number:
        return left_number - right_number
    if left_end != right_end:
        return left_end - right_end
    return -1 if a < b else 1


def _inside_number(text: str, index: int) -> int:
    """Return 1 where a zero at ``index`` continues a number, so that it counts as one of its digits."""
    while index > 0 and text[index - 1].isdecimal():
        index -= 1
        if text[index] != "0":
            return 1
    return 0


def _number_at(text: str, index: int, number: int) -> tuple[int, int]:
    while index < len(text) and text[index].isdecimal():
        number = number * 10 + ord(text[index]) - ord("0")
        index += 1
    return number, index


_ORDER: Final = cmp_to_key(_compare)
_WRITER: Final = BlockWriter(_quotes, _text, _sorted)

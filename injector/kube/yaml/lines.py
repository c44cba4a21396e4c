"""Documents of manifests, read line by line. Nearly every line of a manifest is ``KEY:``, ``KEY: SCALAR``, ``- SCALAR`` or ``- KEY: ...``.

One regular expression takes a line apart, and its column tells where it belongs. Most lines repeat in other manifests, so short ones are
taken apart once. libyaml reads the other entries one by one, each with its lines to the right of it: block and flow texts, quoted keys.
A text that does not fit is read as a whole, so the result, with the errors, is always that of ``load_yaml``. A manifest is injected in
three quarters of the time.
"""

from __future__ import annotations

import math
import re
import sys
from collections import deque
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from injector.errors import ManifestError
from injector.kube.yaml.read import HINTED, load_yaml, read_part, resolve_plain

KEY: Final = r"[A-Za-z_][A-Za-z0-9_./-]{0,200}"
_INNER: Final = r"A-Za-z0-9_./$()@%=+~*!|<>?^-"
_COLON: Final = r":(?![ \n]|\Z)"
_FIRST_OF_PLAIN: Final = "[A-Za-z0-9_./$(+]"
# Without alternatives in a repetition, which take three times as long.
PLAIN: Final = rf"{_FIRST_OF_PLAIN}[{_INNER}]*+(?:{_COLON}[{_INNER}]*+)*"
_WORDS: Final = rf"(?:{_FIRST_OF_PLAIN}|-[A-Za-z0-9-])[ {_INNER}]*+(?:{_COLON}[ {_INNER}]*+)*"
DOUBLE: Final = r"[ !#-\[\]-~]*+"
SINGLE: Final = r"[ -&(-~]*+"
# Control characters are not allowed in a comment; a text with one has to be read as a whole.
COMMENT: Final = r"#[ -~\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*"
# Line breaks of YAML beside the line feed, tabs, and what may begin a document.
_UNSPLIT: Final = ("\t", "\r", "\x85", "\u2028", "\u2029", "\ufeff")

_LINE: Final = re.compile(
    rf"^( *+)(- )?(?:({KEY}):(?= |$) *+)?(\"{DOUBLE}\"|'{SINGLE}'|\{{\}}|\[\]|{_WORDS})? *+$|^(.*)$",
    re.MULTILINE,
)
"""The indentation, dash, key and value of a line, or all of a line of another kind."""
_OTHER: Final = re.compile(rf"( *)(?:(- )(?:({KEY}):(?= |$))?|(?={KEY}:(?: |$)|[\"']))")
"""The beginning of an entry that libyaml reads: of a key, of an item, or of an item that begins with a key."""
_COMMENT_LINE: Final = re.compile(rf" *{COMMENT}")
_FIRST: Final = re.compile(r" *(?=[^ #}\]])")
"""What is before the first character of a line that may begin an entry."""
_QUOTES: Final = frozenset("\"'")
_SHORT: Final = 120
"""Characters of the lines that are held, since most of them repeat in the next manifest."""
_MOST_COLUMNS: Final = 40
"""Collections further to the right are not read here, which bounds the depth."""


def may_split(text: str) -> bool:
    """Return whether line feeds alone end the lines of a text, and spaces alone indent them."""
    return not any(mark in text for mark in (_UNSPLIT[:2] if text.isascii() else _UNSPLIT))


def load_document(text: str, *, where: str = "", line: int = 1) -> Any:
    """Return the same data as ``load_yaml``, and raise the same errors."""
    if text.endswith("\n") and may_split(text):
        try:
            return _data(text.removesuffix("\n"))
        except (_OtherError, ManifestError):
            pass
    return load_yaml(text, where=where, line=line)


class _OtherError(Exception):
    """The text has to be read as a whole."""


class _Collections:
    """The collections around the current line: ``root`` and those within it, ``open``, with their columns, the innermost at the end.

    ``holder`` is the mapping of the line before, if that is a ``key`` at a ``column`` without a value on the line; None otherwise.
    """

    __slots__ = ("column", "holder", "key", "open", "root")

    def __init__(self) -> None:
        self.open: list[tuple[int, Any]] = []
        self.root: Any = None
        self.holder: dict[str, Any] | None = None
        self.key = ""
        self.column = 0

    def at(self, column: int, kind: type) -> Any:
        """Return the list or mapping of an entry that begins at a column.

        Raises _OtherError if there is none, or too many are around it.
        """
        holder, self.holder = self.holder, None
        if holder is not None and (column > self.column or (kind is list and column == self.column)):
            holder[self.key] = found = self.begin(column, kind)
            return found
        around = self.open
        while around:
            begun, found = around[-1]
            if begun == column and type(found) is kind:
                return found
            if begun < column or (begun == column and kind is list):
                break
            around.pop()
        if self.root is not None:
            raise _OtherError
        self.root = self.begin(column, kind)
        return self.root

    def of_entry(self, column: int, dash: str | None, key: str | None) -> tuple[Any, int]:
        """Return the collection of an entry that begins at a column, and the column of a mapping; -1 for a list."""
        if not dash:
            return self.at(column, dict), column
        items = self.at(column, list)
        if not key:
            return items, -1
        items.append(item := self.begin(column + 2, dict))
        return item, column + 2

    def begin(self, column: int, kind: type) -> Any:
        """Return a new collection, which is the innermost one from now on."""
        if column > _MOST_COLUMNS:
            raise _OtherError
        found = kind()
        self.open.append((column, found))
        return found


def _data(text: str) -> Any:
    """Return the data of a text.

    Raises _OtherError if the text has to be read as a whole, and ManifestError if an entry alone is not YAML.
    """
    collections = _Collections()
    target: Any = None
    mapping_column = -1  # that of ``target``, if it is a mapping
    lines = text.split("\n")
    numbered = enumerate(lines)
    for number, line in numbered:
        entry = _short_entry(line) if len(line) <= _SHORT else _entry(line)
        if entry is None:
            continue
        column, dash, key, value = entry
        if column == mapping_column and not dash:
            collections.holder = None
        else:
            target, mapping_column = collections.of_entry(column, dash, key)
        if value is _Other:
            column = column if mapping_column < 0 else mapping_column
            deque(islice(numbered, _read_entry(target, lines, number, column)), maxlen=0)
            continue
        if value is _Nothing:
            if mapping_column < 0:
                raise _OtherError
            value = None
            collections.holder, collections.key, collections.column = target, key, mapping_column
        elif value.__class__ is type:
            value = value()
        if mapping_column < 0:
            target.append(value)
        else:
            target[key] = value
    return collections.root


class _Nothing:
    """Stands for the value of a key or dash that has nothing after it in its line."""


class _Other:
    """Stands for the value of an entry that libyaml has to read."""


def _entry(line: str) -> tuple[int, str, str, Any] | None:
    """Return the column, dash, key and value of a line; None for a blank line or a comment.

    For an empty collection, the value is its class. Raises _OtherError if the text has to be read as a whole.
    """
    match = _LINE.match(line)
    if match is None:
        raise _OtherError
    indent, dash, key, value, other = match.groups("")
    if dash or key:
        return len(indent), dash, _key(key), _scalar(value)
    if value:
        raise _OtherError
    if not other or _COMMENT_LINE.fullmatch(other):
        return None
    match = _OTHER.match(other)
    if match is None:
        raise _OtherError
    indent, dash, key = match.groups("")
    return len(indent), dash, key, _Other


_short_entry: Final = lru_cache(4096)(_entry)


def _key(key: str) -> str:
    if key[:1] in HINTED and type(resolve_plain(key)) is not str:
        raise _OtherError
    return sys.intern(key)  # equal keys are found faster if they are one object


def _scalar(text: str) -> Any:
    """Return the value of a text; ``_Nothing`` if it is empty, the class of an empty collection."""
    if not text:
        return _Nothing
    first = text[0]
    if first in _QUOTES:
        return text[1:-1]
    if first in "{[":
        return dict if first == "{" else list
    value = resolve_plain(text.rstrip(" "))
    if type(value) is float and not math.isfinite(value):
        raise _OtherError
    return value


def _read_entry(target: Any, lines: list[str], number: int, column: int) -> int:
    """Put the entry at a column of a line into its collection; return how many more lines it has.

    Raises _OtherError if the lines are not one entry, and ManifestError if they are not YAML.
    """
    end = number + 1
    while end < len(lines) and ((first := _FIRST.match(lines[end])) is None or first.end() > column):
        end += 1
    value, _ = read_part("\n".join((" " * column + lines[number][column:], *lines[number + 1 : end], "")))
    if type(value) is not type(target) or len(value) != 1:
        raise _OtherError
    if type(target) is list:
        target += value
    else:
        target.update(value)
    return end - number - 1

"""Documents of manifests, read line by line. Nearly every line of a manifest is ``KEY:``, ``KEY: SCALAR``, ``- SCALAR`` or ``- KEY: ...``.

One regular expression takes lines apart, and their columns tell where they belong. libyaml reads the other entries one by one, each with
its lines to the right of it: block and flow texts, quoted keys. A text that does not fit is read as a whole, so the result, with the
errors, is always that of ``load_yaml``. A manifest is injected in three quarters of the time.
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
_RESOLVED: Final = HINTED | _QUOTES | {"{", "["}
"""What values begin with that are not always text as they are."""
_MOST_COLUMNS: Final = 40
"""Collections further to the right are not read here, which bounds the depth."""


def may_split(text: str) -> bool:
    """Return whether line feeds alone end the lines of a text, and spaces alone indent them."""
    return not any(mark in text for mark in (_UNSPLIT[:2] if text.isascii() else _UNSPLIT))


def load_document(text: str, *, where: str = "", line: int = 1) -> Any:
    """Return what ``load_yaml`` returns.

    Raises:
        ManifestError: as ``load_yaml``.
    """
    if text.endswith("\n") and may_split(text):
        try:
            return _data(text.removesuffix("\n"))
        except (_OtherError, ManifestError):
            pass
    return load_yaml(text, where=where, line=line)


class _OtherError(Exception):
    """The text has to be read as a whole."""


class _Collections:
    """The collections around the current line: ``open`` has them with their columns, the innermost at the end.

    Attributes:
        root: the outermost one.
        holder: the mapping of the line before, if that is a key without a value on the line; None otherwise.
        key: that key.
        column: the column of that key.
    """

    __slots__ = ("column", "holder", "key", "open", "root")

    def __init__(self) -> None:
        self.open: list[tuple[int, Any]] = []
        self.root: Any = None
        self.holder: dict[str, Any] | None = None
        self.key = ""
        self.column = 0

    def at(self, column: int, kind: type) -> Any:
        """Return the collection, a list or a mapping, of an entry that begins at a column.

        Raises:
            _OtherError: there is none, or one with too many around it.
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
        """Return the collection of an entry that begins at a column, and the column of a mapping; -1 for a list.

        Raises:
            _OtherError: as ``at``.
        """
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

    Raises:
        _OtherError: the text has to be read as a whole.
        ManifestError: an entry alone is not YAML.
    """
    collections = _Collections()
    lines: list[str] = []
    target: Any = None
    mapping_column = -1  # that of ``target``, if it is a mapping
    entries = enumerate(_LINE.findall(text))
    for number, (indent, dash, key, value, other) in entries:
        if key and len(indent) == mapping_column and not dash:
            collections.holder = None
        elif dash or key:
            target, mapping_column = collections.of_entry(len(indent), dash, key)
        elif value or other:
            if _COMMENT_LINE.fullmatch(other):
                continue
            match = _OTHER.match(other)
            if match is None:
                raise _OtherError
            target, mapping_column = collections.of_entry(len(match[1]), match[2], match[3])
            lines = lines or text.split("\n")
            column = len(match[1]) if mapping_column < 0 else mapping_column
            deque(islice(entries, _read_entry(target, lines, number, column)), maxlen=0)
            continue
        else:
            continue
        if mapping_column < 0:
            if not value:
                raise _OtherError  # nothing after the dash
            target.append(_scalar(value))
        elif not value:
            target[_key(key)] = None
            collections.holder, collections.key, collections.column = target, key, mapping_column
        elif value[0] in _RESOLVED or value[-1] == " ":
            target[_key(key)] = _scalar(value)
        else:
            target[_key(key)] = value
    return collections.root


@lru_cache(1024)
def _key(key: str) -> str:
    if key[0] in HINTED and type(resolve_plain(key)) is not str:
        raise _OtherError
    return sys.intern(key)  # equal keys are found faster if they are one object


def _scalar(text: str) -> Any:
    first = text[:1]
    if first in _QUOTES:
        return text[1:-1]
    if first in "{[":
        return {} if first == "{" else []
    value = resolve_plain(text.rstrip(" "))
    if type(value) is float and not math.isfinite(value):
        raise _OtherError
    return value


def _read_entry(target: Any, lines: list[str], number: int, column: int) -> int:
    """Put the entry at a column of a line into its collection, and return how many more lines it has.

    Raises:
        _OtherError: the lines are not one entry.
        ManifestError: they are not YAML.
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

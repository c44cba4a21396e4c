"""YAML written as Go's sigs.k8s.io/yaml (v1.6.0) writes it.

go-yaml's emitter is a port of libyaml's, so libyaml writes everything; what differs is chosen before: the style of each string
(go.yaml.in/yaml/v2 encode.go), the text of numbers and the order of keys (sorter.go). Text that Go itself cannot write, or writes so that
it reads back as another text (control characters, line ends of Unicode), is written so that it reads back.

``with_entry``, ``without_entry`` and ``with_values`` change entries of a text, and keep the comments, order and layout of all others.
PyYAML only finds positions. If an entry has no simple position (a mapping in braces, ``? key``, a repeated key), the result is None. The
caller compares the meaning of the new text with the intended one, and writes the whole text again if they differ.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cmp_to_key, lru_cache
from textwrap import indent
from typing import TYPE_CHECKING, Any, Final

import yaml
from yaml.cyaml import CEmitter  # type: ignore[attr-defined] # its stub names the dumpers alone

from injector.golang.strconv import format_g, go_float
from injector.kube.escaping import escape_controls, has_controls
from injector.kube.yaml.read import HINTED, is_timestamp, resolve_plain

if TYPE_CHECKING:
    Emit = Callable[[yaml.Event], None]

_NO_FOLD: Final = 2**31 - 1
_FOLD: Final = 80
_SHORT: Final = 64
"""Characters of a text whose style is remembered."""
_IMPLICIT: Final = (True, True)
_END_MARK: Final = "...\n"
_BEGINNING: Final = (yaml.StreamStartEvent(), yaml.DocumentStartEvent(explicit=False))
_ENDING: Final = (yaml.DocumentEndEvent(explicit=False), yaml.StreamEndEvent())
_MAPPING, _EMPTY_MAPPING = (
    yaml.MappingStartEvent(None, None, implicit=True, flow_style=flow) for flow in (False, True)
)
_LIST, _EMPTY_LIST = (yaml.SequenceStartEvent(None, None, implicit=True, flow_style=flow) for flow in (False, True))
_MAPPING_END: Final = yaml.MappingEndEvent()
_LIST_END: Final = yaml.SequenceEndEvent()


def dump_yaml(value: Any, *, fold: bool = True, escape: bool = False) -> str:
    """Return JSON data as YAML: keys sorted, plain and quoted text wrapped at 80 columns.

    ``fold=False`` leaves lines as long as they are, as gopkg.in/yaml.v2 v2.3.0 does, and no other. Go writes C0 and C1 as escapes in double
    quotes, and bidirectional controls as they are; with ``escape`` these are escapes too. Raises DataError for a number that is not finite.
    """
    stream = io.StringIO()
    emitter = CEmitter(stream, width=_FOLD if fold else _NO_FOLD, allow_unicode=True)
    try:
        for first in _BEGINNING:
            emitter.emit(first)
        _Emitter(emitter.emit, escape=escape).value(value)
        for last in _ENDING:
            emitter.emit(last)
    finally:
        emitter.dispose()
    text = stream.getvalue()
    # libyaml ends a document with the mark where its last text may have no end; go-yaml does not.
    text = text.removesuffix(_END_MARK) if text.endswith("\n" + _END_MARK) else text
    # Every text with such a character is in double quotes, where the escape means the character.
    return escape_controls(text) if escape else text


class _Emitter:
    """Gives JSON data to libyaml. One event is enough for all scalars, because libyaml copies what it gets."""

    def __init__(self, emit: Emit, *, escape: bool) -> None:
        self.emit = emit
        self.escape = escape
        self.event = yaml.ScalarEvent(None, None, _IMPLICIT, "")

    def value(self, value: Any) -> None:
        """Write a value."""
        if isinstance(value, str):
            self.text(value)
        elif isinstance(value, dict):
            self.emit(_MAPPING if value else _EMPTY_MAPPING)
            for key in _sort_keys(value):
                self.text(key)
                item = value[key]
                if item.__class__ is str:  # most values: one call less
                    self.text(item)
                else:
                    self.value(item)
            self.emit(_MAPPING_END)
        elif isinstance(value, list):
            self.emit(_LIST if value else _EMPTY_LIST)
            for item in value:
                self.value(item)
            self.emit(_LIST_END)
        else:
            self.scalar(_text(value), None)

    def text(self, text: str) -> None:
        """Write a text or a key."""
        event = self.event
        event.value, event.style = text, _style(text) if len(text) <= _SHORT else _style_of(text)
        if self.escape and has_controls(text):
            event.style = '"'
        self.emit(event)

    def scalar(self, text: str, style: str | None) -> None:
        """Write a scalar."""
        self.event.value, self.event.style = text, style
        self.emit(self.event)


def _style_of(text: str) -> str | None:
    """Return the style in which go-yaml writes a text; None for a plain scalar."""
    return "|" if "\n" in text else '"' if _quotes(text) else None


@lru_cache(1024)
def _style(text: str) -> str | None:
    """Return the same for a short text. Most are names of fields, and occur in each document."""
    return _style_of(text)


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


_NUMBER_STARTS: Final = frozenset("+-0123456789")
_BASE60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?", re.ASCII)


def _quotes(text: str) -> bool:
    """Return whether a text needs quotes to be read as a text."""
    if text and text[0] not in HINTED:
        return False
    if type(resolve_plain(text)) is not str:
        return True
    return text[0] in _NUMBER_STARTS and (is_timestamp(text) or _BASE60.fullmatch(text) is not None)


def _sort_keys(keys: Iterable[str]) -> list[str]:
    """Sort keys as go-yaml does: letters after other characters, digits by the number they write."""
    if "".join(keys).isalpha():
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
    """Return ``number`` with the digits at ``index`` after it, as Go's int64 has it, and the end of the digits."""
    end = index
    while end < len(text) and text[end].isdecimal():
        end += 1
    # Digits further left are multiples of 2**64.
    for char in text[max(index, end - _INT64_DIGITS) : end]:
        number = number * 10 + ord(char) - ord("0")
    return (number + 2**63) % 2**64 - 2**63, end


_INT64_DIGITS: Final = 64
_ORDER: Final = cmp_to_key(_compare)


def with_entry(text: str, key: str, value: str) -> str | None:
    """Return ``text`` with ``key: value``, in place of the key's entry or at the end; None if there is no simple position.

    ``value`` is YAML of one line: a plain or quoted scalar, or a collection in braces or brackets.
    """
    root = _root(text)
    if root is None:
        return _join(text, f"{_quote(key)}: {value}\n")
    pairs = _pairs(root, key)
    if pairs is None:
        return None
    if not pairs:
        indent = " " * root.value[0][0].start_mark.column
        return _join(text, f"{indent}{_quote(key)}: {value}\n")
    return _replace(text, *pairs[0], value)


def without_entry(text: str, key: str) -> str | None:
    """Return ``text`` without the lines of ``key``; None if it has no lines of its own."""
    root = _root(text)
    pairs = None if root is None else _pairs(root, key)
    if not pairs:
        return None
    before, after = pairs[0]
    start = text.rfind("\n", 0, before.start_mark.index) + 1
    if text[start : before.start_mark.index].strip() or after.start_mark.index < start:
        return None
    end = text.find("\n", _end(after))
    return text[:start] + ("" if end < 0 else text[end + 1 :])


def with_values(text: str, values: Mapping[tuple[str | int, ...], Any]) -> str | None:
    """Return ``text`` with other objects or lists, which are not empty, at some paths; None if one is not an entry of a block mapping."""
    try:
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError:
        return None
    edits = []
    for path, value in values.items():
        entry = _entry_at(root, path)
        if entry is None:
            return None
        before, after = entry
        lines = indent(dump_yaml(value, fold=False), " " * (before.start_mark.column + 2))
        end = _end(after)
        # A block scalar ends at the beginning of a line. A comment after another value is about that value.
        end = end if text[end - 1 : end] == "\n" else text.find("\n", end) + 1 or len(text)
        edits.append((before.end_mark.index, end, f":\n{lines}"))
    parts: list[str] = []
    place = 0
    for start, end, lines in sorted(edits):
        parts += (text[place:start], lines)
        place = end
    return "".join((*parts, text[place:]))


def _entry_at(root: yaml.Node | None, path: Sequence[str | int]) -> tuple[yaml.Node, yaml.Node] | None:
    """Return the key and the value at a path, of which all collections are in block style."""
    node = root
    for step in path[:-1]:
        if isinstance(step, int):
            if not isinstance(node, yaml.SequenceNode) or node.flow_style or step >= len(node.value):
                return None
            node = node.value[step]
        else:
            pairs = None if node is None else _pairs(node, step)
            if not pairs:
                return None
            node = pairs[0][1]
    pairs = None if node is None else _pairs(node, str(path[-1]))
    return pairs[0] if pairs else None


def _root(text: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        # A scalar is not a mapping either, so the result is None.
        return yaml.ScalarNode("", "")


def _pairs(root: yaml.Node, key: str) -> list[tuple[yaml.Node, yaml.Node]] | None:
    """Return the entry of ``key``, if there is one; None if the mapping cannot be changed line by line."""
    if not isinstance(root, yaml.MappingNode) or root.flow_style or not root.value:
        return None
    pairs = [(before, after) for before, after in root.value if before.value == key]
    return None if len(pairs) > 1 else pairs


def _replace(text: str, before: yaml.Node, after: yaml.Node, value: str) -> str | None:
    between = text[before.end_mark.index : after.start_mark.index]
    if not between.lstrip(" ").startswith(":"):
        return None
    rest = text[_end(after) :]
    first, broken, _ = between.partition("\n")
    if not broken:
        return text[: after.start_mark.index] + value + rest
    # The old value began on a line of its own: the new one follows the key, before its comment.
    comment = first[first.index(":") + 1 :].rstrip()
    return f"{text[: before.end_mark.index]}: {value}{comment}{rest}"


def _end(node: yaml.Node) -> int:
    """Return the end of a node's text; PyYAML's own mark is at the token after it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    end: int = node.end_mark.index
    return end


def _join(text: str, line: str) -> str:
    return f"{text}\n{line}" if text and not text.endswith("\n") else f"{text}{line}"


def _quote(key: str) -> str:
    return dump_yaml(key, fold=False).rstrip("\n")

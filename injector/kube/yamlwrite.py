"""YAML written as Go's sigs.k8s.io/yaml (v1.6.0) writes it.

go-yaml's emitter is a port of libyaml's, so libyaml writes here; what differs is chosen before: the style of each
string (go.yaml.in/yaml/v2 encode.go), the text of numbers and the order of keys (sorter.go). Text that Go itself cannot
write, or writes so that it reads back as another (control characters, line ends of Unicode), is written to read back.
"""

from __future__ import annotations

import io
import re
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, Final

import yaml
from yaml.cyaml import CEmitter  # type: ignore[attr-defined] # its stub names the dumpers alone

from injector.golang.strconv import format_g, go_float
from injector.kube.escaping import escape_controls, has_controls
from injector.kube.yamlblock import BlockWriter, NotPlainError
from injector.kube.yamlscalar import is_timestamp, resolve_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Emit = Callable[[yaml.Event], None]

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

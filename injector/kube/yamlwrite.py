"""YAML written as Go's sigs.k8s.io/yaml (v1.6.0) writes it.

Its emitter is a port of libyaml's, so libyaml writes here; what differs is chosen before: the style of each string (go-yaml v2
encode.go ``stringv``), the text of numbers and the order of keys (sorter.go).
"""

from __future__ import annotations

import io
import re
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, Final

import yaml

from injector.kube.gojson import go_float
from injector.kube.yamlread import is_timestamp, resolve_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

_BASE60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?", re.ASCII)
_NO_FOLD: Final = 2**31 - 1
_FOLD: Final = 80
_IMPLICIT: Final = (True, True)


def dump_yaml(value: Any, *, fold: bool = False) -> str:
    """Return JSON data as YAML: sorted keys, no folded lines; ``fold`` wraps at 80 columns as versions before 1.2 did."""
    stream = io.StringIO()
    emitter = yaml.cyaml.CEmitter(stream, width=_FOLD if fold else _NO_FOLD, allow_unicode=True)
    try:
        for event in _document(value):
            emitter.emit(event)
    finally:
        emitter.dispose()
    return stream.getvalue().removesuffix("...\n")


def _document(value: Any) -> Iterator[yaml.Event]:
    yield yaml.StreamStartEvent()
    yield yaml.DocumentStartEvent(explicit=False)
    yield from _node(value)
    yield yaml.DocumentEndEvent(explicit=False)
    yield yaml.StreamEndEvent()


def _node(value: Any) -> Iterator[yaml.Event]:
    if isinstance(value, dict):
        yield yaml.MappingStartEvent(anchor=None, tag=None, implicit=True, flow_style=not value)
        for key in sorted(value, key=_KEY):
            yield _scalar(str(key))
            yield from _node(value[key])
        yield yaml.MappingEndEvent()
    elif isinstance(value, list):
        yield yaml.SequenceStartEvent(anchor=None, tag=None, implicit=True, flow_style=not value)
        for item in value:
            yield from _node(item)
        yield yaml.SequenceEndEvent()
    else:
        yield _scalar(value)


def _scalar(value: Any) -> yaml.Event:
    text, style = _text_and_style(value)
    return yaml.ScalarEvent(anchor=None, tag=None, implicit=_IMPLICIT, value=text, style=style)


def _text_and_style(value: Any) -> tuple[str, str | None]:
    if isinstance(value, str):
        return value, _style(value)
    if value is None:
        return "null", None
    if isinstance(value, bool):
        return "true" if value else "false", None
    if isinstance(value, float):
        return _float_text(value), None
    return str(int(value)), None


def _float_text(value: float) -> str:
    # A float goes through JSON's text, which go-yaml reads back as an integer where it has neither point nor exponent.
    text = go_float(value)
    resolved = resolve_plain(text)
    return text if isinstance(resolved, int) else _shortest(resolved)


def _shortest(value: float) -> str:
    """Return a float as strconv.FormatFloat(v, 'g', -1, 64) prints it."""
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        digits = mantissa.replace("-", "").replace(".", "").strip("0")
        power = len(mantissa.lstrip("-").partition(".")[0]) - 1
        if mantissa.endswith(".0") and power < 21:  # noqa: PLR2004 - Go's threshold of the shortest form
            return mantissa[:-2]
        return mantissa if digits else "0"
    power = int(exponent)
    if -4 <= power < 21:  # noqa: PLR2004 - the same
        return f"{value:f}".rstrip("0").rstrip(".") if power >= 0 else mantissa
    return f"{mantissa.removesuffix('.0')}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _style(text: str) -> str | None:
    if "\n" in text:
        return "|"
    plain = isinstance(resolve_plain(text), str) and not is_timestamp(text) and text != "<<" and not _BASE60.fullmatch(text)
    return None if plain else '"'


def _compare(left: str, right: str) -> int:
    """Order keys as go-yaml does: letters after other characters, numbers inside by their value."""
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
    # A zero that continues a number counts as a digit of it, not as a leading zero.
    while index > 0 and text[index - 1].isdigit():
        index -= 1
        if text[index] != "0":
            return 1
    return 0


def _number_at(text: str, index: int, number: int) -> tuple[int, int]:
    while index < len(text) and text[index].isdecimal():
        number = number * 10 + ord(text[index]) - ord("0")
        index += 1
    return number, index


_KEY: Final = cmp_to_key(_compare)

"""Changes to entries of YAML that keep the comments, order and layout of all others.

PyYAML only finds positions. If an entry has no simple position (a mapping in braces, ``? key``, a repeated key), the result is None. The
caller compares the meaning of the new text with the intended one, and writes the whole text again if they differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import indent
from typing import Any

import yaml

from injector.kube.yaml.write import dump_yaml


def with_entry(text: str, key: str, value: str) -> str | None:
    """Return ``text`` with ``key: value``, in place of the key's entry or at the end; None if there is no simple position.

    ``value`` is YAML of one line: a plain or quoted scalar, or a collection in braces or brackets.
    """
    root = _root(text)
    if root is None:
        return _joined(text, f"{_quoted(key)}: {value}\n")
    pairs = _pairs(root, key)
    if pairs is None:
        return None
    if not pairs:
        indent = " " * root.value[0][0].start_mark.column
        return _joined(text, f"{indent}{_quoted(key)}: {value}\n")
    return _replaced(text, *pairs[0], value)


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


def _replaced(text: str, before: yaml.Node, after: yaml.Node, value: str) -> str | None:
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


def _joined(text: str, line: str) -> str:
    return f"{text}\n{line}" if text and not text.endswith("\n") else f"{text}{line}"


def _quoted(key: str) -> str:
    return dump_yaml(key, fold=False).rstrip("\n")

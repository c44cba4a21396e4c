"""Snake, camel and kebab case (huandu/xstrings v1.5, which sprig calls)."""

from __future__ import annotations

from typing import Final

_CONNECTORS: Final = frozenset("-_ ")


def to_snake_case(text: str) -> str:
    """Return ``first_name`` for ``FirstName``."""
    return _joined(text, "_")


def to_kebab_case(text: str) -> str:
    """Return ``first-name`` for ``FirstName``."""
    return _joined(text, "-")


def _joined(text: str, connector: str) -> str:
    out: list[str] = []
    index = 0
    while index < len(text):
        word, index, is_connector = _next_word(text, index)
        if is_connector:
            out.append(connector * len(word))
            continue
        if out and out[-1][-1:] != connector and word:
            out.append(connector)
        out.append(word.lower())
    return "".join(out)


def _next_word(text: str, index: int) -> tuple[str, int, bool]:
    """Return the word at ``index``: a run of connectors, of capitals with the small letters after, of digits, or of others."""
    start = index
    if _is_connector(text[index]):
        while index < len(text) and _is_connector(text[index]):
            index += 1
        return text[start:index], index, True
    if text[index].isupper():
        while index < len(text) and text[index].isupper():
            index += 1
        if index < len(text) and text[index].isalpha() and index - start > 1:
            index -= 1  # the last capital begins the next word
            return text[start:index], index, False
    elif text[index].isdigit():
        while index < len(text) and text[index].isdigit():
            index += 1
        return text[start:index], index, False
    while index < len(text) and not (text[index].isupper() or text[index].isdigit() or _is_connector(text[index])):
        index += 1
    if index == start:
        index += 1
    return text[start:index], index, False


def _is_connector(char: str) -> bool:
    return char in _CONNECTORS or char.isspace()


def to_pascal_case(text: str) -> str:
    """Return ``HttpServer`` for ``http_server``; sprig calls it camelcase."""
    out: list[str] = []
    upper_next, index = True, 0
    while index < len(text) and _is_connector(text[index]):
        out.append(text[index])
        index += 1
    pending = ""
    for char in text[index:]:
        if _is_connector(char):
            pending += char
            upper_next = True
            continue
        if pending:
            out.append(pending[1:] if not char.isalpha() and not char.isdigit() else "")
            pending = ""
        out.append(char.upper() if upper_next else char.lower() if out and out[-1].isupper() and char.isupper() else char)
        upper_next = False
    return "".join(out) + pending

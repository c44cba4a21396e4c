"""The canonical form of the actions of a template: one space inside the delimiters, around ``|`` and ``:=``, and after a comma.

Only spaces inside actions change, never text or trim markers, so the output stays the same. A line break inside an action stays, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from injector.gotemplate import ParseError
from injector.gotemplate.lexer import Kind, tokens

_JINJA_TOKEN: Final = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<space>\s+)|(?P<word>\w+(?:\.\d+)?)"""
    r"""|(?P<mark>//|\*\*|==|!=|>=|<=|[|,()\[\]{}]|.)""",
    re.DOTALL,
)
_JINJA_OPEN: Final = re.compile(r"\{([{%#])([-+]?)")
_TRIMS: Final = re.compile(r"-(?=[ \t\r\n])")
_RAW: Final = re.compile(r"\{%[-+]?\s*raw\s*[-+]?%\}.*?\{%[-+]?\s*endraw\s*[-+]?%\}", re.DOTALL)
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")


@dataclass(frozen=True, slots=True)
class TemplateAction:
    """An action of a template: its opening and closing delimiter with their trim markers, its tokens, and where it is."""

    start: int
    end: int
    opening: str
    closing: str
    tokens: tuple[str, ...]

    def __str__(self) -> str:
        inside = _join_tokens(self.tokens)
        opening_space = "" if inside.startswith("\n") else " "
        right = "" if inside.endswith((" ", "\n")) else " "
        return (
            f"{self.opening}{opening_space}{inside}{right}{self.closing}"
            if inside
            else f"{self.opening} {self.closing}"
        )


def format_template(text: str, actions: Iterable[TemplateAction]) -> str:
    """Return a template with its actions in the canonical form."""
    parts, done = [], 0
    for action in actions:
        parts += [text[done : action.start], str(action)]
        done = action.end
    return "".join([*parts, text[done:]])


def _join_tokens(tokens_of_action: tuple[str, ...]) -> str:
    """Join tokens, each pair with the space that belongs between them."""
    parts: list[str] = []
    depth, before, space = 0, "", ""
    for part in tokens_of_action:
        if part.isspace():
            space += part
            continue
        # In Jinja2, ``=`` inside brackets names an argument.
        is_spaced = {"|", ":=", *([] if depth else ["="])}
        parts += [_gap(before, space, part, spaced=bool(is_spaced & {before, part})), part]
        depth += (part in _OPENING) - (part in _CLOSING)
        before, space = part, ""
    return "".join([*parts, _gap(before, space, "", spaced=False)])


def _gap(before: str, space: str, after: str, *, spaced: bool) -> str:
    """Return the space between two tokens, of which one can be missing at the end of the action."""
    if "\n" in space:
        return re.sub(r"[ \t\r]+(?=\n)", "", space)
    if not before or not after:
        return ""
    if spaced or before == ",":
        return " "
    return " " if space and before not in _OPENING and after not in {",", *_CLOSING} else ""


def go_actions(text: str, delimiters: tuple[str, str] = ("{{", "}}")) -> Iterator[TemplateAction]:
    """Yield the actions of a Go template, without its comments. Raises ParseError if the text is not a template."""
    left, right = delimiters
    raw = text.encode(errors="surrogatepass")
    start, begin, bytes_done, characters = 0, -1, 0, 0
    action_tokens: list[str] = []
    for token in tokens(text, left, right, words={"break", "continue"}):
        if token.kind is Kind.ERROR:
            raise ParseError("", token.line, token.text)
        # Positions are bytes; every character is counted once.
        characters += len(raw[bytes_done : token.pos].decode(errors="surrogatepass"))
        bytes_done = token.pos
        if token.kind is Kind.LEFT_DELIM:
            start, begin, action_tokens = characters, characters + len(left), []
        elif token.kind is Kind.RIGHT_DELIM:
            marker = _TRIMS.match(text, begin)
            closing = "-" if re.search(r"[ \t\r\n]-$", text[begin + (1 if marker else 0) : characters]) else ""
            yield TemplateAction(
                start, characters + len(right), left + ("-" if marker else ""), closing + right, tuple(action_tokens)
            )
            begin = -1
        elif begin >= 0:
            action_tokens.append(token.text)


def jinja_actions(text: str) -> Iterator[TemplateAction]:
    """Yield the actions of a Jinja2 template, ``{{ }}`` and ``{% %}``; comments and raw text are not among them."""
    at = 0
    while (opening := _JINJA_OPEN.search(text, at)) is not None:
        raw = _RAW.match(text, opening.start())
        if raw is not None or opening[1] == "#":
            at = raw.end() if raw is not None else text.find("#}", opening.end()) + 2
            if at < opening.end():
                return
            continue
        action_tokens, end = _jinja_tokens(text, opening.end(), "}}" if opening[1] == "{" else "%}")
        if end < 0:
            return
        marker = action_tokens.pop() if action_tokens and action_tokens[-1] in {"-", "+"} else ""
        closing = marker + ("}}" if opening[1] == "{" else "%}")
        yield TemplateAction(opening.start(), end, opening[0], closing, tuple(action_tokens))
        at = end


def _jinja_tokens(text: str, at: int, closing: str) -> tuple[list[str], int]:
    """Return the tokens up to a closing delimiter, and where it ends; -1 if there is none."""
    action_tokens: list[str] = []
    depth = 0
    while at < len(text):
        if not depth and text.startswith(closing, at):
            return action_tokens, at + len(closing)
        token = _JINJA_TOKEN.match(text, at)
        if token is None:
            return action_tokens, -1
        if token["mark"] in _OPENING:
            depth += 1
        elif token["mark"] in _CLOSING:
            depth = max(depth - 1, 0)
        action_tokens.append(token[0])
        at = token.end()
    return action_tokens, -1


def format_go(text: str, delimiters: tuple[str, str] = ("{{", "}}")) -> str:
    """Return a Go template with its actions in the canonical form. Raises ParseError if the text is not a template."""
    return format_template(text, go_actions(text, delimiters))


def format_jinja(text: str) -> str:
    """Return a Jinja2 template with its actions in the canonical form."""
    return format_template(text, jinja_actions(text))

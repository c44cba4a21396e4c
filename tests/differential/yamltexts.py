"""YAML texts: trees in any style, with scalars that a reader can take for something else, whole or a little broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cases import read_cases
from tests.differential.dice import Dice
from tests.differential.golang import Question

DEEPEST = 4
FEW = 4
_DATA = read_cases(Path(__file__).with_suffix(".yaml"))
PLAIN: list[str] = _DATA["plain"]
RAW: list[str] = _DATA["raw"]
TAGS: list[str] = _DATA["tags"]
ESCAPES: list[str] = _DATA["escapes"]
HEADERS = ("|", "|-", "|+", ">", ">-", ">+", "|2", ">1-", "|9", "|0", "|-2", "|x")
BREAKS = ("\n", "\n\n", "\n \n", "\n# c\n", " # c\n", "\n\n\n")


class Texts:
    """Makes YAML texts."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.anchors: list[str] = []

    def question(self) -> Question:
        """One text, broken or not."""
        self.anchors = []
        text = self.block(0, 0)
        if self.dice.happens(0.1):
            text = (
                self.dice.one_of(("---\n", "--- ", "%YAML 1.1\n---\n", "%YAML 1.2\n---\n", "# c\n", "\ufeff", "\n"))
                + text
            )
        if self.dice.happens(0.06):
            text += self.dice.one_of(("---\n", "...\n", "---\nb: 1\n", "...\n---\n", "# c", "\n\n", " "))
        return {"text": self.broken(text) if self.dice.happens(0.25) else text}

    def broken(self, text: str) -> str:
        """A text with a few characters more, or fewer."""
        for _ in range(1 + self.dice.below(FEW)):
            place = self.dice.below(len(text) + 1)
            end = place + (self.dice.below(FEW) if self.dice.happens(0.5) else 0)
            text = text[:place] + (self.dice.one_of(RAW) if self.dice.happens(0.7) else "") + text[end:]
        return text

    def block(self, depth: int, indent: int) -> str:
        """A value in block style, to stand on lines of its own."""
        if depth >= DEEPEST or self.dice.happens(0.1):
            return " " * indent + self.inline(depth, indent) + "\n"
        lines = [self.item(depth, indent) for _ in range(1 + self.dice.below(FEW))]
        if self.dice.happens(0.3):
            lines = [f"{' ' * indent}-{' ' * (1 + self.dice.below(2))}{self.inline(depth, indent)}\n" for _ in lines]
        elif self.dice.happens(0.2):
            lines = [f"{' ' * indent}- {self.block(depth + 1, indent + 2).lstrip(' ')}" for _ in lines]
        return "".join(lines)

    def item(self, depth: int, indent: int) -> str:
        """A line, or lines, of a mapping."""
        key, space = self.key(), " " * indent
        if self.dice.happens(0.02):
            return f"{space}? {key}\n{space}: {self.inline(depth, indent)}\n"
        if self.dice.happens(0.04) and self.anchors:
            return f"{space}<<: *{self.dice.one_of(self.anchors)}\n"
        if self.dice.happens(0.35) and depth < DEEPEST:
            inner = indent + self.dice.one_of((2, 2, 2, 4, 1, 0))
            return f"{space}{key}:{self.properties()}{self.dice.one_of(BREAKS)}{self.block(depth + 1, inner)}"
        if self.dice.happens(0.12):
            return f"{space}{key}: {self.literal(indent)}"
        end = "\n" if self.dice.happens(0.8) else self.dice.one_of(BREAKS)
        return f"{space}{key}:{self.properties()} {self.inline(depth, indent)}{end}"

    def key(self) -> str:
        """A key: a plain name mostly, else any scalar."""
        if self.dice.happens(0.7):
            return f"k{self.dice.below(30)}"
        return self.quoted() if self.dice.happens(0.3) else self.dice.one_of(PLAIN)

    def properties(self) -> str:
        """An anchor or a tag, or neither."""
        if self.dice.happens(0.06):
            self.anchors.append(self.dice.one_of(("a", "b", "c1")))
            return f" &{self.anchors[-1]}"
        return f" {self.dice.one_of(TAGS)}" if self.dice.happens(0.04) else ""

    def inline(self, depth: int, indent: int) -> str:
        """A value on a line: a scalar, an alias, or a collection in flow style."""
        if self.dice.happens(0.04) and self.anchors:
            return f"*{self.dice.one_of(self.anchors)}"
        if self.dice.happens(0.15) and depth < DEEPEST:
            return self.flow(depth + 1, indent)
        if self.dice.happens(0.25):
            return self.quoted()
        if self.dice.happens(0.04):
            return f"{self.dice.one_of(PLAIN)}\n{' ' * (indent + 1 + self.dice.below(2))}{self.dice.one_of(PLAIN)}"
        return self.dice.one_of(PLAIN)

    def flow(self, depth: int, indent: int) -> str:
        """A list or a mapping between brackets."""
        comma = self.dice.one_of((", ", ",", " , ", f",\n{' ' * (indent + 2)}"))
        count = self.dice.below(FEW)
        if self.dice.happens(0.5):
            return f"[{comma.join(self.inline(depth, indent) for _ in range(count))}{',' if self.dice.happens(0.05) else ''}]"
        pairs = [
            f"{self.key()}{self.dice.one_of((': ', ': ', ': ', ':', ''))}{self.inline(depth, indent)}"
            for _ in range(count)
        ]
        return f"{{{comma.join(pairs)}}}"

    def quoted(self) -> str:
        """A scalar in quotes."""
        text = self.dice.one_of(PLAIN)
        if self.dice.happens(0.5):
            return "'" + text.replace("'", "''") + ("\n\n  b" if self.dice.happens(0.03) else "") + "'"
        inner: str = (
            json.dumps(text)[1:-1] if self.dice.happens(0.3) else text.replace("\\", "\\\\").replace('"', '\\"')
        )
        return '"' + inner + (self.dice.one_of(ESCAPES) if self.dice.happens(0.3) else "") + '"'

    def literal(self, indent: int) -> str:
        """A block scalar."""
        space = " " * (indent + 1 + self.dice.below(3))
        lines: list[Any] = [
            self.dice.one_of(("", " ", "a", "a: b", " c", "# d", "\tt", "---", "é")) for _ in range(self.dice.below(5))
        ]
        head = self.dice.one_of(HEADERS) if self.dice.happens(0.4) else self.dice.one_of(HEADERS[:6])
        return f"{head}{' # c' if self.dice.happens(0.1) else ''}\n" + "".join(f"{space}{line}\n" for line in lines)

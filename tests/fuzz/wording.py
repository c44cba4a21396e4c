"""Go templates by their grammar, so that most of an input that was made up parses."""

from __future__ import annotations

from dataclasses import dataclass

from tests.fuzz.draws import Draws

DEEPEST = 4
MOST_ACTIONS = 6
BLOCKS = (
    "{{{{if {0}}}}}{1}{{{{end}}}}",
    "{{{{if {0}}}}}{1}{{{{else if {0}}}}}{1}{{{{else}}}}x{{{{end}}}}",
    "{{{{with {0}}}}}{1}{{{{else with {0}}}}}{1}{{{{end}}}}",
    "{{{{with $y := {0}}}}}{1}{{{{$y}}}}{{{{end}}}}",
    "{{{{range {0}}}}}{1}{{{{else}}}}e{{{{end}}}}",
    "{{{{range $i, $e := {0}}}}}{{{{$i}}}}{{{{$e}}}}{1}{{{{end}}}}",
    "{{{{range $x = {0}}}}}{1}{{{{break}}}}{{{{end}}}}",
    "{{{{range {0}}}}}{1}{{{{continue}}}}y{{{{end}}}}",
    '{{{{block "b" {0}}}}}{1}{{{{end}}}}',
    '{{{{define "d"}}}}{1}{{{{end}}}}',
    '{{{{template "d" {0}}}}}',
    '{{{{template "d"}}}}',
)


@dataclass(frozen=True)
class Wording:
    """Makes templates of what may be named and called; ``formats`` are flags and verbs that formats are made of."""

    draws: Draws
    operands: tuple[str, ...]
    calls: tuple[str, ...]
    formats: tuple[tuple[str, ...], tuple[str, ...]] = (("",), ("%v",))

    def template(self) -> str:
        """A template, as long as the input lasts."""
        parts = ["{{$x := 1}}"]
        while not self.draws.is_used_up() and len(parts) < MOST_ACTIONS:
            parts.append(self.action(0))
        return "".join(parts)

    def action(self, depth: int) -> str:
        """Text, an action, or a block with actions in it."""
        kind = self.draws.randrange(4 if depth < DEEPEST else 2)
        if kind == 0:
            return f"{{{{{self.pipeline(depth)}}}}}"
        if kind == 1:
            return self.draws.choice(("x ", "{{- $x = " + self.pipeline(depth) + " -}}", "{{/* c */}}", "{{$x}}"))
        inner = "".join(self.action(depth + 1) for _ in range(self.draws.randrange(3)))
        return self.draws.choice(BLOCKS).format(self.pipeline(depth), inner)

    def pipeline(self, depth: int) -> str:
        """A call, or an operand, and perhaps what takes it."""
        stages = [self.call(depth) if self.draws.getrandbits(1) else self.operand(depth)]
        stages += [self.draws.choice(self.calls) for _ in range(self.draws.randrange(3))]
        return " | ".join(stages)

    def call(self, depth: int) -> str:
        """A function with up to three arguments."""
        arguments = (self.operand(depth) for _ in range(self.draws.randrange(4)))
        return " ".join((self.draws.choice(self.calls), *arguments))

    def operand(self, depth: int) -> str:
        """What is named, a format, or a pipeline in parentheses."""
        kind = self.draws.randrange(8)
        if kind == 1 and depth < DEEPEST:
            return f"({self.pipeline(depth + 1)})"
        if kind == 2:
            return f'"{self.format()}"'
        if kind == 3:
            return self.draws.choice(("$x", "$", "$x.Name", str(self.draws.getrandbits(16))))
        return self.draws.choice(self.operands)

    def format(self) -> str:
        """A format of printf."""
        flags, verbs = self.formats
        pieces = (f"%{self.draws.choice(flags)}{self.draws.choice(verbs)[1:]} " for _ in range(self.draws.randrange(3)))
        return "".join(pieces)

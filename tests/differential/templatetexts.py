"""Templates that call sprig's functions, toYaml and printf on data of every kind, with arguments that fit and that do not."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from tests.cases import read_cases
from tests.differential.dice import Dice
from tests.differential.golang import Question

SIGNATURES = Path(__file__).parents[1] / "gotemplate" / "signatures.json"
UNSETTLED = re.compile(
    r"^(ago|bcrypt|buildCustomCert|date.*|decryptAES|duration.*|encryptAES|env|expandenv|gen.*|getHostByName|htmlDate.*|htpasswd|"
    r"mustDateModify|must_date_modify|mustToDate|now|rand.*|shuffle|toDate|unixEpoch|uuidv4|derivePassword|fail|hello|keys|values|set|(m|mustM)erge.*)$"
)
"""What depends on the clock, the machine or chance, takes long, walks a map in Go's random order, or can put a dict into itself, on
which Go dies. The recorded cases of tests/gotemplate have some of each."""
_DATA = read_cases(Path(__file__).with_suffix(".yaml"))
OFTEN: list[str] = _DATA["often"]
DATA: dict[str, Any] = _DATA["data"]
STRINGS: list[str] = _DATA["strings"]
PATTERNS: list[str] = _DATA["patterns"]
REPLACEMENTS = ("", "x", "$1", "${1}y", "$n", "${n}", "$$", "$", "\\1")
JSONS: list[str] = _DATA["jsons"]
NUMBERS = (0, 1, 2, 3, 7, 10, -1, -5, 80)
VERBS = "vTtbcdoOqxXUeEfFgGs%wz"
"""All but ``%p``, which prints an address."""
FLAGS = ("", "", "", "+", "-", "#", " ", "0", "+-", "#+", "-0", "+ ", "# 0")
WIDTHS = ("", "", "", "1", "5", "12", "*", "[1]*", "[2]*", "0")
PRECISIONS = ("", "", "", ".0", ".3", ".", ".*", ".12", ".[1]*")


@cache
def signatures() -> dict[str, list[str]]:
    """The parameters of every function that answers the same to the same."""
    data = {"toYaml": "func(interface {}) string", **json.loads(SIGNATURES.read_text("utf-8"))}
    return {
        name: [part for part in re.split(r", (?![^()]*\))", text[5 : text.index(")")]) if part]
        for name, text in sorted(data.items())
        if not UNSETTLED.match(name)
    }


class Templates:
    """Makes templates of sprig's functions."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice

    def question(self) -> Question:
        """One template."""
        text = self.merge() if self.dice.happens(0.03) else self.pipeline(0)
        return {"text": f"{{{{ {text} }}}}", "data": DATA}

    def merge(self) -> str:
        """A merge of dicts of which none holds another."""
        dicts = (".m", ".odd", '(dict "a" 1 "k" "v")', '(dict "deep" (dict "v" 1 "w" "") "z" nil)', "dict")
        name = self.dice.one_of(("merge", "mergeOverwrite", "mustMerge", "mustMergeOverwrite"))
        return f"{name} {' '.join(self.dice.one_of(dicts) for _ in range(1 + self.dice.below(3)))} | toJson"

    def pipeline(self, depth: int) -> str:
        """A call, its value given to further ones now and then."""
        name = self.name()
        parts = [" ".join([name, *self.arguments(name, depth)])]
        while self.dice.happens(0.35):
            name = self.name()
            parts.append(" ".join([name, *self.arguments(name, depth)[:-1]]))
        return " | ".join(parts)

    def name(self) -> str:
        """A function, those that templates use much rather than others."""
        return self.dice.one_of(OFTEN if self.dice.happens(0.5) else list(signatures()))

    def arguments(self, name: str, depth: int) -> list[str]:
        """Arguments of a function: of its types mostly, sometimes of others or too many."""
        results: list[str] = []
        for index, kind in enumerate(signatures()[name]):
            if kind.startswith("..."):
                results += [self.argument(kind[3:], depth) for _ in range(self.dice.below(4))]
            elif name.lower().removeprefix("must").startswith("regex") and index == 0:
                results.append(json.dumps(self.dice.one_of(PATTERNS)))
            elif name.endswith("romJson"):
                results.append(json.dumps(self.dice.one_of(JSONS)))
            elif "regexReplace" in name and index == 2:
                results.append(json.dumps(self.dice.one_of(REPLACEMENTS)))
            else:
                results.append(self.argument(kind, depth))
        if self.dice.happens(0.02):
            results = results[:-1] if self.dice.happens(0.5) else [*results, self.argument("string", depth)]
        return results

    def argument(self, kind: str, depth: int) -> str:
        """An argument of a Go type, seldom of another."""
        if self.dice.happens(0.05):
            kind = "interface {}"
        if depth < 2 and self.dice.happens(0.12):
            return f"({self.pipeline(depth + 1)})"
        if kind in ("int", "int64", "uint32"):
            return str(self.dice.one_of(NUMBERS))
        if kind in ("float64", "bool"):
            return self.dice.one_of(("1.5", "0.0", "-2e3", ".f") if kind == "float64" else ("true", "false", ".t"))
        if kind == "string":
            return self.dice.one_of((".s", ".u", ".q", ".ml", ".m.a")) if self.dice.happens(0.3) else self.string()
        if kind.startswith("map["):
            return self.dice.one_of(
                (".m", ".m.deep", ".odd", '(dict "a" 1 "k" "v")', "dict", "(dict)", "(last .mixed)")
            )
        if kind.startswith("[]"):
            return self.dice.one_of((".l", ".nums", '(list "a" 1)', "list"))
        if self.dice.happens(0.25):
            return self.string() if self.dice.happens(0.5) else str(self.dice.one_of(NUMBERS))
        return f".{self.dice.one_of([*DATA, 'missing'])}"

    def string(self) -> str:
        """A string as Go writes it; JSON's escapes are Go's."""
        return json.dumps(self.dice.one_of(STRINGS), ensure_ascii=False)


class Printfs(Templates):
    """Makes templates of printf: verbs, flags, widths and precisions on operands of every type."""

    def question(self) -> Question:
        """One template."""
        directives = [self.directive() for _ in range(1 + self.dice.below(3))]
        operands = [self.operand() for _ in range(self.dice.below(len(directives) + 2))]
        text = self.dice.one_of(("", " ", "|", "é", "%%", "%")).join(directives)
        return {"text": f"{{{{ printf {json.dumps(text, ensure_ascii=False)} {' '.join(operands)} }}}}", "data": DATA}

    def directive(self) -> str:
        """One directive of a format."""
        index = self.dice.one_of(("[1]", "[2]", "[9]", "[x]", "[")) if self.dice.happens(0.06) else ""
        return "".join(
            (
                "%",
                self.dice.one_of(FLAGS),
                self.dice.one_of(WIDTHS),
                self.dice.one_of(PRECISIONS),
                index,
                self.dice.one_of(VERBS),
            )
        )

    def operand(self) -> str:
        """An operand of a type that templates can have."""
        if self.dice.happens(0.15):
            return self.dice.one_of(
                ("(int64 7)", "(int .f)", "(list 1 .s nil)", '(dict "a" 1)', '(splitList "," .s)', "'x'", "1i", "nil")
            )
        if self.dice.happens(0.3):
            return self.dice.one_of(
                (*map(str, NUMBERS), "1.5", "1e6", "1e21", "0.1", "-0.0", "true", "false", "'é'", "0x1F")
            )
        return self.string() if self.dice.happens(0.4) else f".{self.dice.one_of(list(DATA))}"

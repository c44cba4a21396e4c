"""Go templates run on values of every kind, with the functions of ``world.go``, within a budget.

An answer is text within the budget's bytes, a ``ParseError`` or an ``ExecError`` (a ``BudgetError`` is one). A bug is any other
exception, more output than the budget has, and a run that does not end: the clock stands still, so steps have to end it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from injector.gotemplate import Budget, ExecError, ParseError, compile_template
from tests.fuzz.draws import DIGITS, LONG, Draws
from tests.fuzz.target import Target, recorded
from tests.fuzz.wording import Wording
from tests.gotemplate import world

OUTPUT = 20_000
BUDGET = Budget(steps=3_000, output=OUTPUT, depth=20, memory=1 << 20, clock=lambda: 0.0)
MISSING = ("default", "zero", "error", "invalid")
SETS = ("", "loops", "shadow")
VERBS = (
    *("%v", "%+v", "%#v", "%T", "%t", "%d", "%+d", "%x", "%X", "%o", "%O", "%b", "%c", "%q", "%U", "%#U", "%e", "%g"),
    *("%f", "%s", "%p"),
)
FLAGS = (
    *("", "6", "-6", "06", ".2", "8.3", "+", "#", " ", "*", "[1]", "[2]*[1]", "%", "+.1", DIGITS, f".{DIGITS}"),
    f"[{DIGITS}]",
)
OPERANDS = (
    *(".", "$", "1", "-2.5", "1i", "'a'", '"a"', "`b`", "nil", "true", "0x1F", "99999999999", DIGITS, f"1e{DIGITS}"),
    *(".user", ".user.Name", ".user.Tags", ".box.Any", ".m", ".l", ".mas", ".ints", ".i8", ".f32", ".c12", ".fn"),
    *(".nope", ".p.X", '(mkuser "x")', "(mkpoint 1 2)", '(fn "seq")', '(fn "add")', "nilany", "nilmap", "nilslice"),
    *("niluser", "(mkuint8 7)"),
)
CALLS = (
    *("print", "printf", "println", "len", "index", "slice", "not", "and", "or", "eq", "ne", "lt", "le", "gt", "ge"),
    *("call", "html", "js", "urlquery", "same", "kind", "many", "str", "num", "i8", "u64", "f32", "c128", "ints"),
    *("sep", "two", "anymap"),
)
WORDS = (
    *(f'"{verb}"' for verb in VERBS),
    *(word for word in OPERANDS if DIGITS not in word),
    *CALLS,
    LONG,
    "{{",
    "}}",
    "{{range ",
    "{{end}}",
    "{{with ",
    "{{if ",
    "{{else}}",
    "$x := ",
)


@cache
def values() -> tuple[Any, ...]:
    """What dot may be: first everything in one map, then each value alone."""
    raw = {**recorded("gotemplate/corpus/random.json")["values"], **recorded("gotemplate/corpus/typed.json")["values"]}
    return tuple(world.build(raw[name]) for name in _names())


@cache
def _names() -> tuple[str, ...]:
    typed = recorded("gotemplate/corpus/typed.json")["values"]
    others = recorded("gotemplate/corpus/random.json")["values"]
    return ("all", *(name for name in {**typed, **others} if name != "all"))


def run(data: bytes) -> None:
    """Try a template on a value."""
    draws = Draws(data)
    dot = values()[draws.getrandbits(16) % len(values())]
    missing, funcs, is_text = draws.choice(MISSING), world.functions(draws.choice(SETS)), draws.getrandbits(1)
    text = draws.whole_text() if is_text else Wording(draws, OPERANDS, CALLS, formats=(FLAGS, VERBS)).template()
    try:
        template = compile_template("t", text, funcs=funcs, missing_key=missing)
        output = template.execute(dot, budget=BUDGET)
    except (ParseError, ExecError):
        return
    assert len(output.encode("utf-8", "surrogateescape")) <= OUTPUT


def seeds() -> Iterator[bytes]:
    """Templates that Go has answered, on the values that it had."""
    for name in ("typed", "random"):
        for case in recorded(f"gotemplate/corpus/{name}.json")["cases"]:
            for value_name in [
                case.get("data", "all"),
                *(names[0] for names in (group["for"] for group in case.get("answers", []))),
            ]:
                place = _names().index(value_name) if name in _names() else 0
                head = bytes([MISSING.index(case.get("missingkey", "default")), SETS.index(case.get("funcs", "")), 1])
                yield place.to_bytes(2, "little") + head + case["template"].encode("utf-8", "surrogateescape")


TARGET = Target(
    run=run,
    modules=tuple(
        f"gotemplate/{name}.py" for name in ("budget", "runtime", "builtins", "fmt", "values", "errors", "codegen")
    ),
    seeds=seeds,
    words=WORDS,
)

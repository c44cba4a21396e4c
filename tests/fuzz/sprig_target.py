"""Functions of sprig and of Istio, called from templates with arguments of the kinds that they take, and of others.

An answer is text, a ``ParseError`` or an ``ExecError``. A bug is any other exception, and a call that does not end. Keys, certificates
and hashes of passwords are left out, since each takes longer than a thousand other calls: ``gen*``, ``bcrypt``, ``htpasswd``,
``derivePassword``; tests of their own look at them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

from injector.gotemplate import Budget, ExecError, Func, ParseError, compile_template
from injector.gotemplate.runtime import Signature, parse_signature
from injector.gotemplate.sprig import txt_func_map
from tests.differential.comparisons import COMPARISONS
from tests.fuzz.draws import DIGITS, LONG, Draws
from tests.fuzz.target import Target, recorded

BUDGET = Budget(steps=3_000, output=200_000, depth=20, memory=4 << 20, clock=lambda: 0.0)
SLOW = re.compile(r"\b(gen\w+|bcrypt|htpasswd|derivePassword)\b")
NUMBERS = (0, 1, -1, 2, 3, 7, 64, 255, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 1_000_000)
FLOATS = (0.0, 1.5, -2.5, 0.1, 1e21, 1e-7, 1e308, 123456789.125)
TEXTS = (
    *("", "a", "hello World", "héllo ☃", "a,b,,c", "1.2.3-rc.1+b", ">=1.2 <2 || ~3.1", "^1.x", "1.2 - 2.3.4"),
    *("2006-01-02", "1h30m", "-5s", "2024-02-29T01:02:03Z", "Mon Jan _2 15:04:05 MST 2006", "UTC", "Europe/Berlin"),
    *("http://u:p@h:80/a?b#c", '{"a":[1,{"b":null}]}', "[1,2.5,true]", '{"a', "(a)(b)?", "[a-z]+", "$1-${2}", "("),
    *("a|b*", "/a/../b//c.tar.gz", "./x", "SGVsbG8=", "!!", "JBSWY3DP", "0x1f", "077", "1e3", "true", " x y\n z\t"),
    *("<a href='x'>&\"", "fooBarBaz", "snake_case-kebab", "%d %s", "k", "m", "name", "16:key/1234567890", "sha"),
    *("\x00\udcff", "é" * 40, DIGITS, f"-{DIGITS}", f"1.{DIGITS}.2-{DIGITS}", f"0.{DIGITS}e{DIGITS}", f"{DIGITS}h"),
    *(
        f"0x{DIGITS}",
        f"0{'7' * 4301}",
        f"x{{{DIGITS}}}",
        f"[{DIGITS}]",
        f"${DIGITS}",
        f"1e{DIGITS}",
        '["\\ud800", 1e999]',
    ),
)

DATES = 300
"""Templates of dates that Go answers alike, to begin with."""
TIMES = ("now", '(toDate "2006-01-02" "2024-02-29")', '(now | date_modify "-1h")')


@cache
def functions() -> dict[str, Func]:
    """The functions: sprig's, by a clock that stands still, without the slow ones."""
    known = txt_func_map(clock=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), environ={"HOME": "x"})
    return {name: func for name, func in known.items() if not SLOW.fullmatch(name)}


@cache
def _data() -> str:
    return json.dumps(recorded("gotemplate/corpus/sprig.json")["data"])


def run(data: bytes) -> None:
    """Try a template of seeds' kind, or one call after another."""
    draws = Draws(data)
    # As Go decodes JSON, every number is a float64; what a template gets is its own.
    dot = json.loads(_data(), parse_int=float)
    text = draws.whole_text() if draws.getrandbits(1) else _calls(draws, dot)
    try:
        compile_template("t", text, funcs=functions()).execute(dot, budget=BUDGET)
    except (ParseError, ExecError):
        return


@cache
def _signatures() -> tuple[tuple[str, Signature], ...]:
    return tuple((name, parse_signature(func.signature)) for name, func in sorted(functions().items()))


def _calls(draws: Draws, dot: dict[str, Any]) -> str:
    return "".join(f"{{{{{call(draws, dot, 0)}}}}}" for _ in range(draws.randrange(1, 4)))


def call(draws: Draws, dot: dict[str, Any], depth: int) -> str:
    """A call: its arguments are put into dot, as ``a0``, ``a1``, or are calls themselves."""
    name, signature = draws.choice(_signatures())
    kinds = [*signature.params, *[signature.variadic] * (draws.randrange(4) if signature.variadic else 0)]
    words = [name]
    for kind in kinds:
        if depth < 3 and draws.randrange(6) == 5:
            words.append(f"({call(draws, dot, depth + 1)})")
            continue
        if kind == "time.Time":
            words.append(draws.choice(TIMES))
            continue
        place = f"a{len(dot)}"
        dot[place] = argument(draws, kind)
        words.append(f".{place}" if kind != "int" else f"({'int' if draws.randrange(8) else 'float64'} .{place})")
    return " ".join(words)


def argument(draws: Draws, kind: str) -> Any:
    """A value of a Go type, and now and then one of another."""
    if kind in ("interface {}", "") or draws.randrange(12) == 11:
        kind = draws.choice(("string", "int", "float64", "map[string]interface {}", "[]interface {}", "bool", "nil"))
    if kind == "string":
        if draws.getrandbits(1):
            return draws.randbytes(draws.randrange(24)).decode("utf-8", "surrogateescape")
        return draws.choice(TEXTS)
    if kind.startswith("[]"):
        return [argument(draws, kind[2:]) for _ in range(draws.randrange(4))]
    if kind.startswith("map["):
        return {draws.choice(TEXTS): argument(draws, "interface {}") for _ in range(draws.randrange(4))}
    if kind == "bool":
        return bool(draws.getrandbits(1))
    if kind == "float64":
        return draws.choice(FLOATS)
    return None if kind == "nil" else draws.choice(NUMBERS)


def seeds() -> Iterator[bytes]:
    """Templates that Go has answered."""
    for case in recorded("gotemplate/corpus/sprig.json")["cases"]:
        if not SLOW.search(case["template"]):
            yield b"\x01" + case["template"].encode("utf-8", "surrogateescape")
    for question in COMPARISONS["dates"].questions("seeds", DATES):
        yield b"\x01" + question["text"].encode()
    for number in range(256):
        yield bytes([0, 0, number, 0, 1, 2, 3, 4, 5, 6, 7, 8])


TARGET = Target(
    run=run,
    modules=tuple(
        f"gotemplate/sprig/{name}.py"
        for name in (
            *("collections", "dates", "defaults", "numeric"),
            *("regex", "semver", "strings", "url"),
        )
    ),
    seeds=seeds,
    words=(
        *sorted(txt_func_map()),
        *(text for text in TEXTS if len(text) < len(DIGITS)),
        LONG,
        "{{",
        "}}",
        " | ",
        ".l",
        ".m",
        ".s",
        ".n",
        "(",
        ")",
    ),
)

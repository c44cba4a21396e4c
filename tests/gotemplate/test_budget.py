"""The budget of a rendering: steps, time, memory and output."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from injector.gotemplate import BudgetError, Cost, ExecError, compile_template, costs
from injector.gotemplate.budget import Budget, Rendering, TimeLimit, check_size, reserve, spend, use_meter
from injector.gotemplate.builtins import BUILTINS
from injector.gotemplate.errors import FuncError, Spent
from injector.gotemplate.functions import meter
from injector.gotemplate.sprig import txt_func_map
from injector.gotemplate.values import Func, Pointer, Slice
from injector.istio.behaviours import NEWEST
from injector.istio.template import go_functions
from tests.cases import cases
from tests.property.hostile import in_itself, nested
from tests.sizes import sized


def test_a_size_beyond_the_limit_is_refused_by_name() -> None:
    check_size(2**20)
    with pytest.raises(FuncError, match="repeat too large: 1048577 > 1048576"):
        check_size(2**20 + 1, "repeat")


def test_the_time_is_over_when_there_was_more_work_than_allowed() -> None:
    times = itertools.count(10.0, 0.05)
    limit = TimeLimit(lambda: next(times), 0.151)

    assert [limit.is_expired() for _ in range(6)] == [False, False, False, False, True, True]


def test_a_machine_that_stood_still_spends_no_templates_time() -> None:
    times = iter([0.0, 0.01, 60.0, 60.01])
    limit = TimeLimit(lambda: next(times), 0.5)

    assert [limit.is_expired() for _ in range(3)] == [False, False, False]


def test_what_works_for_a_rendering_spends_its_budget() -> None:
    with use_meter(rendering(steps=2, memory=3)):
        spend(2)
        reserve(3)
        with pytest.raises(Spent, match="more than 3 bytes"):
            reserve(1)
        with pytest.raises(Spent, match="more than 2 steps"):
            spend(1)


def test_nothing_is_counted_outside_a_rendering() -> None:
    spend(10**9)
    reserve(10**9)


def rendering(**limits: int) -> Rendering:
    return Rendering(Budget(clock=lambda: 0.0, **limits))


def written(rendering: Rendering, *pieces: str) -> None:
    for piece in pieces:
        rendering.out.append(piece)
        rendering.tick(1)


def test_the_text_is_what_was_written() -> None:
    result = rendering()
    result.out += ["a", "é"]
    assert result.text() == "aé"


@pytest.mark.parametrize(
    ("limits", "within", "beyond", "reason"),
    [
        ({"steps": 3}, lambda it: (it.tick(2), it.tick(1)), lambda it: it.tick(1), "more than 3 steps"),
        ({"output": 4}, lambda it: written(it, "ab", "cd"), lambda it: written(it, "e"), "more than 4 bytes of output"),
        ({"output": 3}, lambda it: written(it, "éé"), Rendering.text, "more than 3 bytes of output"),
        ({"depth": 1}, Rendering.enter, Rendering.enter, "nested deeper than 1"),
        ({"memory": 2}, lambda it: it.reserve(2), lambda it: it.reserve(1), "more than 2 bytes of values"),
    ],
    ids=["steps", "each piece of output once", "bytes of the whole output", "depth", "memory"],
)
def test_a_rendering_stops_beyond_its_budget(
    limits: dict[str, int], within: Callable[[Rendering], None], beyond: Callable[[Rendering], None], reason: str
) -> None:
    result = rendering(**limits)
    within(result)
    with pytest.raises(Spent, match=reason):
        beyond(result)


def test_the_clock_is_looked_at_now_and_then() -> None:
    times = iter([0.0, 0.04])
    result = Rendering(Budget(seconds=0.03, clock=lambda: next(times)))
    result.tick(4096)
    result.tick(1)
    result.tick(4096)
    with pytest.raises(Spent, match=r"more than 0\.03 s"):
        result.tick(1)


def test_the_clock_is_not_looked_at_for_a_short_rendering() -> None:
    result = Rendering(Budget(clock=lambda: pytest.fail("the clock was read")))
    result.tick(4096)
    assert result.text() == ""


def test_the_time_is_that_of_the_threads_own_work() -> None:
    assert Budget().clock is time.thread_time


@pytest.mark.parametrize(("limit", "use"), [("steps", Rendering.spend), ("memory", Rendering.reserve)])
def test_a_rendering_inside_another_spends_that_ones_budget(limit: str, use: Callable[[Rendering, int], None]) -> None:
    inner = Rendering(Budget(clock=lambda: 0.0), rendering(**{limit: 5}))
    use(inner, 5)
    inner.check()
    use(inner, 1)
    with pytest.raises(Spent, match="more than 5 "):
        inner.check()


SIZE = 60_000
ONE_IN = sized(67, 29)
CALLS = sized(300, 800)
MINUTES = 600
ROOT = Path(__file__).parents[2]


def spent(func: Func, *args: Any, **limits: int) -> str:
    """Why a call of a function is refused, empty if it is not."""
    try:
        with use_meter(rendering(**limits)):
            meter(func).call(*args)
    except Spent as error:
        return str(error)
    return ""


def function(call: Callable[[Any], Any] = lambda _: None, cost: Cost = costs.ANY) -> Func:
    return Func("f", "func(interface {}) interface {}", call, cost=cost)


@pytest.mark.parametrize(
    "value",
    [
        "a" * 40_000,
        list(range(2_000)),
        dict.fromkeys(range(2_000), 1),
        Pointer("*[]interface {}", list(range(2_000))),
        nested(60, lambda inside: [inside, inside]),
        in_itself(),
    ],
    ids=["text", "list", "map", "pointer", "in many places", "inside itself"],
)
def test_a_call_pays_for_what_is_in_its_arguments(value: Any) -> None:
    assert spent(function(), value, steps=2_000) == "more than 2000 steps"
    assert spent(function(), 1, steps=0) == ""


def test_a_call_pays_for_the_memory_that_it_may_take() -> None:
    assert spent(function(cost=costs.WORDS), "aB" * 1_000, memory=90_000) == "more than 90000 bytes of values"


@pytest.mark.parametrize(
    ("result", "size"),
    [
        ("a" * 1_000, 1_064),
        ("é" * 1_000, 4_064),
        ([0] * 100, 6_400),
        (Slice("string", ["abcd"] * 100), 13_200),
        (dict.fromkeys(range(100)), 10_400),
        (1, 0),
        ("short", 0),
    ],
)
def test_what_a_function_returns_takes_memory(result: Any, size: int) -> None:
    make = function(lambda _: result)
    assert spent(make, None, memory=size) == ""
    if size:
        assert spent(make, None, memory=size - 1) == f"more than {size - 1} bytes of values"


def test_a_dictionary_that_a_function_returns_as_it_came_has_one_entry_more() -> None:
    entries = dict.fromkeys(range(10_000))
    assert spent(function(lambda argument: argument, costs.COPY), entries, memory=104) == ""


def test_what_a_function_finds_in_its_arguments_is_not_counted_again() -> None:
    assert spent(function(lambda argument: argument[0], costs.PASS), ["a" * 10**6], memory=0) == ""


@pytest.mark.parametrize(
    "error", [ValueError("v"), OverflowError("o"), AttributeError("a"), KeyError("k"), TypeError("t")]
)
def test_whatever_fails_in_a_function_is_an_error_of_that_function(error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(FuncError, match=type(error).__name__):
        meter(Func("fail", "func() string", fail)).call()


def test_each_function_has_a_cost_of_its_own_or_pays_as_one_that_copies_all() -> None:
    functions = {**BUILTINS, **go_functions(NEWEST, {})}
    ordinary = {name for name, func in functions.items() if func.cost == costs.ANY}

    assert ordinary == {
        *("deepCopy", "mustDeepCopy", "deepEqual", "has", "mustHas", "uniq", "mustUniq", "without", "mustWithout"),
        *("merge", "mergeOverwrite", "mustMerge", "mustMergeOverwrite", "omitNil"),
    }


def run(template: str, data: Any = None) -> str:
    return compile_template("bomb", template, funcs=txt_func_map()).execute(data, budget=Budget(clock=lambda: 0.0))


BOMBS = {
    "plain": "%s",
    "doubled": '{{ $x := "aaaaaaaa" }}\n{{ range 40 }}\n{{ $x = %s }}{{ end }}',
    "listed": "{{ $x := list }}\n{{ range 60 }}\n{{ $x = list $x $x }}{{ end }}\n%s",
}


@cases("kind", "action", "line")
def test_a_bomb_is_refused_where_it_stands(kind: str, action: str, line: int) -> None:
    with pytest.raises(
        ExecError, match=r"the template's budget is spent|too large|longer than a rendering may"
    ) as caught:
        run(BOMBS[kind].replace("%s", action))
    assert (caught.value.template, caught.value.line) == ("bomb", line)


@pytest.mark.parametrize(
    "template",
    [
        "{{ until 1000000 }}" * 2_000,
        "{{ derivePassword 1 `long` `p` `u` `s` }}" * 2_000,
        "{{ repeat 4096 `x` | repeat 256 }}" * 2_000,
    ],
)
def test_a_template_takes_no_longer_to_compile_than_it_is_long(template: str) -> None:
    compiled = compile_template("bomb", template, funcs=txt_func_map())
    with pytest.raises(BudgetError):
        compiled.execute(None, budget=Budget(clock=lambda: 0.0))


def test_no_function_takes_more_than_a_rendering_may_whatever_it_is_given() -> None:
    command = [sys.executable, "-m", "tests.property.hostile", str(SIZE), str(ONE_IN)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=MINUTES, check=False)
    *lines, last = result.stdout.splitlines() or [""]

    assert result.stderr == ""
    assert int(last) > CALLS
    # How long a call takes is for the benchmarks: a busy machine proves nothing.
    escapes = [json.loads(line) for line in lines]
    assert [escape for escape in escapes if escape["mebibytes"] > 32 or escape["answer"].startswith("escaped")] == []

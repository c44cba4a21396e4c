"""Turns: who is fuzzed next, and when it ends."""

from __future__ import annotations

from itertools import count
from threading import Barrier, Lock
from typing import TYPE_CHECKING

from tests.fuzz.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = ("a", "b", "c")
PATIENCE = 30.0


def _taken(turns: Turns, executions: int, crashes: Callable[[str], int] = lambda _: 0) -> str:
    order = []
    while name := turns.take():
        turns.end(name, executions, crashes(name))
        order.append(name)
    return "".join(order)


def test_each_has_one_turn_where_no_number_is_wanted() -> None:
    assert _taken(Turns(NAMES), executions=1_000) == "abc"


def test_each_has_a_turn_though_the_first_came_to_what_is_wanted() -> None:
    assert _taken(Turns(NAMES, wanted=1_000), executions=1_000) == "abc"


def test_turns_go_round_until_there_are_as_many_executions_as_are_wanted() -> None:
    turns = Turns(NAMES, wanted=75)

    assert _taken(turns, executions=10) == "abcabcab"
    assert turns.executions == {"a": 30, "b": 30, "c": 20}


def test_who_had_a_bug_has_no_further_turn_and_the_others_go_on() -> None:
    turns = Turns(NAMES, wanted=50)

    assert _taken(turns, executions=10, crashes=lambda name: int(name == "b")) == "abcac"
    assert turns.crashes.total() == 1


def test_there_is_an_end_where_all_had_bugs() -> None:
    assert _taken(Turns(NAMES, wanted=1_000), executions=1, crashes=lambda _: 1) == "abc"


def test_who_is_under_way_has_no_second_turn_beside() -> None:
    turns = Turns(("a", "b"), wanted=1_000)

    assert [turns.take(), turns.take(), turns.take()] == ["a", "b", None]


def test_several_are_fuzzed_at_once_but_none_twice() -> None:
    turns, both, lock, calls = Turns(NAMES, wanted=60), Barrier(2), Lock(), count()
    under_way: list[str] = []
    twice: list[str] = []

    def fuzz(name: str) -> tuple[int, int]:
        with lock:
            twice.extend(name for each in under_way if each == name)
            under_way.append(name)
        if next(calls) < both.parties:
            both.wait(PATIENCE)
        with lock:
            under_way.remove(name)
        return 10, 0

    turns.run(fuzz, jobs=2)

    assert turns.executions.total() >= 60
    assert not twice

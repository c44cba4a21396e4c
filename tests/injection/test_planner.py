from __future__ import annotations

from typing import Any

import pytest

from injector.injection.planner import LARGEST, REST, WAITING_BYTES, Planner, plans_of
from injector.injection.result import Injected, Planned, RequestFacts, Skipped
from injector.revisions.build import build
from tests.factories import make_container, make_pod
from tests.revisions.fakes import make_raw

FACTS = RequestFacts("shop")


class Clock:
    """A clock that moves when it is read, by what it is told."""

    def __init__(self, step: float) -> None:
        self.now = 0.0
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def test_the_third_pod_of_a_kind_is_injected_by_plan() -> None:
    revision, planner = build(make_raw("rev")), Planner()
    kinds = []
    for _ in range(3):
        kinds.append(type(planner.inject(revision, make_pod(), FACTS)))
        if planner.eager:
            planner.learn()

    assert kinds == [Injected, Injected, Planned]


def test_plans_belong_to_one_revision_as_it_was_built() -> None:
    first, second = build(make_raw("rev")), build(make_raw("rev"))

    assert plans_of(first) is plans_of(first)
    assert plans_of(first) is not plans_of(second)


def test_pods_that_are_left_alone_are_not_planned() -> None:
    revision, planner = build(make_raw("rev")), Planner()
    results = [planner.inject(revision, make_pod(hostNetwork=True), FACTS) for _ in range(3)]

    assert (all(isinstance(each, Skipped) for each in results), planner.eager) == (True, False)


def test_after_a_plan_it_rests_as_long_as_that_took() -> None:
    revision, clock = build(make_raw("rev")), Clock(0.0)
    planner = Planner(clock=clock)
    for name in ("a", "b"):
        for _ in range(2):
            planner.inject(revision, make_pod(annotations={"prometheus.io/port": name}), FACTS)
    clock.step = 1.0
    planner.learn()
    clock.step = 0.0

    assert not planner.eager
    clock.now += REST
    assert planner.eager


@pytest.mark.parametrize(("variables", "eager"), [(LARGEST, True), (LARGEST + 1, False)])
def test_no_plan_is_made_for_a_pod_that_takes_too_long(variables: int, *, eager: bool) -> None:
    env = [{"name": f"V{number}", "value": "x"} for number in range(variables)]
    revision, planner = build(make_raw("rev")), Planner()
    for _ in range(2):
        planner.inject(revision, make_pod(containers=[make_container(env=env)]), FACTS)

    assert planner.eager is eager


def large(name: str, size: int) -> dict[str, Any]:
    """A pod of so many bytes, of a kind of its own."""
    container = make_container(env=[{"name": "V", "value": "x" * size}])
    return make_pod(annotations={"prometheus.io/port": name}, containers=[container])


def lessons(sizes: dict[str, int]) -> int:
    """How many plans are made of pods of these sizes that came before there was time to make any."""
    revision, planner = build(make_raw("rev")), Planner(clock=Clock(0.0))
    for name, size in sizes.items():
        for _ in range(2):
            planner.inject(revision, large(name, size), FACTS)
    made = 0
    while planner.eager:
        planner.learn()
        made += 1
    assert len(plans_of(revision)) == made
    return made


@pytest.mark.parametrize(
    ("sizes", "made"),
    [
        ({"a": 1, "b": 1, "c": 1}, 3),
        ({"a": WAITING_BYTES // 2, "b": WAITING_BYTES // 2, "c": 1}, 2),
        ({"a": 1, "b": WAITING_BYTES, "c": 1}, 2),
    ],
    ids=["small", "the oldest gives way", "one alone is too large"],
)
def test_pods_wait_for_their_plans_up_to_a_size_together(sizes: dict[str, int], made: int) -> None:
    assert lessons(sizes) == made


def test_room_is_there_again_once_plans_are_made() -> None:
    revision, planner = build(make_raw("rev")), Planner(clock=Clock(0.0))
    for name in ("a", "b", "c"):
        for _ in range(2):
            planner.inject(revision, large(name, WAITING_BYTES * 2 // 3), FACTS)
        assert planner.eager
        planner.learn()

    assert len(plans_of(revision)) == 3

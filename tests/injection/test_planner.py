from __future__ import annotations

import pytest

from injector.injection.planner import LARGEST, REST, Planner, plans_of
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

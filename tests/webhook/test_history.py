from __future__ import annotations

import asyncio
import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from injector.metrics import Answered, Outcome
from injector.webhook.history import MAX_PAIRS, STEP, STEPS, WINDOWS, History

if TYPE_CHECKING:
    from injector.metrics import Metrics

START = 1000.0


@dataclass
class Clock:
    """Time that a test winds, and pauses that it ends."""

    now: float = START
    pauses: asyncio.Queue[float] = field(default_factory=asyncio.Queue)
    ended: asyncio.Queue[None] = field(default_factory=asyncio.Queue)

    def __call__(self) -> float:
        return self.now

    async def pause(self, seconds: float) -> None:
        self.pauses.put_nowait(seconds)
        await self.ended.get()


@pytest.fixture
def clock() -> Clock:
    """A clock that stands."""
    return Clock()


@pytest.fixture
def history(clock: Clock) -> History:
    """A history that never really waits."""
    return History(clock=clock, pause=clock.pause)


def pod(name: str, **meta: Any) -> dict[str, Any]:
    """A pod of the Deployment ``name``."""
    template = "5d4f8c7b9d"
    return {"metadata": {"generateName": f"{name}-{template}-", "labels": {"pod-template-hash": template}, **meta}}


def samples(history: History, clock: Clock, metrics: Metrics, times: int = 1) -> None:
    """Let so many samples be taken in time."""
    for _ in range(times):
        clock.now += STEP
        history.sample(metrics)


def steps_of(history: History, tag: str, window: str = "10m") -> list[dict[str, Any]]:
    """What is shown of a tag."""
    found: list[dict[str, Any]] = next(
        (each["steps"] for each in history.shown(window)["tags"] if each["name"] == tag), []
    )
    return found


def test_a_step_has_the_workloads_of_each_revision_and_what_became_of_them(
    history: History, clock: Clock, metrics: Metrics
) -> None:
    for name in ("web", "web", "api", "db"):
        history.seen("prod", "1-24", "shop", pod(name))
    history.seen("prod", "1-30", "shop", pod("cart"))
    metrics.answered(Answered(Outcome.SUCCESS, {"total": 0.001}, "", "1-24", "prod"))
    metrics.answered(Answered(Outcome.FAILURE, {"total": 0.001}, "template", "1-30", "prod"))
    metrics.shadowed("prod", "1-30", "different", ["image"])
    metrics.shadowed("prod", "1-30", "same", [])

    samples(history, clock, metrics)

    assert steps_of(history, "prod") == [
        {
            "end": START + STEP,
            "revisions": {
                "1-24": {"workloads": 3, "requests": 1, "failures": 0},
                "1-30": {"workloads": 1, "requests": 1, "failures": 1},
            },
            "shadowDifferences": 1,
        }
    ]


def test_a_step_counts_only_what_came_in_it(history: History, clock: Clock, metrics: Metrics) -> None:
    metrics.answered(Answered(Outcome.FAILURE, {"total": 0.001}, "template", "1-24", "prod"))
    history.seen("prod", "1-24", "shop", pod("web"))
    samples(history, clock, metrics)
    metrics.answered(Answered(Outcome.SUCCESS, {"total": 0.001}, "", "1-24", "prod"))
    samples(history, clock, metrics)
    samples(history, clock, metrics)

    assert [(step["end"], step["revisions"]["1-24"]) for step in steps_of(history, "prod")] == [
        (START + STEP, {"workloads": 1, "requests": 1, "failures": 1}),
        (START + 2 * STEP, {"workloads": 0, "requests": 1, "failures": 0}),
    ]
    assert len(history.shown("10m")["ends"]) == 3


def test_a_longer_step_counts_a_workload_once(history: History, clock: Clock, metrics: Metrics) -> None:
    for _ in range(WINDOWS["2h"]):
        history.seen("prod", "1-24", "shop", pod("web"))
        metrics.answered(Answered(Outcome.SUCCESS, {"total": 0.001}, "", "1-24", "prod"))
        samples(history, clock, metrics)

    assert [step["revisions"]["1-24"] for step in steps_of(history, "prod", "2h")] == [
        {"workloads": 1, "requests": WINDOWS["2h"], "failures": 0}
    ]
    assert len(steps_of(history, "prod", "10m")) == WINDOWS["2h"]


def test_a_step_that_has_not_ended_is_shown_as_it_stands(history: History, clock: Clock, metrics: Metrics) -> None:
    samples(history, clock, metrics, WINDOWS["2h"])
    history.seen("prod", "1-24", "shop", pod("web"))
    samples(history, clock, metrics)

    shown = history.shown("2h")

    assert shown["ends"] == [START + WINDOWS["2h"] * STEP, START + (WINDOWS["2h"] + 1) * STEP]
    assert [step["end"] for step in steps_of(history, "prod", "2h")] == shown["ends"][1:]


def test_differences_that_are_found_after_the_last_request_have_a_step_too(
    history: History, clock: Clock, metrics: Metrics
) -> None:
    metrics.shadowed("prod", "1-30", "different", ["image"])
    samples(history, clock, metrics, 2)

    assert steps_of(history, "prod") == [{"end": START + STEP, "revisions": {}, "shadowDifferences": 1}]


def test_requests_without_a_tag_have_a_history_too(history: History, clock: Clock, metrics: Metrics) -> None:
    history.seen("", "1-24", "shop", pod("web"))
    samples(history, clock, metrics)

    assert [each["name"] for each in history.shown("10m")["tags"]] == [""]


@pytest.mark.parametrize(
    ("one", "other", "workloads"),
    [
        (pod("web"), pod("web"), 1),
        (pod("web"), {"metadata": {"generateName": "web-7c9-", "labels": {"pod-template-hash": "7c9"}}}, 1),
        (pod("web"), {"metadata": {"generateName": "web-7c9-", "labels": {"rollouts-pod-template-hash": "7c9"}}}, 1),
        (pod("web"), pod("api"), 2),
        (
            {"metadata": {"name": "db-0", "generateName": "db-"}},
            {"metadata": {"name": "db-1", "generateName": "db-"}},
            1,
        ),
        ({"metadata": {"name": "one"}}, {"metadata": {"name": "two"}}, 2),
    ],
)
def test_pods_of_one_workload_count_once(
    history: History, clock: Clock, metrics: Metrics, one: dict[str, Any], other: dict[str, Any], workloads: int
) -> None:
    history.seen("prod", "1-24", "shop", one)
    history.seen("prod", "1-24", "shop", other)
    samples(history, clock, metrics)

    assert steps_of(history, "prod")[0]["revisions"]["1-24"]["workloads"] == workloads


def test_the_same_name_in_two_namespaces_is_two_workloads(history: History, clock: Clock, metrics: Metrics) -> None:
    history.seen("prod", "1-24", "shop", pod("web"))
    history.seen("prod", "1-24", "bank", pod("web"))
    samples(history, clock, metrics)

    assert steps_of(history, "prod")[0]["revisions"]["1-24"]["workloads"] == 2


@pytest.mark.parametrize(
    "hostile",
    [
        {},
        {"metadata": None},
        {"metadata": [1]},
        {"metadata": {"generateName": {"a": []}}},
        {"metadata": {"generateName": "web-", "labels": ["x"]}},
        {"metadata": {"name": "web", "labels": {"pod-template-hash": {"a": 1}}}},
        {"metadata": {"name": "\ud800"}},
    ],
)
def test_no_pod_breaks_it(history: History, clock: Clock, metrics: Metrics, hostile: dict[str, Any]) -> None:
    history.seen("prod", "1-24", "shop", hostile)
    samples(history, clock, metrics)

    assert steps_of(history, "prod")[0]["revisions"]["1-24"]["workloads"] == 1


def held(history: History) -> int:
    """How many bytes a history comes to."""
    return len(pickle.dumps((history._now, history._windows)))


@pytest.mark.parametrize("load", [10, 10_000])
def test_what_it_holds_does_not_grow_with_the_cluster(metrics: Metrics, load: int) -> None:
    clock = Clock()
    history = History(clock=clock)
    for number in range(load):
        history.seen("prod", "1-24", f"ns-{number % 100}", pod(f"web-{number}"))
        metrics.answered(Answered(Outcome.SUCCESS, {"total": 0.001}, "", "1-24", "prod"))
    seen = held(history)
    samples(history, clock, metrics)

    (step,) = steps_of(history, "prod")
    assert step["revisions"]["1-24"]["requests"] == load
    # The sketches, and the few bytes that a larger number takes.
    assert 1024 < seen < 1024 + 1000
    assert held(history) < 1024 + 2000


def test_what_it_holds_does_not_grow_with_time(history: History, clock: Clock, metrics: Metrics) -> None:
    def passes(steps: int) -> int:
        for _ in range(steps * WINDOWS["2h"]):
            history.seen("prod", "1-24", "shop", pod("web"))
            metrics.answered(Answered(Outcome.SUCCESS, {"total": 0.001}, "", "1-24", "prod"))
            samples(history, clock, metrics)
        return held(history)

    full, later = passes(STEPS), passes(10)

    assert [len(history.shown(window)["ends"]) for window in WINDOWS] == [STEPS, STEPS]
    assert later < full + 100


def test_more_revisions_and_tags_than_it_has_room_for_are_left_out(
    history: History, clock: Clock, metrics: Metrics
) -> None:
    for number in range(3 * MAX_PAIRS):
        history.seen(f"tag-{number:03}", "1-24", "shop", pod("web"))
        metrics.answered(Answered(Outcome.SUCCESS, {"total": 0.001}, "", "1-24", f"other-{number:03}"))
    metrics.answered(Answered(Outcome.SUCCESS, {"total": 0.001}, "", "1-24", "other-190"))
    samples(history, clock, metrics)

    shown = history.shown("10m")["tags"]

    assert len(shown) == MAX_PAIRS
    assert "other-190" in {each["name"] for each in shown}


def test_another_window_is_the_default_one(history: History) -> None:
    assert history.shown("<script>")["window"] == "2h"
    assert history.shown("10m")["stepSeconds"] == STEP


async def test_it_takes_a_sample_each_step(history: History, clock: Clock, metrics: Metrics) -> None:
    following = asyncio.create_task(history.follow(metrics))
    async with asyncio.timeout(20):
        asked = [await clock.pauses.get()]
        for _ in range(2):
            clock.now += STEP
            clock.ended.put_nowait(None)
            asked.append(await clock.pauses.get())
    following.cancel()
    await asyncio.wait([following])

    assert asked == [STEP] * 3
    assert history.shown("10m")["ends"] == [START + STEP, START + 2 * STEP]

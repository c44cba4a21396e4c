"""A resource is listed and watched through the client, also while the API server fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pytest

from injector.cluster.listwatch import ListWatch
from injector.cluster.resources import CONFIG_MAPS, Scope
from tests.cluster.fakes import (
    Answer,
    FakeClient,
    Observed,
    WatchStep,
    bookmark,
    failure,
    in_fake_time,
    item,
    line,
    page,
    status,
)
from tests.tasks import running

SCOPE = Scope(CONFIG_MAPS, "istio-system")
OPTIONAL = replace(SCOPE, optional=True)
SILENT: list[WatchStep] = [3600.0]
A, B = item("a", 5, x=1), item("b", 11, x=2)


@dataclass
class Ran:
    """The requests of a list/watch within so many seconds."""

    client: FakeClient
    observed: Observed = field(default_factory=Observed)
    reports: list[tuple[float, Mapping[str, Any]]] = field(default_factory=list)

    @property
    def requests(self) -> list[str]:
        return [what.replace(" configmaps", "") for _, what in self.client.requests]

    @property
    def reasons(self) -> list[str]:
        return [reason for _, reason in self.observed.faults]


Keep: TypeAlias = Callable[[Mapping[str, Any]], Any]


def read_x(obj: Mapping[str, Any]) -> Any:
    """What is remembered of an object unless a test says otherwise."""
    return obj.get("x")


def watching(
    client: FakeClient, log: Ran | None = None, chance: float = 0.0, scope: Scope = SCOPE, keep: Keep = read_x
) -> ListWatch:
    """A list/watch, whose reports and faults are noted."""
    record = log or Ran(client)

    def changed(objects: Mapping[str, Any]) -> None:
        record.reports.append((asyncio.get_running_loop().time(), objects))

    return ListWatch(client, scope, keep=keep, changed=changed, metrics=record.observed, chance=lambda: chance)


@in_fake_time
async def _run(watch: ListWatch, seconds: float) -> None:
    async with running(watch.run()):
        await asyncio.sleep(seconds)


def ran(client: FakeClient, seconds: float, scope: Scope = SCOPE, keep: Keep = read_x) -> Ran:
    """Run a list/watch for some seconds of a clock that costs none."""
    run = Ran(client)
    _run(watching(client, run, scope=scope, keep=keep), seconds)
    return run


def test_the_first_list_and_each_change_are_reported_at_once() -> None:
    run = ran(FakeClient([page(A)], [[5.0, line("ADDED", B), *SILENT]]), 10)

    assert run.reports == [(0.0, {"a": 1}), (5.0, {"a": 1, "b": 2})]
    assert (run.requests, run.observed.synced) == (["list", "watch 10"], {"configmaps": True})


def test_changes_at_the_same_time_are_reported_together() -> None:
    burst = [line("MODIFIED", item("a", 11 + number, x=number)) for number in range(50)]
    run = ran(FakeClient([page(A)], [[5.0, *burst, *SILENT]]), 10)

    assert run.reports[1:] == [(5.0, {"a": 49})]


def test_continuous_changes_are_reported() -> None:
    flood: list[WatchStep] = []
    for number in range(100):
        flood += [0.05, line("MODIFIED", item("a", 11 + number, x=number))]
    run = ran(FakeClient([page(A)], [[*flood, *SILENT]]), 10)

    assert [objects["a"] for _, objects in run.reports[1:]] == list(range(100))


def test_an_event_without_a_change_is_not_reported() -> None:
    run = ran(FakeClient([page(A)], [[1.0, line("MODIFIED", item("a", 11, x=1)), bookmark(12), *SILENT]]), 10)

    assert len(run.reports) == 1


def test_pages_are_asked_for_one_after_another() -> None:
    run = ran(FakeClient([page(A, more="next"), page(B)]), 10)

    assert (run.requests, run.reports) == (["list", "list next", "watch 10"], [(0.0, {"a": 1, "b": 2})])


def test_the_scope_says_how_much_is_remembered_and_the_log_that_it_is_not_all(caplog: pytest.LogCaptureFixture) -> None:
    run = ran(FakeClient([page(A, B)], [[1.0, bookmark(11), *SILENT]]), 10, Scope(CONFIG_MAPS, room=1))

    assert run.reports == [(0.0, {"a": 1})]
    assert caplog.messages == ["configmaps: only 1 are remembered, and the cluster has more"]


def test_an_object_that_cannot_be_read_is_left_out_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    def keep(obj: Mapping[str, Any]) -> int:
        return int(obj["x"]["y"])

    junk, good = item("junk", 5, x=[1]), item("good", 6, x={"y": 1})
    lines: list[WatchStep] = [
        1.0,
        line("MODIFIED", junk),
        line("ADDED", item("more", 12, x="y")),
        line("MODIFIED", item("good", 13, x={"y": 2})),
    ]
    run = ran(FakeClient([page(junk, good)], [[*lines, *SILENT]]), 10, keep=keep)

    assert [objects for _, objects in run.reports] == [{"good": 1}, {"good": 2}]
    assert (run.requests, run.reasons) == (["list", "watch 10"], ["unreadable", "unreadable"])
    assert caplog.messages == [
        "configmaps in istio-system: 'junk' cannot be read and is left out (TypeError); correct it",
        "configmaps in istio-system: 'more' cannot be read and is left out (TypeError); correct it",
    ]


def test_an_object_that_can_be_read_again_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    junk = line("MODIFIED", item("a", 11, x={"y": 1}))
    lines: list[WatchStep] = [
        1.0,
        junk,
        1.0,
        line("MODIFIED", item("a", 12, x=3)),
        1.0,
        line("DELETED", item("a", 13, x=3)),
    ]
    run = ran(FakeClient([page(A)], [[*lines, *SILENT]]), 10, keep=lambda obj: 0 + obj["x"])

    assert [objects for _, objects in run.reports] == [{"a": 1}, {}, {"a": 3}, {}]
    assert len(caplog.messages) == 1


def test_it_is_not_up_to_date_before_the_last_page_of_a_new_list(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "injector")
    pages: list[Answer] = [page(A, B), page(A, more="next"), failure("server"), page(B)]

    run = ran(FakeClient(pages, [[2.0, status(410)], SILENT]), 60)

    assert (run.requests[2:5], run.reasons) == (["list", "list next", "list next"], ["gone", "server"])
    assert caplog.messages == [
        "configmaps in istio-system: the API server no longer has the watched version; listing again",
        "configmaps in istio-system: watching again",
    ]


def test_an_empty_list_is_reported() -> None:
    assert ran(FakeClient([page()]), 1).reports == [(0.0, {})]


@pytest.mark.parametrize(
    ("watch", "reason", "requests"),
    [
        pytest.param([20.0, status(410)], "gone", ["list", "watch 10", "list", "watch 10"], id="410 as an event"),
        pytest.param([failure("gone")], "gone", ["list", "watch 10", "list", "watch 10"], id="410 as a status"),
        pytest.param([20.0, status(500)], "error", ["list", "watch 10", "list", "watch 10"], id="an ERROR event"),
        pytest.param(
            [bookmark(12), b"{no", SILENT[0]], "garbage", ["list", "watch 10", "list", "watch 10"], id="no JSON"
        ),
        pytest.param([bookmark(12), failure("cut")], "cut", ["list", "watch 10", "watch 12"], id="cut"),
        pytest.param([150.0, failure("idle")], "idle", ["list", "watch 10", "watch 10"], id="silent for too long"),
        pytest.param([failure("server")], "server", ["list", "watch 10", "watch 10"], id="500"),
        pytest.param([failure("throttled")], "throttled", ["list", "watch 10", "watch 10"], id="429"),
        pytest.param([failure("unauthorized")], "unauthorized", ["list", "watch 10", "watch 10"], id="401"),
        pytest.param([bookmark(12)], "short", ["list", "watch 10", "watch 12"], id="ended at once"),
        pytest.param([RuntimeError("x")], "internal", ["list", "watch 10", "watch 10"], id="a fault of ours"),
    ],
)
def test_a_watch_that_fails_is_counted_and_resumed_or_listed_again(
    watch: list[WatchStep], reason: str, requests: list[str]
) -> None:
    run = ran(FakeClient([page(A)], [watch, SILENT]), 1000)

    assert (run.reasons, run.requests) == ([reason], requests)
    assert run.reports == [(0.0, {"a": 1})]


def test_a_watch_that_the_api_server_ends_in_its_time_goes_on_where_it_was() -> None:
    run = ran(FakeClient([page(A)], [[300.0, bookmark(44)], SILENT]), 1000)

    assert (run.requests, run.reasons) == (["list", "watch 10", "watch 44"], [])


@pytest.mark.parametrize("reason", ["unreachable", "server", "throttled", "garbage", "gone", "forbidden"])
def test_while_nothing_answers_it_asks_less_than_once_in_two_seconds(
    reason: str,
) -> None:
    run = ran(FakeClient([failure(reason)]), 300)

    assert len(run.requests) <= 300 / 4 + 3
    assert (run.reports, set(run.reasons)) == ([], {reason})


@pytest.mark.parametrize(
    "watch",
    [[], [status(410)], [b"x"], [status(500)], [bookmark(12)], [failure("cut")], [line("ADDED", B), failure("cut")]],
)
def test_an_api_server_that_breaks_every_watch_is_not_asked_in_a_hot_loop(watch: list[WatchStep]) -> None:
    run = ran(FakeClient([page(A)], [watch]), 300)

    assert len(run.requests) <= 2 * (300 / 4 + 3)


@in_fake_time
async def test_a_watch_that_was_cut_works_once_the_api_server_accepts_it_again() -> None:
    run = Ran(FakeClient([page(A)], [[20.0, failure("cut")], SILENT]))
    watch = watching(run.client, run)
    async with running(watch.run()):
        await asyncio.sleep(20.5)
        assert (run.observed.synced, watch.fault[-1:]) == ({"configmaps": False}, "x")
        await asyncio.sleep(1.0)
        assert (run.observed.synced, watch.fault) == ({"configmaps": True}, "")


@in_fake_time
async def test_it_lists_within_five_seconds_of_the_api_servers_return() -> None:
    down = 301.0
    client = FakeClient([page(A), *[failure("unreachable")] * 1000], [[failure("cut")], [failure("unreachable")]])
    run = Ran(client)

    async with running(watching(client, run, chance=1.0).run()):
        await asyncio.sleep(down)
        client.pages, client.watches = [page(A, B)], [SILENT]
        await asyncio.sleep(20)

    assert run.reports[-1][1] == {"a": 1, "b": 2}
    assert run.reports[-1][0] - down < 5


def test_it_waits_as_long_as_it_is_asked_to() -> None:
    run = ran(FakeClient([failure("throttled", retry_after=17.0), page(A)]), 60)

    assert [at for at, _ in run.client.requests] == [0.0, 17.0, 17.0]


def test_objects_are_kept_during_an_outage_and_synced_is_false() -> None:
    run = ran(FakeClient([page(A), failure("server")], [[status(410)], SILENT]), 60)

    assert (run.reports, run.observed.synced) == ([(0.0, {"a": 1})], {"configmaps": False})


def test_a_missing_optional_resource_has_no_objects_until_it_is_installed() -> None:
    run = ran(FakeClient([failure("missing"), failure("missing"), page(A)]), 90, OPTIONAL)

    assert (run.reports, run.reasons) == ([(0.0, {}), (60.0, {"a": 1})], [])
    assert (run.requests, run.observed.synced) == ([*["list"] * 3, "watch 10"], {"configmaps": True})


def test_an_optional_resource_that_is_uninstalled_has_no_objects() -> None:
    run = ran(FakeClient([page(A), failure("missing")], [[2.0, failure("missing")], SILENT]), 20, OPTIONAL)

    assert (run.reports, run.reasons) == ([(0.0, {"a": 1}), (2.0, {})], [])


def test_an_optional_resource_that_is_forbidden_is_a_fault_that_nothing_waits_for() -> None:
    run = ran(FakeClient([failure("forbidden"), failure("forbidden"), page(A)]), 60, OPTIONAL)

    assert (run.reasons, run.reports[0], run.reports[1:]) == (
        ["forbidden"] * 2,
        (0.0, {}),
        [(3.0, {"a": 1})],
    )


def test_objects_of_an_optional_resource_are_kept_if_it_is_forbidden_later() -> None:
    run = ran(FakeClient([page(A), failure("forbidden")], [[2.0, failure("forbidden")]]), 60, OPTIONAL)

    assert (run.reports, run.observed.synced) == ([(0.0, {"a": 1})], {"configmaps": False})


@pytest.mark.parametrize("reason", ["missing", "forbidden"])
def test_other_resources_must_exist_and_be_permitted(reason: str) -> None:
    run = ran(FakeClient([failure(reason)]), 20)

    assert (run.reports, set(run.reasons)) == ([], {reason})


def test_the_log_has_the_first_fault_of_an_outage_and_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    ran(FakeClient([*[failure("unreachable")] * 5, page(A)]), 60)

    assert [record.getMessage() for record in caplog.records if record.name.startswith("injector")] == [
        "configmaps in istio-system: x",
        "configmaps in istio-system: watching again",
    ]


@in_fake_time
async def test_a_watch_says_why_it_is_not_synced() -> None:
    watch = watching(FakeClient([failure("forbidden"), failure("forbidden"), page(A)]))

    async with running(watch.run()):
        await asyncio.sleep(0.1)
        assert (watch.fault, watch.synced.is_set()) == ("configmaps in istio-system: x", False)
        await watch.synced.wait()

    assert watch.fault == ""

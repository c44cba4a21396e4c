"""The controller of ``injector serve --upgrades``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families as parse_text

from injector.cluster.lease import Lease
from injector.cluster.resources import Resource
from injector.errors import ClusterError, TagError, UsageError
from injector.metrics import Metrics
from injector.upgrade.commands import apply_command
from injector.upgrade.controller import Controller
from injector.upgrade.state import (
    COMPLETED,
    GATEWAYS,
    PAUSED,
    RESTARTING,
    RUNNING,
    SOAKING,
    PinnedGateway,
    State,
    new_state,
    progress_text,
)
from injector.upgrade.store import UPGRADES, Store
from tests.cluster.fakeapi import FakeApi
from tests.cluster.fakes import in_fake_time
from tests.tasks import running
from tests.upgrade.fleets import DOCUMENT, OLD, upgrade


class Runs:
    """Runs of upgrades that end by what a test stores."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.now: list[str] = []
        self.started: list[str] = []
        self.fault: Exception | None = None

    async def run(self, store: Store) -> State:
        self.started.append(store.name)
        if self.fault is not None:
            raise self.fault
        stored = await store.load()
        if stored.is_new:
            await store.save(stored, new_state(stored.upgrade, 100.0, {}))
        self.now.append(store.name)
        try:
            while True:
                state = (await store.load()).state
                if state is None:
                    raise UsageError("it was deleted")
                if state.has_ended or state.phase == PAUSED:
                    return state
                await asyncio.sleep(2)
        finally:
            self.now.remove(store.name)


def put(api: FakeApi, name: str, **status: Any) -> None:
    api.put(UPGRADES, {**DOCUMENT, "metadata": {"name": name}, **({"status": status} if status else {})})


def controller(api: FakeApi, runs: Runs, identity: str = "a") -> Controller:
    metrics = Metrics(CollectorRegistry())
    return Controller(api, Lease(api, "mesh", "upgrades", identity), runs.run, metrics, lambda: 300.0)


def samples(replica: Controller) -> dict[str, float]:
    families = parse_text(replica.metrics.exposition().decode())
    return {
        " ".join(
            [sample.name.removeprefix("injector_upgrade_"), sample.labels.pop("upgrade"), *sample.labels.values()]
        ): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith("injector_upgrade_")
    }


@in_fake_time
async def test_the_replica_with_the_lease_runs_what_is_due_and_every_replica_shows_it() -> None:
    api = FakeApi()
    runs = Runs(api)
    put(api, "up")
    put(api, "old", **State(phase=COMPLETED).to_status())
    first, second = controller(api, runs), controller(api, runs, "b")
    async with running(first.follow(asyncio.Event())), running(second.follow(asyncio.Event())):
        await asyncio.sleep(10)
        assert (runs.now, runs.started) == (["up"], ["up"])
        assert [row["phase"] for row in second.to_list()] == [COMPLETED, RUNNING]

        paused = replace(new_state(upgrade(), 100.0, {}), phase=PAUSED, reason="why")
        put(api, "up", **paused.to_status())
        await asyncio.sleep(10)
        assert (runs.now, runs.started) == ([], ["up"])
        put(api, "up", **apply_command(paused, "resume", upgrade(), 200.0).to_status())
        await asyncio.sleep(10)
        assert (runs.now, runs.started) == (["up"], ["up", "up"])
    assert runs.now == []


@in_fake_time
async def test_an_upgrade_that_cannot_start_says_why_and_delays_no_other() -> None:
    api = FakeApi()
    runs = Runs(api)
    runs.fault = TagError("no such tag")
    put(api, "up")
    api.put(UPGRADES, {**DOCUMENT, "metadata": {"name": "bad"}, "spec": {}})
    replica = controller(api, runs)
    async with running(replica.follow(asyncio.Event())):
        await asyncio.sleep(15.0)
        status = api.objects["upgrades", "", "up"]["status"]
        assert (status["reason"], status["runner"]["lastError"]) == ("no such tag", "no such tag")
        bad, waiting = replica.to_list()
        assert (waiting["phase"], waiting["reason"]) == (None, "no such tag")
        assert "Upgrade bad: spec.from: it is missing" in bad["reason"]
        runs.fault = None
        await asyncio.sleep(30.0)
        assert (runs.now, replica.to_list()[1]["reason"]) == (["up"], None)
        api.drop(UPGRADES, "up")
        await asyncio.sleep(5)
        assert [row["name"] for row in replica.to_list()] == ["bad"]


class OldDefinition(FakeApi):
    """A cluster whose definition of the resource has no status yet."""

    async def replace(
        self, resource: Resource, manifest: Mapping[str, Any], *, manager: str, subresource: str = ""
    ) -> dict[str, Any]:
        if resource == UPGRADES:
            what = 'strict decoding error: unknown field "status.runner"'
            raise ClusterError(what, reason="refused", status=400)
        return await super().replace(resource, manifest, manager=manager, subresource=subresource)


@in_fake_time
async def test_a_definition_that_cannot_store_the_reason_is_logged_and_tried_again_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = OldDefinition()
    runs = Runs(api)
    put(api, "up")
    async with running(controller(api, runs).follow(asyncio.Event())):
        await asyncio.sleep(25.0)
        assert runs.started == ["up"]
        messages = [record.getMessage() for record in caplog.records if record.name == "injector.upgrade.controller"]
        assert len(messages) == 1
        assert 'older than this injector: unknown field "status.runner"; run `injector upgrade crd' in messages[0]
        await asyncio.sleep(30.0)
        assert runs.started == ["up", "up"]


@in_fake_time
async def test_a_deleted_upgrade_is_not_a_fault_and_the_next_of_its_name_starts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = FakeApi()
    runs = Runs(api)
    put(api, "up")
    async with running(controller(api, runs).follow(asyncio.Event())):
        await asyncio.sleep(10)
        api.drop(UPGRADES, "up")
        api.put(UPGRADES, {**DOCUMENT, "metadata": {"name": "up", "uid": "second"}})
        await asyncio.sleep(6)
        assert runs.started == ["up", "up"]
        api.drop(UPGRADES, "up")
        await asyncio.sleep(30.0)

    assert runs.now == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@in_fake_time
async def test_an_upgrade_that_has_ended_is_not_run_again_while_the_watch_is_late() -> None:
    api = FakeApi()
    runs = Runs(api)
    put(api, "up")
    async with running(controller(api, runs).follow(asyncio.Event())):
        await asyncio.sleep(10)
        api.watches_are_served = False
        put(api, "up", **State(phase=COMPLETED).to_status())
        await asyncio.sleep(60)

    assert runs.started == ["up"]


@in_fake_time
async def test_the_metrics_are_those_of_the_last_state() -> None:
    api = FakeApi()
    state = State(
        step=RESTARTING, counts={"done": 3, "waiting": 1}, gates={"latency": "no data: down"}, left=5, progressed=200.0
    )
    put(api, "up", **state.to_status())
    put(api, "soaks", **State(step=SOAKING, since=1000.0, progressed=1000.0).to_status())
    put(api, "waits", **State(reason="waiting for a window", progressed=9.0).to_status())
    put(api, "done", **State(phase=COMPLETED, progressed=9.0).to_status())
    released = PinnedGateway(None, OLD, 1000.0, moving=True, ready=1040.0)
    gateways = {
        "edge/a": released,
        "edge/b": PinnedGateway("prod", OLD, 900.0),
        "edge/c": PinnedGateway(None, OLD, 900.0),
    }
    moves = State(step=GATEWAYS, progressed=1000.0, gateways=gateways)
    put(api, "moves", **moves.to_status())
    hanging = {"edge/a": replace(released, ready=0.0), "edge/b": gateways["edge/b"]}
    put(api, "hangs", **replace(moves, gateways=hanging).to_status())
    replica = controller(api, Runs(api))
    async with running(replica.follow(asyncio.Event())):
        await asyncio.sleep(1)
        values = samples(replica)

    assert {key: value for key, value in values.items() if " up" in key} == {
        "phase up Running": 1, "waves up done": 0, "waves up left": 1, "workloads up done": 3,
        "workloads up waiting": 1, "workloads_left up": 5, "gate up latency no data": 1,
        "progress_timestamp_seconds up": 200, "workloads_remaining up": 0,
    }  # fmt: skip
    assert values["progress_timestamp_seconds soaks"] == 1300
    assert values["progress_timestamp_seconds moves"] == 1070, "the soak of a Gateway is progress until its end"
    assert (values["gateways moves soaking"], values["gateways moves pinned"]) == (1, 2)
    assert "gateways moves moving" not in values, "it is in service"
    assert progress_text(upgrade(), moves) == "wave all, MovingGateways: 2 pinned, 1 soaking"
    assert (values["gateways hangs moving"], values["gateways hangs pinned"]) == (1, 1)
    assert not any(f"progress_timestamp_seconds {name}" in values for name in ("waits", "done"))
    assert (values["waves done done"], values["waves done left"]) == (1, 0)


@in_fake_time
async def test_a_new_upgrade_runs_although_the_cluster_has_many_that_ended() -> None:
    api = FakeApi()
    runs = Runs(api)
    for number in range(150):
        put(api, f"old-{number:03}", **State(phase=COMPLETED).to_status())
    async with running(controller(api, runs).follow(asyncio.Event())):
        await asyncio.sleep(10)
        put(api, "zz-new")
        await asyncio.sleep(10)
        assert runs.now == ["zz-new"]


@in_fake_time
async def test_an_ended_upgrade_runs_again_only_if_its_run_is_raised() -> None:
    api = FakeApi()
    runs = Runs(api)
    put(api, "up", **State(phase=COMPLETED).to_status())
    async with running(controller(api, runs).follow(asyncio.Event())):
        await asyncio.sleep(60)
        assert runs.started == []
        item = api.objects["upgrades", "", "up"]
        api.put(UPGRADES, {**item, "spec": {**item["spec"], "run": 2}})
        await asyncio.sleep(10)
        assert runs.now == ["up"]


@in_fake_time
async def test_an_upgrade_without_a_runner_says_so_instead_of_a_forecast() -> None:
    api = FakeApi()
    state = State(phase=RUNNING, total=4, left=2, pace_since=1.0)
    beat = {"name": "laptop", "lastSeen": "1970-01-01T00:01:00Z", "lastError": "no route to host"}
    put(api, "up", **state.to_status(), runner=beat)
    replica = controller(api, Runs(api))
    replica._on_change({"up": api.objects["upgrades", "", "up"]})

    (row,) = replica.to_list()
    assert (row["secondsLeft"], row["runner"], row["lastSeen"]) == (None, "laptop", 60.0)
    assert row["reason"].startswith("no runner since 1970-01-01T00:01:00Z (laptop, with the error: no route to host)")
    assert samples(replica)["runner_seen_timestamp_seconds up"] == 60


@in_fake_time
async def test_a_runner_that_lives_and_makes_no_step_is_worth_an_alert() -> None:
    api = FakeApi()
    replica, times = controller(api, Runs(api)), list[float]()
    for seconds, error in ((0, ""), (10, "no"), (40, "no"), (50, ""), (59, "no")):
        beat = {"name": "a", "lastSeen": f"1970-01-01T00:01:{seconds:02}Z", "lastError": error}
        put(api, "up", **State(phase=RUNNING).to_status(), runner=beat)
        replica._on_change({"up": api.objects["upgrades", "", "up"]})
        times.append(samples(replica)["runner_seen_timestamp_seconds up"])

    assert times == [60, 60, 60, 110, 110]


@in_fake_time
async def test_the_status_of_an_ended_upgrade_follows_its_document() -> None:
    api = FakeApi()
    runs = Runs(api)
    put(api, "up", **State(phase=COMPLETED).to_status(), observedGeneration=1)
    item = api.objects["upgrades", "", "up"]
    api.put(UPGRADES, {**item, "metadata": {**item["metadata"], "generation": 2}})
    async with running(controller(api, runs).follow(asyncio.Event())):
        await asyncio.sleep(10)

    assert api.objects["upgrades", "", "up"]["status"]["observedGeneration"] == 2
    assert (runs.started, api.objects["upgrades", "", "up"]["status"]["phase"]) == ([], COMPLETED)

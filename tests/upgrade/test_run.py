"""The loop of a runner, against an API server in this process whose clock costs no time."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from injector.cluster.resources import Resource
from injector.errors import ClusterError
from injector.metrics import Metrics
from injector.revisions.tags import Tag
from injector.upgrade.plan import Plan, make_plan
from injector.upgrade.run import EVENTS, Runner
from injector.upgrade.state import ABORTED, COMPLETED, MOVING, PAUSED
from injector.upgrade.store import UPGRADES, ResourceStore
from tests.cluster.fakeapi import refusal
from tests.cluster.fakes import in_fake_time
from tests.reliability.long.upgrade import Fleet
from tests.tasks import running, until
from tests.upgrade.fleets import DOCUMENT, NEW, OLD, PROD, SOURCE, TARGET, upgrade, workload

HOME = "istio-system"
START = dt.datetime(2026, 3, 1, 6, 0, tzinfo=dt.UTC).timestamp()


@dataclass
class Api(Fleet):
    """Deployments; a webhook that does not answer is called for those in ``broken``. ``told`` has the reasons of the Events.

    Until ``expired``, a time of the loop, objects are not given, since the token has expired.
    """

    broken: frozenset[str] = frozenset()
    expired: float = 0.0
    rival: bool = False
    """Whether another runner restarts the other workloads while this one waits for the answer of its first restart."""
    dry_runs: int = 0
    told: list[str] = field(default_factory=list)

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        if asyncio.get_running_loop().time() < self.expired:
            raise refusal("unauthorized", 401)
        return await super().get(resource, name, namespace=namespace)

    async def create(
        self, resource: Resource, manifest: Mapping[str, Any], *, manager: str, dry_run: bool = False
    ) -> dict[str, Any]:
        self.dry_runs += dry_run
        if resource is EVENTS:
            self.told.append(manifest["reason"])
        return await super().create(resource, manifest, manager=manager, dry_run=dry_run)

    async def merge(self, resource: Resource, manifest: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        if manifest["metadata"]["name"] in self.broken:
            what = 'the API server failed (HTTP 500): failed calling webhook "policy.example.com"'
            raise ClusterError(what, reason="server", status=500)
        if self.rival:
            self.rival = False
            for _, namespace, name in [key for key in self.objects if key[0] == resource.plural]:
                if name != manifest["metadata"]["name"]:
                    version = self.objects[resource.plural, namespace, name]["metadata"]["resourceVersion"]
                    own = {"name": name, "namespace": namespace, "resourceVersion": version}
                    other = {**manifest, "metadata": {**manifest["metadata"], **own}}
                    await super().merge(resource, other, manager=manager)
            await asyncio.sleep(1.0)  # the runner's watch sees them
        return await super().merge(resource, manifest, manager=manager)


@dataclass
class Run:
    """An upgrade of the Deployments of ``api``. ``surveyed`` is called for each plan."""

    api: Api
    spec: dict[str, Any]
    moved: list[Tag] = field(default_factory=list)
    surveyed: Callable[[], None] = lambda: None

    def now(self) -> float:
        return START + asyncio.get_running_loop().time()

    async def runner(self) -> Runner:
        store, document = ResourceStore(self.api, HOME, "up"), upgrade(**self.spec)

        async def survey(wanted: Any, before: Tag | None, wave: int | None) -> Plan:
            del wave
            self.surveyed()
            places = sorted(key for key in self.api.objects if key[0] == "deployments")
            found = [workload(name, place, has=NEW if self.api.restarts[name] else OLD) for _, place, name in places]
            return make_plan(wanted, before, found, SOURCE, TARGET, ())

        async def tag_now() -> Tag | None:
            return PROD

        def move(tag: Tag, expected: Tag | None) -> None:
            self.moved.append(tag)
            self.api.move(tag, expected)

        if ("upgrades", "", "up") not in self.api.objects:
            self.api.put(UPGRADES, {**DOCUMENT, "spec": {**DOCUMENT["spec"], **self.spec}})
        await store.start(self.api.objects["upgrades", "", "up"], document, tag_now, self.now())
        metrics = Metrics(CollectorRegistry())
        return Runner(self.api, store, HOME, survey, move, metrics, lambda *_: None, clock=self.now)


def fleet(**fields: Any) -> Api:
    made = Api(**fields)
    made.fill(3)
    made.move(PROD, PROD)
    return made


@in_fake_time
async def test_a_plan_is_made_again_when_a_window_opens() -> None:
    run = Run(fleet(), {"windows": [{"notBefore": "2026-03-01T10:00:00Z"}], "soak": "0s"})
    asyncio.get_running_loop().call_later(600, run.api.fill, 4)  # web-3 is new

    assert (await (await run.runner()).run()).phase == COMPLETED
    assert set(run.api.restarts) == {"web-0", "web-1", "web-2", "web-3"}


@in_fake_time
async def test_no_pod_is_tried_while_a_later_wave_waits_for_its_window() -> None:
    waves = [{"name": "none", "selector": {"matchLabels": {"app": "none"}}}, {"name": "rest"}]
    windows = [{"notAfter": "2026-03-01T06:10:00Z"}, {"notBefore": "2026-03-01T10:00:00Z"}]
    run = Run(fleet(), {"waves": waves, "windows": windows, "soak": "15m"})

    assert (await (await run.runner()).run()).phase == COMPLETED
    assert run.api.dry_runs == len(run.api.restarts)


@in_fake_time
async def test_a_restart_whose_webhook_does_not_answer_holds_up_no_other_and_fails() -> None:
    run = Run(fleet(broken=frozenset({"web-0"})), {"soak": "0s"})

    state = await (await run.runner()).run()
    assert (state.phase, set(run.api.restarts)) == (PAUSED, {"web-1", "web-2"})
    assert "Deployment place-0/web-0: the restart is refused: " in state.reason


@in_fake_time
async def test_a_runner_that_takes_over_after_the_last_restart_tells_of_the_end() -> None:
    run = Run(fleet(), {"soak": "0s"})
    async with running((await run.runner()).run()):
        await until(lambda: len(run.api.restarts) == 3, every=1)

    assert (await (await run.runner()).run()).phase == COMPLETED
    assert "UpgradeCompleted" in run.api.told


@in_fake_time
async def test_a_tag_does_not_move_after_an_upgrade_was_aborted() -> None:
    run = Run(fleet(), {})
    runner = await run.runner()
    begun = await runner.store.existing()
    moving = begun.state.at(MOVING, run.now(), counts={"waiting": 3}, left=3, total=3)
    await runner.store.save(begun, moving)

    def abort() -> None:
        item = run.api.objects["upgrades", "", "up"]
        run.api.put(UPGRADES, {**item, "status": {**item["status"], "phase": ABORTED}})

    run.surveyed = abort
    assert (await runner.run()).phase == ABORTED
    assert run.moved == []


@in_fake_time
async def test_a_workload_that_another_runner_restarts_is_not_restarted_again() -> None:
    run = Run(fleet(rival=True), {"soak": "0s"})

    assert (await (await run.runner()).run()).phase == COMPLETED
    assert run.api.restarts == {"web-0": 1, "web-1": 1, "web-2": 1}


@in_fake_time
async def test_a_token_that_expires_during_an_upgrade_is_renewed() -> None:
    run = Run(fleet(), {"soak": "0s"})
    runner, now = await run.runner(), asyncio.get_running_loop().time
    run.api.expired = now() + 1.0

    assert (await runner.run()).phase == COMPLETED

    run.api.expired = now() + 4.0
    with pytest.raises(ClusterError, match="told unauthorized"):
        await runner.run()

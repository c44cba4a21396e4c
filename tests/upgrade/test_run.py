"""The loop of a runner, against an API server in this process whose clock costs no time."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from injector.cluster.client import Page
from injector.cluster.resources import PODS, Resource, Scope
from injector.cluster.session import Session
from injector.errors import ClusterError, UsageError
from injector.metrics import Metrics
from injector.revisions.tags import Tag
from injector.upgrade import plan
from injector.upgrade import run as upgrade_run
from injector.upgrade.commands import retry_workload, skip_workload
from injector.upgrade.events import EVENTS
from injector.upgrade.observation import GateResult
from injector.upgrade.observe import Watches
from injector.upgrade.plan import Key, Workload
from injector.upgrade.run import Runner
from injector.upgrade.state import (
    ABORTED,
    COMPLETED,
    INCOMPLETE,
    MOVING,
    PAUSED,
    ROLLED_BACK,
    SOAKING,
    State,
    new_state,
)
from injector.upgrade.store import UPGRADES, Store
from injector.upgrade.tag import TagView, tag_data
from tests.cluster.fakeapi import refusal
from tests.cluster.fakes import in_fake_time
from tests.reliability.long.upgrade import ROLLOUT, Fleet
from tests.tasks import running, until
from tests.upgrade.fleets import DOCUMENT, NEW, OLD, PROD, FakeSurveyor, upgrade, workload

HOME = "istio-system"
START = dt.datetime(2026, 3, 1, 6, 0, tzinfo=dt.UTC).timestamp()


@dataclass
class Api(Fleet):
    """Deployments; a webhook that does not answer is called for those in ``broken``. ``event_reasons`` has the reasons of the Events.

    Until ``expired``, a time of the loop, objects are not given, since the token has expired. Until ``down``, the API server is down.
    """

    broken: frozenset[str] = frozenset()
    expired: float = 0.0
    down: float = 0.0
    stuck: float = 0.0
    """Until this time of the loop, no rollout goes on."""
    failing: str = ""
    """The resource that cannot be listed: the API server answers with 503."""
    list_seconds: float = 0.0
    """How long a list of pods takes."""
    dry_run_seconds: float = 0.0
    rival: bool = False
    """Whether another runner restarts the other workloads while this one waits for the answer of its first restart."""
    dry_runs: int = 0
    event_reasons: list[str] = field(default_factory=list)

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        if asyncio.get_running_loop().time() < self.expired:
            raise refusal("unauthorized", 401)
        if asyncio.get_running_loop().time() < self.down:
            raise refusal("server", 503)
        return await super().get(resource, name, namespace=namespace)

    def _roll(self, place: str, name: str) -> None:
        loop = asyncio.get_running_loop()
        waits_until = max(self.down, self.stuck)
        if loop.time() < waits_until:
            loop.call_later(waits_until + ROLLOUT - loop.time(), self._roll, place, name)
        else:
            super()._roll(place, name)

    async def create(
        self, resource: Resource, manifest: Mapping[str, Any], *, manager: str, dry_run: bool = False
    ) -> dict[str, Any]:
        self.dry_runs += dry_run
        await asyncio.sleep(self.dry_run_seconds * dry_run)
        if resource is EVENTS:
            self.event_reasons.append(manifest["reason"])
        return await super().create(resource, manifest, manager=manager, dry_run=dry_run)

    async def page(self, scope: Scope, *, token: str = "", limit: int = 0) -> Page:
        if scope.resource.plural == self.failing:
            raise refusal("server", 503)
        await asyncio.sleep(self.list_seconds * (scope.resource.plural == "pods"))
        return await super().page(scope, token=token, limit=limit)

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
    said: list[State] = field(default_factory=list)
    pinned: str = ""
    """The Deployment whose pods are pinned to the old revision."""

    def now(self) -> float:
        return START + asyncio.get_running_loop().time()

    def store(self, runner: str = "test") -> Store:
        return Store(self.api, "up", runner, self.now)

    async def runner(self) -> Runner:
        def workloads() -> list[Workload]:
            self.surveyed()
            places = sorted(key for key in self.api.objects if key[0] == "deployments")
            return [
                workload(name, place, has=NEW if self.api.restarts[name] else OLD, pin=OLD * (name == self.pinned))
                for _, place, name in places
            ]

        def write(session: Session, place: str, tag: Tag, expected: TagView) -> None:
            del session, place
            self.moved.append(tag)
            self.api.move(tag, expected.tag)

        if ("upgrades", "", "up") not in self.api.objects:
            self.api.put(UPGRADES, {**DOCUMENT, "spec": {**DOCUMENT["spec"], **self.spec}})
        metrics, surveyor = Metrics(CollectorRegistry()), FakeSurveyor(workloads)
        return Runner(
            self.api, surveyor, HOME, metrics, lambda _, state: self.said.append(state), None, self.now, write
        )

    async def run(self) -> State:
        return await (await self.runner()).run(self.store())


def fleet(**fields: Any) -> Api:
    api = Api(**fields)
    api.fill(3)
    api.move(PROD, PROD)
    return api


@in_fake_time
async def test_a_plan_is_made_again_when_a_window_opens() -> None:
    run = Run(fleet(), {"windows": [{"notBefore": "2026-03-01T06:20:00Z"}], "soak": "0s"})
    asyncio.get_running_loop().call_later(600, run.api.fill, 4)  # web-3 is new

    assert (await run.run()).phase == COMPLETED
    assert set(run.api.restarts) == {"web-0", "web-1", "web-2", "web-3"}


@in_fake_time
async def test_a_pinned_workload_stays_when_the_tag_moves_as_a_whole() -> None:
    run = Run(fleet(), {"soak": "0s"}, pinned="web-1")

    assert (await run.run()).phase == COMPLETED
    assert set(run.api.restarts) == {"web-0", "web-2"}
    assert run.moved[-1] == Tag("prod", ((NEW, 100), (OLD, 0)))


@in_fake_time
async def test_the_gates_know_the_gateways_of_any_wave(monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[set[str]] = []

    async def evaluate(*_: object, gateways: Iterable[Key]) -> tuple[GateResult, ...]:
        known.append({key.name for key in gateways})
        return ()

    monkeypatch.setattr(upgrade_run, "evaluate", evaluate)
    monkeypatch.setattr(plan, "_is_gateway", lambda item, _: item.key.name == "web-1")
    run = Run(fleet(), {"soak": "1m", "injectedGateways": {"last": False}})

    assert (await run.run()).phase == COMPLETED
    assert known
    assert all(names == {"web-1"} for names in known)


@in_fake_time
async def test_the_counts_of_a_wave_and_what_is_left_are_of_the_same_workloads() -> None:
    run = Run(fleet(), {"soak": "0s", "limits": {"workloads": 1}})
    run.api.restarts["web-1"] = 1  # it has the new revision before

    assert (await run.run()).phase == COMPLETED
    counted = [state for state in run.said if state.counts]
    assert {state.total for state in counted} == {2}
    assert {state.left for state in counted} == {0, 1, 2}
    for state in counted:
        assert state.counts["current"] == 1
        assert state.counts.get("done", 0) == state.total - state.left
        assert state.counts.get("waiting", 0) + state.counts.get("restarting", 0) == state.left


@in_fake_time
async def test_restarted_workloads_stay_done_after_the_tag_was_written_again() -> None:
    run = Run(fleet(), {"soak": "10m"})
    asyncio.get_running_loop().call_later(120, lambda: run.api.move(PROD, run.api.tag))
    assert (await run.run()).phase == PAUSED
    await run.store("").command("resume", run.now())

    state = await run.run()
    assert (state.phase, dict(state.counts)) == (COMPLETED, {"done": 3})
    assert (run.api.tag.revision, set(run.api.restarts.values())) == (NEW, {1})


@in_fake_time
async def test_no_pod_is_tried_while_a_later_wave_waits_for_its_window() -> None:
    waves = [{"name": "none", "selector": {"matchLabels": {"app": "none"}}}, {"name": "rest"}]
    windows = [{"notAfter": "2026-03-01T06:10:00Z"}, {"notBefore": "2026-03-01T06:20:00Z"}]
    run = Run(fleet(), {"waves": waves, "windows": windows, "soak": "15m"})

    assert (await run.run()).phase == COMPLETED
    assert run.api.dry_runs == len(run.api.restarts)


@in_fake_time
async def test_a_restart_whose_webhook_does_not_answer_holds_up_no_other_and_fails() -> None:
    run = Run(fleet(broken=frozenset({"web-0"})), {"soak": "0s"})

    state = await run.run()
    assert (state.phase, set(run.api.restarts)) == (PAUSED, {"web-1", "web-2"})
    assert "Deployment place-0/web-0: the restart is refused: " in state.reason


@in_fake_time
async def test_a_runner_that_takes_over_after_the_last_restart_tells_of_the_end() -> None:
    run = Run(fleet(), {"soak": "0s"})
    async with running(run.run()):
        await until(lambda: len(run.api.restarts) == 3, every=1)

    assert (await run.run()).phase == COMPLETED
    assert "UpgradeCompleted" in run.api.event_reasons


@in_fake_time
async def test_a_tag_does_not_move_after_an_upgrade_was_aborted() -> None:
    run = Run(fleet(), {})
    await run.runner()  # creates the resource
    begun = new_state(upgrade(), run.now(), tag_data(PROD), (OLD, NEW))
    moving = begun.at(MOVING, run.now(), counts={"waiting": 3}, left=3, total=3)
    await run.store().save(await run.store().load(), moving)

    def abort() -> None:
        item = run.api.objects["upgrades", "", "up"]
        run.api.put(UPGRADES, {**item, "status": {**item["status"], "phase": ABORTED}})

    run.surveyed = abort
    assert (await run.run()).phase == ABORTED
    assert run.moved == []


@in_fake_time
async def test_a_workload_that_another_runner_restarts_is_not_restarted_again() -> None:
    run = Run(fleet(rival=True), {"soak": "0s"})

    assert (await run.run()).phase == COMPLETED
    assert run.api.restarts == {"web-0": 1, "web-1": 1, "web-2": 1}


@in_fake_time
async def test_a_token_that_expires_during_an_upgrade_is_renewed() -> None:
    run = Run(fleet(), {"soak": "0s"})
    now = asyncio.get_running_loop().time

    def expire(seconds: float) -> None:
        run.api.expired = now() + seconds

    asyncio.get_running_loop().call_later(5, expire, 1.0)
    assert (await run.run()).phase == COMPLETED

    again = Run(fleet(), {"soak": "1h"})
    asyncio.get_running_loop().call_later(5, lambda: setattr(again.api, "expired", now() + 6.0))
    with pytest.raises(ClusterError, match="told unauthorized"):
        await again.run()


@in_fake_time
async def test_a_runner_shows_that_it_lives_and_the_next_one_reports_its_death() -> None:
    run = Run(fleet(), {"windows": [{"notBefore": "2026-03-01T10:00:00Z"}], "soak": "0s"})
    async with running((await run.runner()).run(run.store("first"))):
        await asyncio.sleep(300)
        heartbeat = (await run.store().load()).heartbeat
        assert (heartbeat.runner, run.now() - heartbeat.time < 15) == ("first", True)

    assert (await run.store().load()).dead_text(run.now()) == ""
    await asyncio.sleep(100)
    assert "no runner since 2026-03-01T06:0" in (await run.store().load()).dead_text(run.now())
    async with running((await run.runner()).run(run.store("second"))):
        await asyncio.sleep(30)
        assert (await run.store().load()).dead_text(run.now()) == ""
    assert "UpgradeRunnerLost" in run.api.event_reasons


@in_fake_time
@pytest.mark.parametrize("is_killed", [False, True])
async def test_an_outage_does_not_count_for_the_timeout_of_a_restart(is_killed: bool) -> None:
    """Neither runners nor controllers work while the API server is down."""
    run = Run(fleet(), {"soak": "0s", "timeout": "60s"})
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(run.run())
    await until(lambda: len(run.api.restarts) == 3, every=1)
    run.api.down = loop.time() + 200.0
    if is_killed:
        task.cancel()
        await asyncio.sleep(200)

    state = await (run.run() if is_killed else task)
    assert (state.phase, state.reason) == (COMPLETED, "")
    assert loop.time() < 400


@in_fake_time
async def test_steps_that_all_fail_do_not_count_for_the_timeout_of_a_restart() -> None:
    """The runner lives, and stores its heartbeat and the error."""
    run, loop = Run(fleet(), {"soak": "0s", "timeout": "60s"}), asyncio.get_running_loop()
    task = asyncio.create_task(run.run())
    await until(lambda: len(run.api.restarts) == 3, every=1)
    run.api.failing, run.api.stuck = "endpointslices", loop.time() + 200.0
    await asyncio.sleep(200)
    assert (await run.store("").load()).heartbeat.error
    run.api.failing = ""

    state = await task
    assert (state.phase, state.reason) == (COMPLETED, "")


@in_fake_time
async def test_a_restart_that_is_refused_for_a_moment_is_made_later() -> None:
    run = Run(fleet(broken=frozenset({"web-0"})), {"soak": "0s"})
    asyncio.get_running_loop().call_later(25, lambda: setattr(run.api, "broken", frozenset()))

    assert (await run.run()).phase == COMPLETED
    assert run.api.restarts == {"web-0": 1, "web-1": 1, "web-2": 1}


@in_fake_time
async def test_a_second_upgrade_of_a_tag_is_refused_with_the_name_of_the_first() -> None:
    run = Run(fleet(), {})
    other = {**DOCUMENT, "metadata": {"name": "first"}}
    run.api.put(UPGRADES, {**other, "status": new_state(upgrade(), run.now(), tag_data(PROD)).to_status()})

    with pytest.raises(UsageError, match="upgrade first of tag prod is under way"):
        await run.run()
    assert run.moved == []


@in_fake_time
async def test_a_pause_of_a_user_and_the_end_are_events_of_the_upgrade() -> None:
    run = Run(fleet(), {"soak": "1h"})
    task = asyncio.create_task(run.run())
    await until(lambda: len(run.api.restarts) == 3, every=1)
    await run.store("").command("pause", run.now())
    assert (await task).phase == PAUSED
    assert "UpgradePaused" in run.api.event_reasons


@in_fake_time
async def test_a_skipped_workload_is_left_out_by_every_runner_until_it_is_tried_again() -> None:
    run = Run(fleet(), {"soak": "0s", "limits": {"workloads": 1}})
    task = asyncio.create_task(run.run())
    await until(lambda: len(run.api.restarts) == 1, every=1)
    name = "Deployment place-1/web-1"
    await run.store("").change(lambda state, upgrade: skip_workload(state, name, upgrade))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    state = await run.run()
    assert (state.phase, set(run.api.restarts), state.reason) == (
        INCOMPLETE,
        {"web-0", "web-2"},
        f"1 item is left: {name}",
    )
    (remaining,) = state.remaining
    assert remaining.reason == "pods with revision 1-28: 2: skipped by a user"
    assert remaining.remedy == "`injector upgrade retry up place-1/Deployment/web-1` restarts it"

    await run.store("").change(lambda state, upgrade: retry_workload(state, name, upgrade, run.now(), has_begun=True))
    assert ((await run.run()).phase, run.api.restarts) == (COMPLETED, {"web-0": 1, "web-1": 1, "web-2": 1})


@in_fake_time
async def test_a_restart_that_was_refused_is_tried_again_at_once() -> None:
    run = Run(fleet(broken=frozenset({"web-0"})), {"soak": "0s", "timeout": "1h"})
    task, name = asyncio.create_task(run.run()), "Deployment place-0/web-0"
    assert (await task).phase == PAUSED
    run.api.broken = frozenset()
    stored = await run.store("").change(
        lambda state, upgrade: retry_workload(state, name, upgrade, run.now(), has_begun=True)
    )
    assert stored.is_due
    began, task = run.now(), asyncio.create_task(run.run())
    await until(lambda: "web-0" in run.api.restarts, every=1)
    assert run.now() - began < 10
    assert (await task).phase == COMPLETED


@in_fake_time
async def test_a_wave_that_waits_for_its_approval_is_told_of_and_tries_no_pod() -> None:
    run = Run(fleet(), {"soak": "0s", "deadline": "2m", "waves": [{"name": "all", "approval": True}]})
    task = asyncio.create_task(run.run())
    await asyncio.sleep(300)

    stored = await run.store("").load()
    conditions = {entry["type"]: (entry["status"], entry["reason"]) for entry in stored.item["status"]["conditions"]}
    assert conditions["Ready"] == conditions["Reconciling"] == ("False", "WaitingForApproval")
    assert (run.api.event_reasons, run.api.dry_runs, run.moved) == (["UpgradeWaitingForApproval"], 0, [])
    await run.store("").command("promote", run.now())
    assert (await task).phase == COMPLETED
    assert run.api.dry_runs == 3


@in_fake_time
async def test_the_deadline_counts_while_the_watches_do_not_show_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watches, "fault", property(lambda _: "pods: the watch is late"))
    run = Run(fleet(), {"deadline": "1m"})
    state = await asyncio.wait_for(run.run(), 600)

    assert (state.phase, state.cause, run.moved) == (PAUSED, "DeadlineExceeded", [])
    assert any(said.reason == "pods: the watch is late" for said in run.said)


@in_fake_time
async def test_a_runner_whose_steps_fail_shows_the_error_and_that_it_lives() -> None:
    run = Run(fleet(failing="endpointslices"), {"soak": "0s"})
    task = asyncio.create_task(run.run())
    await asyncio.sleep(300)
    stored = await run.store("").load()
    assert (stored.dead_text(run.now()), run.now() - stored.heartbeat.time < 15) == ("", True)
    assert "told server" in stored.trouble_text(run.now())
    run.api.failing = ""
    assert (await task).phase == COMPLETED
    assert (await run.store("").load()).heartbeat.error == ""


@in_fake_time
async def test_a_runner_that_cannot_list_lives_and_a_rollback_moves_the_tag_all_the_same() -> None:
    run = Run(fleet(failing="pods"), {"soak": "0s"})
    task = asyncio.create_task(run.run())
    await asyncio.sleep(300)
    stored = await run.store("").load()
    assert (stored.dead_text(run.now()), stored.state and stored.state.cause) == ("", "NotObserved")
    assert run.said[-1].reason.startswith("pods: ")
    run.api.move(Tag("prod", ((NEW, 1),)), run.api.tag)
    await run.store("").command("rollback", run.now())
    await asyncio.sleep(30)
    assert run.api.tag == PROD
    run.api.failing = ""
    assert (await task).phase == ROLLED_BACK


@in_fake_time
async def test_a_runner_restarts_nothing_before_its_first_lists_are_complete() -> None:
    run = Run(fleet(list_seconds=25.0), {"soak": "0s"})
    task = asyncio.create_task(run.run())
    await asyncio.sleep(20)
    stored = await run.store("").load()
    assert (stored.dead_text(run.now()), stored.state and stored.state.cause) == ("", "NotObserved")
    assert run.said[-1].reason == "pods: the first list is not complete"
    assert (run.moved, run.api.restarts.total()) == ([], 0)
    assert (await task).phase == COMPLETED


@in_fake_time
async def test_a_runner_lives_while_a_preflight_takes_long() -> None:
    run, ages = Run(fleet(dry_run_seconds=15.0), {"soak": "0s"}), list[float]()
    run.api.fill(30)
    task = asyncio.create_task(run.run())
    await until(lambda: run.api.dry_runs > 0, every=1)
    while run.api.dry_runs < 30:
        await asyncio.sleep(5)
        ages.append(run.now() - (await run.store("").load()).heartbeat.time)
    assert max(ages) < 45
    assert (await task).phase == COMPLETED
    assert run.api.dry_runs == 30


@in_fake_time
async def test_the_restarts_that_new_pods_may_have_can_be_changed_in_a_soak() -> None:
    run = Run(fleet(), {"soak": "10m", "gates": {"maxRestarts": 5}})
    task = asyncio.create_task(run.run())
    await until(lambda: bool(run.said) and run.said[-1].step == SOAKING, every=1)
    key = next(key for key in run.api.objects if key[0] == "pods")
    pod = run.api.objects[key]
    restarts = [{"name": "istio-proxy", "restartCount": 4}]
    run.api.put(PODS, {**pod, "status": {**pod["status"], "containerStatuses": restarts}})
    await asyncio.sleep(60)
    assert not task.done()

    stored = run.api.objects["upgrades", "", "up"]
    run.api.put(UPGRADES, {**stored, "spec": {**stored["spec"], "gates": {"maxRestarts": 3}}})
    state = await asyncio.wait_for(task, 60)
    assert (state.phase, state.cause) == (PAUSED, "PodsFailed")
    assert "restarted 4 times" in state.reason

"""Upgrades in place: the control plane was changed under the name of its revision, and the workloads get the sidecar of today."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final

import pytest

from injector.cluster.resources import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, PODS, WEBHOOKS
from injector.errors import UsageError
from injector.fleet.sources import RevisionSources
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.revisions.source import build
from injector.upgrade.commands import apply_command
from injector.upgrade.observe import Observer, pod_facts, workload_facts
from injector.upgrade.plan import make_plan
from injector.upgrade.state import ABORTED, COMPLETED, INCOMPLETE, PAUSED, RUNNING, State
from injector.upgrade.store import UPGRADES, Store
from injector.upgrade.survey import Surveyor, read_fleet
from tests.cli.clusters import deployment, labelled, owned, revision, tag
from tests.cluster.fakeapi import FakeApi
from tests.cluster.fakes import in_fake_time
from tests.revisions.fakes import VALUES, make_raw
from tests.tasks import running
from tests.upgrade.fleets import DOCUMENT, OLD, upgrade
from tests.upgrade.test_controller import Runs, controller

HOME = "istio-system"
RESOURCES = {resource.kind: resource for resource in (CONFIG_MAPS, WEBHOOKS, NAMESPACES, DEPLOYMENTS, PODS)}
IN_PLACE: Final[dict[str, Any]] = {"tag": None, "to": OLD}
OUTDATED = f"{OLD} (older template)"


def injected(name: str, place: str, version: str, number: int = 1) -> dict[str, Any]:
    """A pod of a Deployment as revision 1-28 injected it while its proxy had this version."""
    pod = owned(name, place)
    pod["metadata"] |= {"name": f"{name}-abc-{number}", "uid": f"{place}/{name}/{number}"}
    raw = make_raw(OLD, values=VALUES.replace("1.24.6", version))
    answer = inject_pod(build(raw), pod, RequestFacts(place))
    assert isinstance(answer, Injected)
    return answer.pod


def cluster(*pods: dict[str, Any], **labels: str) -> FakeApi:
    """A cluster whose revision 1-28 has proxies of version 1.28.3, with these pods in namespaces with these values of istio.io/rev."""
    api = FakeApi()
    names = dict.fromkeys((pod["metadata"]["namespace"], pod["metadata"]["labels"]["app"]) for pod in pods)
    namespaces = {place: labels.get(place, "prod") for place, _ in names}
    objects = [*revision(OLD, "1.28.3"), tag("prod", OLD)]
    objects += [labelled(place, label) for place, label in namespaces.items()]
    for obj in (*objects, *(deployment(name, place) for place, name in names), *pods):
        api.put(RESOURCES[obj.get("kind", PODS.kind)], obj)
    return api


async def plan_of(api: FakeApi, **spec: Any) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    document = upgrade(**IN_PLACE | spec)
    fleet = await read_fleet(api, RevisionSources(None, HOME), document)
    plan = make_plan(document, None, fleet)
    return {str(entry.key): (entry.action, entry.note or entry.change, entry.kinds) for entry in plan.entries}


async def test_outdated_workloads_of_the_revision_and_of_its_tags_are_restarted() -> None:
    api = cluster(
        injected("by-tag", "shop", "1.28.0"),
        injected("direct", "pay", "1.28.0"),
        injected("current", "shop", "1.28.3"),
        injected("half", "shop", "1.28.3"),
        injected("half", "shop", "1.28.0", 2),
        owned("elsewhere", "other"),
        pay=OLD,
        other="1-99",
    )

    assert await plan_of(api) == {
        "Deployment pay/direct": ("restart", "image only", ("image",)),
        "Deployment shop/by-tag": ("restart", "image only", ("image",)),
        "Deployment shop/current": ("done", "its pods have the present sidecar", ()),
        "Deployment shop/half": ("restart", "image only", ("image",)),
    }


async def test_a_pod_that_restarts_by_itself_is_not_restarted() -> None:
    api = cluster(injected("web", "shop", "1.28.0"))
    document, surveyor = upgrade(**IN_PLACE), Surveyor(api, RevisionSources(None, HOME))
    begin = await surveyor.start(document)
    plan = (await surveyor.survey(document, State(sidecars=begin.sidecars), None)).plan
    assert (plan.source, plan.target, begin.sidecars) == (OUTDATED, OLD, (OUTDATED, OLD))

    def observed(*pods: dict[str, Any]) -> tuple[int, int]:
        """The pods of the workload with the sidecar of today, and with an outdated one."""
        item = {**deployment("web", "shop"), "status": {}}
        known = [facts for pod in pods if (facts := pod_facts(pod)) is not None]
        observer = Observer(plan.target, 3)
        (view,), _ = observer.observe(plan, [workload_facts(item, "Deployment")], known, (), (), 100.0)
        return view.new, view.old

    assert observed(injected("web", "shop", "1.28.0")) == (0, 1)
    assert observed(injected("web", "shop", "1.28.3", 2)) == (1, 0)


async def test_a_pod_of_another_revision_is_restarted_and_a_refused_one_is_blocked() -> None:
    pod = injected("moved", "shop", "1.28.3")
    pod["metadata"]["annotations"]["sidecar.istio.io/status"] = '{"revision": "1-27", "containers": ["istio-proxy"]}'
    api = cluster(pod, injected("refused", "shop", "1.28.0"))
    (web,) = (
        obj for obj in api.objects.values() if obj["metadata"]["name"] == "refused" and obj.get("kind") == "Deployment"
    )
    web["spec"]["template"]["metadata"]["annotations"] = {"sidecar.istio.io/proxyCPU": "many"}

    plan = await plan_of(api)
    assert plan["Deployment shop/moved"][0] == "restart"
    assert plan["Deployment shop/refused"][:2] == ("blocked", "1-28 refuses its pods")


@pytest.mark.parametrize(("verb", "says"), [("rollback", "an upgrade without a tag cannot go back")])
def test_it_cannot_go_back(verb: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        apply_command(State(), verb, upgrade(**IN_PLACE), 0.0)
    assert refused.value.hint == "restore the configuration of revision 1-28, and run the upgrade again"


async def test_two_upgrades_in_place_of_one_revision_do_not_run_at_once() -> None:
    api = FakeApi()
    spec = {key: value for key, value in {**DOCUMENT["spec"], **IN_PLACE}.items() if value is not None}
    for name, start in (("first", 100.0), ("second", 200.0), ("other", 50.0)):
        own = {**spec, **({"from": "1-30", "to": "1-30"} if name == "other" else {})}
        api.put(
            UPGRADES, {**DOCUMENT, "metadata": {"name": name}, "spec": own, "status": State(started=start).to_status()}
        )

    assert await Store(api, "second").rival(await Store(api, "second").load()) == "first"
    assert await Store(api, "first").rival(await Store(api, "first").load()) == ""


@in_fake_time
async def test_it_repeats_only_after_another_upgrade_of_its_revision_has_ended() -> None:
    api = FakeApi()
    spec = {"from": OLD, "to": OLD, "waves": [{}]}
    other = {**DOCUMENT, "metadata": {"name": "other"}, "spec": {**spec, "from": "1-27"}}
    api.put(UPGRADES, {**other, "status": State(phase=PAUSED).to_status()})
    status = State(phase=COMPLETED, fingerprint="before").to_status()
    api.put(UPGRADES, {**DOCUMENT, "metadata": {"name": "up"}, "spec": {**spec, "repeat": True}, "status": status})

    async def current(_revision: str) -> str:
        return "after"

    runs = Runs(api)
    async with running(replace(controller(api, runs), fingerprint=current).follow(asyncio.Event())):
        await asyncio.sleep(200)
        assert runs.started == []
        assert "upgrade other of revision 1-28 is under way" in (await Store(api, "up").load()).heartbeat.error
        api.put(UPGRADES, {**other, "status": State(phase=COMPLETED).to_status()})
        await asyncio.sleep(100)
        assert runs.started == ["up"]


@pytest.mark.parametrize(("phase", "repeats"), [(COMPLETED, 1), (INCOMPLETE, 1), (PAUSED, 0), (ABORTED, 0)])
@in_fake_time
async def test_it_repeats_once_the_configuration_has_changed_and_stays_as_it_is(phase: str, repeats: int) -> None:
    api, fingerprint = FakeApi(), "before"
    runs, spec = Runs(api), {"from": OLD, "to": OLD, "waves": [{}], "repeat": True}
    status = State(phase=phase, fingerprint="before", token=7.0).to_status()
    api.put(UPGRADES, {**DOCUMENT, "metadata": {"name": "up"}, "spec": spec, "status": status})

    async def current(revision: str) -> str:
        assert revision == OLD
        return fingerprint

    replica = replace(controller(api, runs), fingerprint=current)
    async with running(replica.follow(asyncio.Event())):
        await asyncio.sleep(100)
        assert runs.started == []
        fingerprint = "at first"
        await asyncio.sleep(31)
        fingerprint = "after"
        await asyncio.sleep(31)
        assert runs.started == []
        await asyncio.sleep(31)
        assert len(runs.started) == repeats
        state = (await Store(api, "up").load()).state
        assert state is not None
        if repeats:
            assert (state.phase, state.fingerprint, state.last_token) == (RUNNING, "after", 7.0)
            api.put(
                UPGRADES,
                {
                    **DOCUMENT,
                    "metadata": {"name": "up"},
                    "spec": spec,
                    "status": {**state.to_status(), "phase": COMPLETED},
                },
            )
            await asyncio.sleep(200)
            assert len(runs.started) == repeats

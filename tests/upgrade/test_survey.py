"""Surveys of a cluster: on the client and event loop of the server, with the work in a thread, and with what a run needs only."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

import pytest

from injector.cluster.resources import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, PODS, STATEFUL_SETS, WEBHOOKS, Resource
from injector.cluster.session import ThreadSession
from injector.errors import ClusterError, InjectorError
from injector.fleet.sources import RevisionSources
from injector.revisions.tags import Shadow, Tag
from injector.upgrade.state import State
from injector.upgrade.survey import Surveyor, read_fleet
from injector.upgrade.tag import TagView, read_tag, write_tag
from tests.cli.clusters import deployment, labelled, owned, revision, tag
from tests.cluster.fakeapi import FakeApi
from tests.upgrade.fleets import NEW, OLD, PROD, upgrade

HOME = "istio-system"
RESOURCES = {resource.kind: resource for resource in (CONFIG_MAPS, WEBHOOKS, NAMESPACES, DEPLOYMENTS, PODS)}
T = TypeVar("T")
P = ParamSpec("P")


class OneLoop(FakeApi):
    """An API whose client belongs to the thread that made it. ``threads`` has those that used it."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()
        objects = (*revision(OLD, "1.28.0"), *revision(NEW, "1.30.1"), tag("prod", OLD), labelled("shop", "prod"))
        for obj in (*objects, deployment("web", "shop"), owned("web", "shop")):
            self.put(RESOURCES[obj.get("kind", PODS.kind)], obj)

    async def _called(self, verb: str, *about: Any) -> None:
        self.threads.add(threading.get_ident())
        await super()._called(verb, *about)

    async def find_resource(self, kind: str, group: str) -> Resource | None:
        del kind, group
        return None


async def test_a_revision_without_a_webhook_is_not_called_for_the_pods_that_name_it() -> None:
    api = FakeApi()
    objects = (*revision(OLD, "1.28.0"), *revision(NEW, "1.30.1")[:2], labelled("new", NEW), labelled("old", OLD))
    for obj in (*objects, deployment("web", "new"), deployment("web", "old")):
        api.put(RESOURCES[obj["kind"]], obj)

    fleet = await read_fleet(api, RevisionSources(None, HOME), upgrade(tag=None))

    called = {workload.key.namespace: (workload.requested, workload.is_called) for workload in fleet.workloads}
    assert called == {"new": (NEW, False), "old": (OLD, True)}


async def test_a_server_reads_on_its_own_event_loop_and_works_in_a_thread() -> None:
    api, threads = OneLoop(), list[int]()

    async def offload(work: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> T:
        def noted() -> T:
            threads.append(threading.get_ident())
            return work(*arguments, **named)

        return await asyncio.to_thread(noted)

    sources = RevisionSources(None, HOME)
    fleet = await read_fleet(api, sources, upgrade(), offload)
    assert api.threads == {threading.get_ident()}
    assert len(threads) > 4  # the source, two revisions, each list of workloads
    assert threading.get_ident() not in threads
    assert [(str(workload.key), dict(workload.pods)) for workload in fleet.workloads] == [
        ("Deployment shop/web", {None: 1})
    ]

    assert fleet.workloads == (await read_fleet(api, sources, upgrade())).workloads


async def test_a_thread_moves_a_tag_with_the_client_of_the_event_loop() -> None:
    api, moved = OneLoop(), Tag("prod", ((OLD, 90), (NEW, 10)))

    await asyncio.to_thread(write_tag, ThreadSession(asyncio.get_running_loop(), api), HOME, moved, TagView(PROD))

    assert api.threads == {threading.get_ident()}
    assert [obj["metadata"]["name"] for obj in api.applied][:1] == ["istio-revision-tag-prod"]


@pytest.mark.parametrize("back", [False, True])
async def test_a_run_needs_only_the_revision_that_its_pods_get(back: bool) -> None:
    api = OneLoop()
    missing, present = (NEW, OLD) if back else (OLD, NEW)
    for key in [key for key in api.objects if key[2].endswith(f"-{missing}")]:
        del api.objects[key]
    surveyor, state = Surveyor(api, RevisionSources(None, HOME)), State(back=back, sidecars=(OLD, NEW))

    plan = (await surveyor.survey(upgrade(), state, PROD)).plan
    assert (plan.source, plan.target, [str(entry.key) for entry in plan.entries]) == (OLD, NEW, ["Deployment shop/web"])
    with pytest.raises(InjectorError, match=f'"{missing}"|{missing}'):
        await surveyor.start(upgrade())
    for key in [key for key in api.objects if key[2].endswith(f"-{present}")]:
        del api.objects[key]
    with pytest.raises(InjectorError, match="no Istio revision found"):
        await surveyor.survey(upgrade(), state, PROD)


async def test_a_plan_notes_the_tool_that_writes_the_tag_again() -> None:
    api, owned_tag = OneLoop(), tag("prod", OLD)
    owned_tag["metadata"]["ownerReferences"] = [{"kind": "IstioRevisionTag", "name": "prod", "controller": True}]
    api.put(WEBHOOKS, owned_tag)

    fleet = await read_fleet(api, RevisionSources(None, HOME), upgrade())

    assert any(
        "istio-revision-tag-prod belongs to IstioRevisionTag prod, which writes it again" in note
        for note in fleet.notes
    )


async def test_a_tag_that_another_tool_changed_is_read_with_its_writer_and_overwritten() -> None:
    api = OneLoop()
    (key,) = (key for key in api.objects if key[2] == "istio-revision-tag-prod")
    item = api.objects[key]
    item["metadata"]["annotations"] = {"revision-injector/weights": json.dumps({OLD: 40, NEW: 60})}
    annotations: dict[str, Any] = {"f:revision-injector/weights": {}}
    owned_label: dict[str, Any] = {"f:metadata": {"f:labels": {"f:istio.io/rev": {}}, "f:annotations": annotations}}
    item["metadata"]["managedFields"] = [{"manager": "kubectl-label", "operation": "Update", "fieldsV1": owned_label}]

    view = await read_tag(api, upgrade())
    assert (view.tag, view.writer) == (None, "kubectl-label")
    assert "the weights are ignored" in view.fault
    session = ThreadSession(asyncio.get_running_loop(), api)
    with pytest.raises(ClusterError, match="changed by another writer"):
        await asyncio.to_thread(write_tag, session, HOME, PROD, TagView(Tag("prod", ((NEW, 1),))))
    await asyncio.to_thread(write_tag, session, HOME, PROD, view)
    assert (await read_tag(api, upgrade())).tag == PROD


async def test_a_tag_that_was_deleted_says_how_to_set_it_and_a_rollback_writes_it_again() -> None:
    api = OneLoop()
    api.drop(WEBHOOKS, "istio-revision-tag-prod")

    view = await read_tag(api, upgrade())
    assert view.fault == "it does not exist; run `injector tag set prod --revision 1-28` first"
    await asyncio.to_thread(write_tag, ThreadSession(asyncio.get_running_loop(), api), HOME, PROD, view)
    assert (await read_tag(api, upgrade())).tag == PROD


@pytest.mark.parametrize(
    "before",
    [
        replace(PROD, shadow=Shadow(NEW)),
        Tag("prod", ((OLD, 100), (NEW, 0))),
        Tag("prod", ((OLD, 90), (NEW, 10))),
        replace(PROD, namespaces={"test": ((NEW, 1),)}),
    ],
    ids=["shadow", "weight 0", "weight 10", "namespace"],
)
async def test_a_rollback_writes_a_tag_that_named_the_new_revision_before(before: Tag) -> None:
    api = OneLoop()
    session = ThreadSession(asyncio.get_running_loop(), api)
    await asyncio.to_thread(write_tag, session, HOME, Tag("prod", ((NEW, 1),)), TagView(PROD))
    for key in [key for key in api.objects if key[2].endswith(f"-{NEW}")]:
        del api.objects[key]

    await asyncio.to_thread(write_tag, session, HOME, before, await read_tag(api, upgrade()))
    assert (await read_tag(api, upgrade())).tag == before


def stateful(policy: str = "OrderedReady") -> dict[str, Any]:
    return {
        **deployment("db", "shop"),
        "kind": "StatefulSet",
        "spec": {**deployment("db", "shop")["spec"], "podManagementPolicy": policy},
        "status": {"updateRevision": "db-2"},
    }


def pod_of_db(name: str, *, is_ready: bool, phase: str = "Running") -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "1", "controller": True}
    ready = {"type": "Ready", "status": str(is_ready)}
    meta = {"name": name, "namespace": "shop", "ownerReferences": [owner], "labels": {}}
    return {"metadata": meta, "spec": {"containers": []}, "status": {"phase": phase, "conditions": [ready]}}


async def test_the_pods_for_which_a_stateful_set_waits_are_known() -> None:
    pods = pod_of_db("db-0", is_ready=True), pod_of_db("db-1", is_ready=False), pod_of_db("db-2", is_ready=False)
    failed_pod = pod_of_db("db-3", is_ready=False, phase="Failed")
    for policy, unready in (("OrderedReady", ("db-1", "db-2")), ("Parallel", ())):
        api = OneLoop()
        api.put(STATEFUL_SETS, stateful(policy))
        api.put(PODS, *pods, failed_pod)
        fleet = await read_fleet(api, RevisionSources(None, HOME), upgrade())

        assert {str(workload.key): workload.unready for workload in fleet.workloads} == {
            "Deployment shop/web": (),
            "StatefulSet shop/db": unready,
        }

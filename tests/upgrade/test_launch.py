"""Upgrades of a server: read on the client and event loop of the server, with the work in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from injector.cluster.resources import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, PODS, WEBHOOKS, Resource
from injector.cluster.session import ThreadSession
from injector.fleet.sources import RevisionSources
from injector.revisions.tags import Tag
from injector.upgrade.store import write_tag
from injector.upgrade.survey import read_fleet
from tests.cli.clusters import deployment, labelled, owned, revision, tag
from tests.cluster.fakeapi import FakeApi
from tests.upgrade.fleets import NEW, OLD, PROD, upgrade

HOME = "istio-system"
RESOURCES = {each.kind: each for each in (CONFIG_MAPS, WEBHOOKS, NAMESPACES, DEPLOYMENTS, PODS)}
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

    await asyncio.to_thread(write_tag, ThreadSession(asyncio.get_running_loop(), api), HOME, moved, PROD)

    assert api.threads == {threading.get_ident()}
    assert [obj["metadata"]["name"] for obj in api.applied][:1] == ["istio-revision-tag-prod"]

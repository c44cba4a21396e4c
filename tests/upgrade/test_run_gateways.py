"""The loop of a runner with Gateways: pinned before the tag moves, released one at a time, and the same on the way back."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from injector.cluster.client import Page
from injector.cluster.resources import NAMESPACES, Resource, Scope
from injector.errors import ClusterError
from injector.upgrade.state import ABORTED, COMPLETED, INCOMPLETE, PAUSED, ROLLED_BACK
from injector.upgrade.store import UPGRADES
from tests.cluster.fakeapi import refusal
from tests.cluster.fakes import in_fake_time
from tests.manifests import gateway_of, namespace_of
from tests.tasks import until
from tests.upgrade.fleets import DOCUMENT, NEW, OLD, PROD
from tests.upgrade.test_run import Api, Run

GATEWAYS = Resource("gateway.networking.k8s.io/v1", "gateways", "Gateway", namespaced=True)
REV = "istio.io/rev"


@dataclass
class GatewayApi(Api):
    """Deployments, and Gateways that are in service at once. ``written`` has each label that was written, with the tag's revision then."""

    written: list[tuple[str, str | None, str]] = field(default_factory=list)
    is_programmed: bool = True
    are_gateways_forbidden: bool = False

    async def find_resource(self, kind: str, group: str) -> Resource | None:
        del group
        return GATEWAYS if kind == "Gateway" else None

    async def page(self, scope: Scope, *, token: str = "", limit: int = 0) -> Page:
        if scope.resource == GATEWAYS and self.are_gateways_forbidden:
            raise ClusterError("no list", reason="forbidden")
        return await super().page(scope, token=token, limit=limit)

    async def merge(self, resource: Resource, manifest: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        if resource != GATEWAYS:
            return await super().merge(resource, manifest, manager=manager)
        assert manager == "injector-upgrade-gateways"
        meta = manifest["metadata"]
        item = copy.deepcopy(self.objects["gateways", meta["namespace"], meta["name"]])
        if item["metadata"]["resourceVersion"] != meta["resourceVersion"]:
            raise refusal("conflict", 409)
        labels = {**item["metadata"]["labels"], **meta["labels"]}
        item["metadata"]["labels"] = {key: value for key, value in labels.items() if value is not None}
        if not self.is_programmed:
            item["status"] = {}
        self.written.append((meta["name"], meta["labels"][REV], self.tag.revision))
        return self._write(resource, item)


def fleet(workloads: int = 2) -> GatewayApi:
    api = GatewayApi()
    api.fill(workloads)
    api.move(PROD, PROD)
    conditions = [{"type": kind, "status": "True"} for kind in ("Accepted", "Programmed")]
    for name, labels in (("a", {}), ("b", {REV: "prod"}), ("own", {REV: OLD})):
        api.put(GATEWAYS, gateway_of(name, "edge", labels, status={"conditions": conditions}))
    api.put(NAMESPACES, namespace_of("edge", {REV: "prod"}))
    return api


def labels_of(api: GatewayApi) -> dict[str, str | None]:
    return {key[2]: item["metadata"]["labels"].get(REV) for key, item in api.objects.items() if key[0] == "gateways"}


BEFORE = {"a": None, "b": "prod", "own": OLD}
RELEASES = [("a", None), ("b", "prod")]


@in_fake_time
async def test_gateways_are_pinned_before_the_tag_and_released_after_the_workloads() -> None:
    run = Run(api := fleet(), {"soak": "0s"})

    assert (await run.run()).phase == COMPLETED
    pins = [("a", OLD, OLD), ("b", OLD, OLD)]
    assert api.written == [*pins, *((*release, NEW) for release in RELEASES)]
    assert labels_of(api) == BEFORE


@in_fake_time
async def test_a_rollback_does_the_same_in_the_other_direction() -> None:
    run = Run(api := fleet(0), {"soak": "0s"})
    assert (await run.run()).phase == COMPLETED

    api.written.clear()
    await run.store("").command("rollback", run.now())
    assert (await run.run()).phase == ROLLED_BACK
    pins = [("a", NEW, NEW), ("b", NEW, NEW)]
    assert api.written == [*pins, *((*release, OLD) for release in RELEASES)]
    assert labels_of(api) == BEFORE


@in_fake_time
async def test_without_pins_the_gateways_follow_the_tag() -> None:
    run = Run(api := fleet(), {"soak": "0s", "gateways": {"pin": False}})

    assert ((await run.run()).phase, api.written) == (COMPLETED, [])


@in_fake_time
async def test_a_gateway_that_its_pin_breaks_stops_the_upgrade_before_the_tag_moves() -> None:
    run = Run(api := fleet(), {"soak": "0s", "timeout": "1m"})
    api.is_programmed = False
    state = await run.run()

    assert (state.phase, state.cause) == (PAUSED, "GatewaysFailed")
    assert state.reason == "Gateway edge/a: it is not Accepted: no such condition after 60 s"
    assert (api.written, api.tag.revision) == ([("a", OLD, OLD)], OLD)


@in_fake_time
async def test_a_gateway_that_its_release_breaks_stops_the_next_ones() -> None:
    run = Run(api := fleet(), {"soak": "0s", "timeout": "1m"})
    task = asyncio.create_task(run.run())
    await until(lambda: len(api.written) == 2, every=1)
    api.is_programmed = False
    state = await task

    assert (state.phase, state.cause) == (PAUSED, "GatewaysFailed")
    assert [name for name, label, _ in api.written if label != OLD] == ["a"]


@in_fake_time
async def test_a_resumed_upgrade_waits_for_a_gateway_as_long_as_before() -> None:
    run = Run(api := fleet(), {"soak": "0s", "timeout": "1m"})
    api.is_programmed = False
    assert (await run.run()).cause == "GatewaysFailed"

    await run.store("").command("resume", run.now())
    task = asyncio.create_task(run.run())
    await asyncio.sleep(30)
    assert not task.done()
    assert (await task).cause == "GatewaysFailed"


@in_fake_time
async def test_gateways_that_may_not_be_listed_do_not_count_as_released() -> None:
    run = Run(api := fleet(), {"soak": "0s"})
    task = asyncio.create_task(run.run())
    await until(lambda: len(api.written) == 2, every=1)
    api.are_gateways_forbidden = True
    with pytest.raises(ClusterError, match="the Gateways whose owner changes are not known: no list") as caught:
        await task

    assert (caught.value.reason, api.objects["upgrades", "", "up"]["status"]["phase"]) == ("forbidden", "Running")
    api.are_gateways_forbidden = False
    assert ((await run.run()).phase, labels_of(api)) == (COMPLETED, BEFORE)


@in_fake_time
async def test_gateways_whose_release_is_skipped_are_named() -> None:
    run = Run(api := fleet(), {"soak": "0s", "gateways": {"soak": "10m"}})
    task = asyncio.create_task(run.run())
    await until(lambda: len(api.written) == 3, every=1)
    await run.store("").command("promote", run.now())
    state = await task

    assert (state.phase, state.remaining[-1].workload) == (INCOMPLETE, "Gateway edge/b")
    assert state.remaining[-1].reason == "it is pinned to revision 1-28"
    await run.store("").command("resume", run.now())
    assert ((await run.run()).phase, labels_of(api)) == (COMPLETED, BEFORE)


@in_fake_time
async def test_pins_are_released_although_the_document_pins_no_further_gateways() -> None:
    run = Run(api := fleet(), {"soak": "0s"})
    task = asyncio.create_task(run.run())
    await until(lambda: len(api.written) == 2, every=1)
    item = api.objects["upgrades", "", "up"]
    api.put(UPGRADES, {**item, "spec": {**item["spec"], "gateways": {"pin": False}}})

    assert ((await task).phase, labels_of(api)) == (COMPLETED, BEFORE)


@in_fake_time
async def test_a_run_after_an_abort_waits_for_a_pin_as_long_as_the_first_one() -> None:
    run = Run(api := fleet(), {"soak": "0s", "timeout": "1m"})
    api.is_programmed = False
    assert (await run.run()).cause == "GatewaysFailed"
    await run.store("").command("abort", run.now())
    await asyncio.sleep(120)

    api.is_programmed = True
    for name in ("a", "b"):
        conditions = [{"type": kind, "status": "True"} for kind in ("Accepted", "Programmed")]
        item = copy.deepcopy(api.objects["gateways", "edge", name])
        api.put(GATEWAYS, {**item, "status": {"conditions": conditions}})
    await run.store("").again()
    assert ((await run.run()).phase, labels_of(api)) == (COMPLETED, BEFORE)


@in_fake_time
async def test_pins_of_an_earlier_run_are_released_by_one_without_a_tag() -> None:
    run = Run(api := fleet(0), {"soak": "0s", "gateways": {"soak": "10m"}})
    task = asyncio.create_task(run.run())
    await until(lambda: len(api.written) == 2, every=1)
    await run.store("").command("abort", run.now())
    assert (await task).phase == ABORTED

    spec = {key: value for key, value in DOCUMENT["spec"].items() if key != "tag"}
    await run.store("").again({**DOCUMENT, "spec": {**spec, "soak": "0s"}})
    assert ((await run.run()).phase, labels_of(api)) == (COMPLETED, BEFORE)

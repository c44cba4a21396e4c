"""The count of pods that are not what their revision makes now."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections import Counter
from collections.abc import Collection
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from injector.cluster.resources import NAMESPACES, PODS
from injector.metrics import Metrics
from injector.revisions import driftwatch
from injector.revisions.driftwatch import DriftWatch, Sidecar, count_drift, sidecar_of
from injector.revisions.registry import Registry, Snapshot, snapshot_of
from injector.revisions.tags import parse_tags
from tests.cluster.fakeapi import FakeApi
from tests.cluster.fakes import in_fake_time
from tests.factories import created_by
from tests.revisions.fakes import fake_revision
from tests.tasks import running

OLD, NEW = "1-28", "1-30"
REV, AUTO, INJECT = "istio.io/rev", "istio-injection", "sidecar.istio.io/inject"


def snapshot(tags: str = f"prod: {NEW}") -> Snapshot:
    return snapshot_of([fake_revision(name) for name in (OLD, NEW)], parse_tags(tags))


def pod(
    name: str, place: str = "shop", has: str | None = OLD, labels: dict[str, str] | None = None, pin: str = ""
) -> dict[str, Any]:
    """The metadata of a pod of the Deployment ``web``, whose name comes before the number of the pod."""
    annotations = {"revision-injector/pin": pin} if pin else {}
    if has is not None:
        annotations["sidecar.istio.io/status"] = json.dumps({"containers": ["istio-proxy"], "revision": has})
    replica_set = f"{name.partition('.')[0]}-7c9f8d6b54"
    own = {"labels": {"pod-template-hash": "7c9f8d6b54", **(labels or {})}, "annotations": annotations}
    return created_by({"metadata": {"name": name, "namespace": place, **own}}, replica_set)


def drift(
    *pods: dict[str, Any], labels: dict[str, str] | None = None, tags: str = f"prod: {NEW}"
) -> dict[tuple[str, str, str], int]:
    """The drift of pods, whose namespace has labels."""
    sidecars = [sidecar for pod in pods if (sidecar := sidecar_of(pod)) is not None]
    return count_drift(sidecars, {"shop": {REV: "prod"} if labels is None else labels}, snapshot(tags))


def test_workloads_with_another_revision_than_they_would_get_are_counted_once_each() -> None:
    old = (pod(name) for name in ("web.1", "web.2", "api.1"))
    pods = (*old, pod("api.2", has=NEW), pod("new.1", has=NEW), pod("bare", has=None))

    assert drift(*pods) == {(OLD, NEW, "shop"): 2}
    assert drift(*pods, tags=f"prod: {OLD}") == {(NEW, OLD, "shop"): 2}


@pytest.mark.parametrize(
    ("namespace", "labels", "expected"),
    [
        ({REV: NEW}, {}, NEW),
        ({REV: OLD}, {}, None),
        ({REV: "prod"}, {REV: OLD}, NEW),
        ({}, {REV: NEW}, NEW),
        ({}, {}, None),
        ({REV: "unknown"}, {}, None),
        ({REV: "prod"}, {INJECT: "false"}, None),
        ({AUTO: "enabled"}, {}, NEW),
        ({AUTO: "enabled"}, {REV: OLD}, NEW),
        ({AUTO: "disabled"}, {REV: NEW}, None),
    ],
)
def test_the_labels_of_a_pod_and_its_namespace_decide(
    namespace: dict[str, str], labels: dict[str, str], expected: str | None
) -> None:
    counts = drift(pod("web", labels=labels), labels=namespace, tags=f"prod: {NEW}\ndefault: {NEW}")

    assert list(counts) == ([(OLD, expected, "shop")] if expected else [])


def test_without_a_revision_or_tag_called_default_the_only_revision_is_the_default() -> None:
    sidecar = sidecar_of(pod("web.1"))
    assert sidecar is not None

    counts = count_drift([sidecar], {"shop": {AUTO: "enabled"}}, snapshot_of([fake_revision(NEW)], {}))

    assert counts == {(OLD, NEW, "shop"): 1}


def test_weights_and_pins_of_a_tag_decide_for_each_workload() -> None:
    pods = [pod(f"web{number}.1") for number in range(200)]

    assert 60 < drift(*pods, tags=f"prod: {{{OLD}: 50, {NEW}: 50}}")[OLD, NEW, "shop"] < 140
    pinned = pod("web.1", pin=OLD)
    assert drift(pinned, tags=f"prod: {{{OLD}: 0, {NEW}: 100}}") == {}


def test_a_label_that_an_injection_of_istio_1_6_to_1_10_wrote_does_not_count() -> None:
    old = pod("web", has="", labels={REV: NEW})
    assert drift(old, labels={}) == {}
    assert drift(pod("web", has="", labels={REV: OLD})) == {(OLD, NEW, "shop"): 1}
    assert drift(pod("web", has="")) == {("(no name)", NEW, "shop"): 1}


def test_a_revision_that_writes_no_name_into_pods_has_those_without_a_name() -> None:
    served = snapshot_of([fake_revision("old", version="1.5")], {})
    sidecars = [sidecar_of(instance) for instance in (pod("web.1", has=""), pod("api.1", has=OLD))]

    assert count_drift(filter(None, sidecars), {"shop": {REV: "old"}}, served) == {(OLD, "old", "shop"): 1}


def test_a_long_name_that_a_user_wrote_into_a_pod_is_cut() -> None:
    assert drift(pod("web", has="x" * 100_000)) == {("x" * 63, NEW, "shop"): 1}


class Watched:
    """A watch of an API server with one namespace, and its counts."""

    def __init__(self) -> None:
        self.api, self.registry, self.collector = FakeApi(), Registry(snapshot(f"prod: {OLD}")), CollectorRegistry()
        self.watch = DriftWatch(self.api, self.registry, Metrics(self.collector))
        self.api.put(NAMESPACES, {"metadata": {"name": "shop", "labels": {REV: "prod"}}})

    @property
    def counts(self) -> dict[tuple[str, str, str], float]:
        (family,) = (metric for metric in self.collector.collect() if metric.name == "injector_drift_workloads")
        return {
            (sample.labels["from"], sample.labels["to"], sample.labels["namespace"]): sample.value
            for sample in family.samples
        }

    async def check(self, expected: dict[tuple[str, str, str], int]) -> None:
        await asyncio.sleep(3 * driftwatch.COUNT_INTERVAL)
        assert self.counts == expected


@in_fake_time
async def test_a_moved_tag_a_restarted_workload_and_a_relabelled_namespace_are_seen() -> None:
    watched = Watched()
    for name in ("web.1", "web.2", "api.1"):
        watched.api.put(PODS, pod(name))
    watched.registry.swap(snapshot())
    async with running(watched.watch.follow(asyncio.Event())):
        await watched.check({(OLD, NEW, "shop"): 2})

        watched.api.drop(PODS, "api.1", "shop")
        watched.api.put(PODS, pod("api.2", has=NEW))
        await watched.check({(OLD, NEW, "shop"): 1})

        watched.registry.swap(snapshot(f"prod: {OLD}"))
        await watched.check({(NEW, OLD, "shop"): 1})

        watched.registry.swap(snapshot())
        watched.api.put(NAMESPACES, {"metadata": {"name": "shop", "labels": {REV: OLD}}})
        await watched.check({(NEW, OLD, "shop"): 1})


@in_fake_time
async def test_pods_that_come_while_a_thread_counts_do_not_change_what_it_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: list[tuple[Collection[Sidecar], int]] = []

    def count(sidecars: Collection[Sidecar], *facts: object) -> Counter[tuple[str, str, str]]:
        del facts
        counted.append((sidecars, len(sidecars)))
        return Counter()

    monkeypatch.setattr(driftwatch, "count_drift", count)
    watched = Watched()
    watched.api.put(PODS, pod("web.1"))
    async with running(watched.watch.follow(asyncio.Event())):
        await watched.check({})
        watched.api.put(PODS, pod("api.1"))
        await watched.check({})

    assert [(len(sidecars), before) for sidecars, before in counted] == [(1, 1), (2, 2)]


@in_fake_time
async def test_pods_that_are_gone_are_forgotten_although_namespaces_cannot_be_listed() -> None:
    watched = Watched()
    watched.api.refused["list namespaces"] = "forbidden"
    async with running(watched.watch.follow(asyncio.Event())):
        for number in range(4 * driftwatch.SHARED):
            watched.api.put(PODS, pod(f"web{number}.1"))
            await asyncio.sleep(0)
            watched.api.drop(PODS, f"web{number}.1", "shop")
        await asyncio.sleep(1)

        assert sum(isinstance(obj, Sidecar) for obj in gc.get_objects()) <= driftwatch.SHARED


def test_of_a_long_pin_that_a_user_wrote_into_a_pod_little_is_remembered() -> None:
    sidecar = sidecar_of(pod("web", pin="x" * 100_000))

    assert sidecar is not None
    assert len(sidecar.workload.pin) < 100


@in_fake_time
async def test_the_pods_and_series_are_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(driftwatch, "MAX_PODS", 10)
    watched = Watched()
    for number in range(30):
        watched.api.put(PODS, pod(f"web.{number}"))
    watched.registry.swap(snapshot())
    async with running(watched.watch.follow(asyncio.Event())):
        with caplog.at_level(logging.WARNING):
            await watched.check({(OLD, NEW, "shop"): 1})
            await asyncio.sleep(60)
    assert caplog.messages == ["pods: only 10 are remembered, and the cluster has more"]

    metrics = Metrics(CollectorRegistry())
    metrics.set_drift({(str(number), NEW, "shop"): number for number in range(2000)})
    rows = [line for line in metrics.exposition().decode().splitlines() if line.startswith("injector_drift_workloads{")]
    assert len(rows) == 1000
    assert f'injector_drift_workloads{{from="1999",namespace="shop",to="{NEW}"}} 1999.0' in rows

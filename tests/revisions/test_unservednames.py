"""Labels of a cluster that name nothing that is served are counted."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from injector.cluster.resources import NAMESPACES, PODS
from injector.metrics import Metrics
from injector.revisions import unservednames
from injector.revisions.registry import Registry, snapshot_of
from injector.revisions.tags import parse_tags
from injector.revisions.unservednames import (
    UnservedCount,
    UnservedNames,
    count_unserved,
    has_injection_label,
    namespace_revision,
    pod_selector,
    unserved_name,
)
from tests.cases import cases
from tests.cluster.fakeapi import FakeApi
from tests.cluster.fakes import in_fake_time, item
from tests.revisions.fakes import fake_revision
from tests.tasks import running

REV, AUTO, INJECT, STATUS = ("istio.io/rev", "istio-injection", "sidecar.istio.io/inject", "sidecar.istio.io/status")
SERVED = frozenset({"1-24", "prod"})


def labelled(name: str, labels: dict[str, str] | None, namespace: str = "", **metadata: Any) -> dict[str, Any]:
    """An object as the API server gives its metadata."""
    obj = item(name, 11, namespace)
    obj["metadata"] |= {"labels": labels, **metadata}
    return obj


@cases("labels", "revision", "injection")
def test_a_namespaces_name_is_remembered_unless_istio_injection_takes_precedence(
    labels: dict[str, str] | None, revision: str | None, injection: bool | None
) -> None:
    namespace = labelled("shop", labels)

    assert (namespace_revision(namespace), has_injection_label(namespace)) == (revision, injection)


@cases("labels", "annotations", "remembered")
def test_a_pods_name_is_remembered_if_it_is_not_served_and_has_no_sidecar(
    labels: dict[str, str] | None, annotations: dict[str, str] | None, remembered: str | None
) -> None:
    assert unserved_name(labelled("a", labels, "shop", annotations=annotations), SERVED) == remembered


def test_only_pods_that_want_a_sidecar_of_an_unserved_name_are_asked_for() -> None:
    assert pod_selector({"prod", "1-24"}) == (f"{REV},{REV} notin (1-24,prod),{INJECT} notin (false)")


def test_a_selector_stays_short_however_many_names_are_served() -> None:
    assert len(pod_selector({f"{number:063}" for number in range(100_000)})) < 15_000


def test_namespaces_and_pods_are_counted_by_name() -> None:
    namespaces = {"a": "prdo", "b": "prdo", "c": "prod", "d": "1-23"}
    pods = {"x/1": "prdo", "x/2": "old", "y/1": "1-24"}

    assert count_unserved(namespaces, (), pods, SERVED) == UnservedCount(
        3, 2, {"prdo": (2, 1), "1-23": (1, 0), "old": (0, 1)}
    )


@pytest.mark.parametrize(("namespaces", "with_injection"), [({"x": "prod"}, ()), ({}, ("x",))])
def test_the_name_of_a_pod_does_not_count_where_its_namespace_decides(
    namespaces: dict[str, str], with_injection: tuple[str, ...]
) -> None:
    assert count_unserved(namespaces, with_injection, {"x/1": "prdo", "y/1": "prdo"}, SERVED).pods == 1


def test_pods_that_cannot_be_listed_are_not_counted_as_none() -> None:
    assert count_unserved({"a": "prdo"}, (), None, SERVED) == UnservedCount(1, None, {"prdo": (1, 0)})


def test_the_most_frequent_names_are_shown_up_to_a_bound() -> None:
    names = {f"name-{number:03}": (1, 0) for number in range(105)}

    rows = UnservedCount(200, 0, {**names, "often": (50, 20), "x" * 500: (40, 0)}).to_dict()

    assert list(rows["names"])[:3] == ["often", "x" * 63, "name-000"]
    assert rows["names"]["often"] == {"namespaces": 50, "pods": 20}
    assert (len(rows["names"]), rows["more"]) == (100, 7)


def watched(api: FakeApi, plural: str) -> list[str]:
    return [scope.labels for scope in api.watching if scope.resource.plural == plural]


class Net:
    """A watch for unserved names with an API server and its counts."""

    def __init__(self, api: FakeApi, *names: str, elsewhere: tuple[str, ...] = ()) -> None:
        self.api = api
        self.collector = CollectorRegistry()
        self.registry = Registry()
        self.names = UnservedNames(api, self.registry, Metrics(self.collector), frozenset(elsewhere))
        self.serve(*names)

    def serve(self, *names: str, tags: str = "") -> None:
        self.registry.swap(snapshot_of([fake_revision(name) for name in names], parse_tags(tags)))

    @property
    def counted(self) -> tuple[float | None, float | None]:
        """The namespaces and the pods, as the metrics have them."""
        name = "injector_unserved_names"
        namespaces, pods = (self.collector.get_sample_value(name, {"kind": kind}) for kind in ("namespace", "pod"))
        return namespaces, pods

    def faults(self, resource: str, reason: str) -> float | None:
        labels = {"resource": resource, "reason": reason}
        return self.collector.get_sample_value("injector_watch_faults_total", labels)

    def follow(self) -> AbstractAsyncContextManager[object]:
        """Let it watch as long as the block runs."""
        return running(self.names.follow(asyncio.Event()))


@pytest.fixture
def api() -> FakeApi:
    """Two namespaces and three pods, of which one each leads nowhere."""
    fake = FakeApi()
    for name, labels in (("shop", {REV: "prdo"}), ("mesh", {REV: "a"}), ("old", {AUTO: "enabled"})):
        fake.put(NAMESPACES, labelled(name, labels))
    for name, namespace, revision in (("lost", "plain", "prdo"), ("led", "old", "prdo"), ("found", "plain", "a")):
        fake.put(PODS, labelled(name, {REV: revision}, namespace))
    return fake


@in_fake_time
async def test_unserved_names_are_counted_and_shown(api: FakeApi) -> None:
    net = Net(api, "a", "b")
    async with net.follow():
        assert net.names.to_dict()["counted"] is False
        await asyncio.sleep(3)
        assert net.counted == (1, 1)
        assert net.names.to_dict() == {
            "counted": True,
            "namespaces": 1,
            "pods": 1,
            "names": {"prdo": {"namespaces": 1, "pods": 1}},
            "more": 0,
            "podsAtLeast": False,
        }


@in_fake_time
async def test_counting_starts_once_revisions_are_served_and_follows_their_names(api: FakeApi) -> None:
    net = Net(api)
    async with net.follow():
        await asyncio.sleep(60)
        assert (api.calls, net.counted, net.names.named_by("shop")) == ([], (None, None), None)
        net.serve("a", "b")
        await asyncio.sleep(3)
        assert net.counted == (1, 1)
        net.serve("a", "b", tags="prdo: a")
        await asyncio.sleep(3)
        assert (net.counted, net.names.to_dict()["names"]) == ((0, 0), {})
        net.serve("a", "b")
        await asyncio.sleep(3)
        assert net.counted == (1, 1)


@in_fake_time
async def test_names_that_another_injector_serves_are_not_missed(api: FakeApi) -> None:
    net = Net(api, "a", "b", elsewhere=("prdo",))
    async with net.follow():
        await asyncio.sleep(3)
        assert net.counted == (0, 0)
        assert net.names.served == {"a", "b", "prdo"}


@in_fake_time
async def test_changes_in_the_cluster_are_seen(api: FakeApi) -> None:
    net = Net(api, "a", "b")
    async with net.follow():
        await asyncio.sleep(3)
        api.put(NAMESPACES, labelled("new", {REV: "1-23"}))
        api.put(PODS, labelled("another", {REV: "1-23"}, "plain"))
        await asyncio.sleep(3)
        assert (net.counted, net.names.named_by("new")) == ((2, 2), "1-23")
        api.put(NAMESPACES, labelled("new", {REV: "a"}))
        api.drop(PODS, "another", "plain")
        await asyncio.sleep(3)
        assert (net.counted, net.names.named_by("new")) == ((1, 1), "a")


@in_fake_time
async def test_a_watch_that_failed_watches_again_when_it_is_restarted(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Net(api, "a", "b")
    with monkeypatch.context() as patched:
        patched.setattr(unservednames, "count_unserved", lambda *_: 1 / 0)
        with pytest.raises(ExceptionGroup):
            await net.names.follow(asyncio.Event())
    async with net.follow():
        await asyncio.sleep(3)
        api.put(PODS, labelled("another", {REV: "1-23"}, "plain"))
        await asyncio.sleep(3)
        assert net.counted == (1, 2)


@in_fake_time
async def test_the_api_server_is_asked_again_only_where_what_is_served_changes(api: FakeApi) -> None:
    net = Net(api, "a", "b")
    async with net.follow():
        await asyncio.sleep(3600)
        assert api.count("list") == 3
        api.requests.clear()
        net.serve("a", "b", "c")
        await asyncio.sleep(3600)
        wanted = pod_selector(("a", "b", "c"))
        assert [request for request in api.requests if request.startswith("list")] == [f"list pods {wanted}"]
        assert watched(api, "pods") == [wanted]
        assert all(scope.metadata_only for scope in api.watching)
        assert sorted(watched(api, "namespaces")) == [AUTO, REV]


@in_fake_time
async def test_without_the_permission_for_pods_the_namespaces_are_counted_alone(api: FakeApi) -> None:
    api.refused["list pods"] = "forbidden"
    net = Net(api, "a", "b")
    async with net.follow():
        await asyncio.sleep(30)
        assert (net.counted, net.names.to_dict()["pods"]) == ((1, None), None)
        assert (net.faults("pods", "forbidden") or 0) > 1
        net.serve("a", "b", "c")
        await asyncio.sleep(3)
        api.refused.clear()
        await asyncio.sleep(10)
        assert (net.counted, watched(api, "pods")) == ((1, 1), [pod_selector(("a", "b", "c"))])


@in_fake_time
async def test_each_watch_is_reported_under_its_own_name(api: FakeApi) -> None:
    api.refused["list namespaces"] = "forbidden"
    net = Net(api, "a", "b")
    async with net.follow():
        await asyncio.sleep(30)
        assert (net.counted, net.names.to_dict()["counted"]) == ((None, None), False)
        for label in (REV, AUTO):
            assert (net.faults(f"namespaces/{label}", "forbidden") or 0) > 1
        assert net.collector.get_sample_value("injector_watch_synced", {"resource": "pods"}) == 1


@in_fake_time
async def test_the_number_of_remembered_pods_is_bounded_and_shown() -> None:
    api = FakeApi()
    for number in range(10_010):
        api.put(PODS, labelled(str(number), {REV: "prdo"}, "plain"))
    net = Net(api, "a", "b")
    async with net.follow():
        await asyncio.sleep(3)
        assert (net.counted, net.names.to_dict()["podsAtLeast"]) == ((0, 10_000), True)

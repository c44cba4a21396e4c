from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from injector.cluster.configmaps import istio_config_map
from injector.cluster.webhooks import TagWebhook
from injector.errors import ConfigError
from injector.revisions.clustersource import ClusterSource, cluster_state, cluster_tags, kept_namespace, kept_node
from injector.revisions.registry import Registry
from injector.revisions.reload import Loader
from injector.revisions.source import ClusterFacts, SourceState
from injector.revisions.tags import Tag
from tests.cluster.fakes import FakeClient, Observed, failure, in_fake_time, page
from tests.revisions.fakes import CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from injector.cluster.client import Page
    from injector.cluster.reader import Scope
    from injector.istio.revision import Revision

HOME = "istio-system"
UIDS = "openshift.io/sa.scc.uid-range"


def pair(revision: str = "default", *, values: str = '{"global": {"tag": "1.24.6"}}') -> list[dict[str, Any]]:
    suffix = "" if revision == "default" else f"-{revision}"
    return [
        {"metadata": {"name": f"istio-sidecar-injector{suffix}"}, "data": {"config": CONFIG, "values": values}},
        {"metadata": {"name": f"istio{suffix}"}, "data": {"mesh": "{}"}},
    ]


def seen(*items: dict[str, Any], **others: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """What was seen: these ConfigMaps, and the objects of other resources."""
    return {"configmaps": {each["metadata"]["name"]: istio_config_map(each) for each in items}, **others}


@pytest.mark.parametrize(
    ("annotations", "kept"),
    [
        ({UIDS: "1/2", "other": "x"}, {"annotations": {UIDS: "1/2"}}),
        ({"other": "x"}, None),
        (None, None),
    ],
)
def test_of_a_namespace_only_what_openshift_says_is_remembered(annotations: Any, kept: Any) -> None:
    assert kept_namespace({"metadata": {"name": "a", "annotations": annotations}}) == kept


@pytest.mark.parametrize(
    ("status", "kept"),
    [({"nodeInfo": {"kubeletVersion": "v1.33.0", "x": 1}, "images": []}, "v1.33.0"), ({}, None), (None, None)],
)
def test_of_a_node_only_its_version_is_remembered(status: Any, kept: str | None) -> None:
    assert kept_node({"metadata": {"name": "a"}, "status": status}) == kept


def test_before_anything_is_seen_there_is_nothing() -> None:
    assert ClusterSource(FakeClient([page()]), Observed()).read() == SourceState(())


def test_revisions_tags_and_facts_are_what_was_seen() -> None:
    state = cluster_state(
        seen(
            *pair(),
            *pair("1-24"),
            mutatingwebhookconfigurations={"w": TagWebhook("prod", "1-24", "w")},
            nodes={"a": "v1.33.0", "b": "v1.32.1", "c": "v1.33.0"},
            namespaces={"n": {"annotations": {UIDS: "1/2"}}},
        ),
        HOME,
    )
    facts = ClusterFacts(("v1.32.1", "v1.33.0"), {"n": {"annotations": {UIDS: "1/2"}}})

    assert [(raw.name, raw.config, raw.facts) for raw in state.revisions] == [
        ("1-24", CONFIG, facts),
        ("default", CONFIG, facts),
    ]
    assert (state.tags["prod"].revision, state.facts, state.failures, state.tag_faults) == ("1-24", facts, {}, {})


def test_what_cannot_name_a_revision_or_a_tag_is_a_failure_of_its_own() -> None:
    webhooks = {
        "a": TagWebhook("cluster", "default", "a"),
        "b": TagWebhook("prod", "A.b", "b"),
        "c": TagWebhook("good", "default", "c"),
    }
    state = cluster_state(seen(*pair(), *pair("net"), *pair("x.y"), mutatingwebhookconfigurations=webhooks), HOME)

    assert [raw.name for raw in state.revisions] == ["default"]
    assert sorted(state.failures) == ["net", "x.y"]
    assert (list(state.tags), list(state.tag_faults)) == (["good"], ["cluster", "prod"])


def test_a_tags_annotations_are_read_and_what_is_wrong_with_one_is_its_own_fault() -> None:
    weights, salt = "revision-injector/weights", "revision-injector/salt"
    webhooks = [
        TagWebhook("canary", "1-24", "a", {weights: '{"1-24": 90, "1-30": 10}', salt: "spring"}),
        TagWebhook("broken", "1-24", "b", {weights: "90"}),
        TagWebhook("moved", "1-30", "c", {weights: '{"1-24": 90, "1-30": 10}'}),
    ]

    tags, faults = cluster_tags(webhooks)

    assert tags == {
        "canary": Tag("canary", (("1-24", 90), ("1-30", 10)), "spring"),
        "moved": Tag("moved", (("1-30", 1),)),
    }
    assert list(faults) == ["broken", "moved"]


class Cluster(FakeClient):
    """An API server with objects; the watches of a resource that is not in `refused` are silent."""

    def __init__(self, objects: dict[str, list[dict[str, Any]]], *, refused: tuple[str, ...] = ()) -> None:
        super().__init__([])
        self.objects, self.refused = objects, refused

    async def page(self, scope: Scope, *, token: str = "") -> Page:
        self._note(f"list {scope.resource.plural}{token}")
        if scope.resource.plural in self.refused:
            raise failure("forbidden")
        return page(*self.objects.get(scope.resource.plural, []))


def followed(cluster: Cluster, *, seconds: float = 30.0) -> tuple[Registry, list[str], list[bool]]:
    """What is served after so many seconds, which resources were listed, and whether it had settled."""
    registry, settled_after = Registry(), []

    async def run() -> None:
        source = ClusterSource(cluster, Observed(), HOME)
        loader, settled = Loader(source, registry), asyncio.Event()

        def changed() -> None:
            loader.load(0.0)

        def served() -> Iterable[Revision]:
            return registry.snapshot.revisions.values()

        registry.subscribe(source.served_changed)
        task = asyncio.create_task(source.follow(changed, served, settled))
        await asyncio.sleep(seconds)
        settled_after.append(settled.is_set())
        task.cancel()
        await asyncio.wait([task])

    in_fake_time(run())
    return registry, sorted({what.split()[1] for _, what in cluster.asked if what.startswith("list")}), settled_after


@pytest.mark.parametrize(
    ("values", "asked"),
    [
        ('{"global": {"tag": "1.24.6"}}', []),
        ('{"global": {"tag": "1.28.1"}}', ["nodes"]),
        ('{"global": {"tag": "1.28.1"}, "pilot": {"env": {"ENABLE_NATIVE_SIDECARS": "true"}}}', []),
        ('{"global": {"tag": "1.28.1", "platform": "openshift"}}', ["namespaces", "nodes"]),
        ('{"global": {"tag": "1.24.6", "platform": "openshift"}}', ["namespaces"]),
    ],
)
def test_nodes_and_namespaces_are_watched_only_where_a_revision_needs_them(values: str, asked: list[str]) -> None:
    _, listed, settled = followed(Cluster({"configmaps": pair(values=values)}))

    assert (listed, settled) == (sorted(["configmaps", "mutatingwebhookconfigurations", *asked]), [True])


def test_tags_without_their_revisions_are_not_read() -> None:
    source = ClusterSource(FakeClient([page()]), Observed())
    source._seen = {"mutatingwebhookconfigurations": {"w": TagWebhook("prod", "default", "w")}}

    assert source.read() == SourceState(())


def test_a_cluster_whose_config_maps_are_all_deleted_keeps_what_is_served() -> None:
    source, registry = ClusterSource(FakeClient([page()]), Observed(), HOME), Registry()
    loader = Loader(source, registry)
    source._seen = seen(*pair())
    loader.load(1.0)
    source._seen = seen()

    prepared = loader.prepare(2.0)

    assert prepared is not None
    report = loader.adopt(prepared)
    assert str(report.revisions["default"].error) == "there is no revision any more; add one"
    assert list(registry.snapshot.revisions) == ["default"]


def test_what_nodes_and_namespaces_say_is_in_the_revision_that_is_served() -> None:
    objects = {
        "configmaps": pair(values='{"global": {"tag": "1.28.1", "platform": "openshift"}}'),
        "nodes": [{"metadata": {"name": "n"}, "status": {"nodeInfo": {"kubeletVersion": "v1.33.0"}}}],
        "namespaces": [{"metadata": {"name": "app", "annotations": {UIDS: "1/2"}}}],
    }
    registry, _, _ = followed(Cluster(objects))

    revision = registry.snapshot.revisions["default"]
    assert (revision.node_versions, revision.namespaces) == (("v1.33.0",), {"app": {"annotations": {UIDS: "1/2"}}})


@pytest.mark.parametrize(
    ("refused", "settled"),
    [
        (("mutatingwebhookconfigurations",), True),
        (("nodes",), True),
        (("configmaps",), False),
    ],
)
def test_what_is_not_permitted_is_gone_without_but_for_the_config_maps(refused: tuple[str, ...], settled: bool) -> None:
    cluster = Cluster({"configmaps": pair(values='{"global": {"tag": "1.28.1"}}')}, refused=refused)
    registry, _, found = followed(cluster)

    assert (found, bool(registry.snapshot.revisions)) == ([settled], settled)


def test_the_client_is_opened_first_and_closed_last() -> None:
    cluster = Cluster({"configmaps": pair()})
    followed(cluster)

    assert (cluster.opened, cluster.closed) == (1, 1)


def test_credentials_that_cannot_be_used_end_it_before_it_begins() -> None:
    class Broken(Cluster):
        async def open(self) -> None:
            raise ConfigError("no credentials")

    source = ClusterSource(Broken({}), Observed(), HOME)

    async def run() -> None:
        await source.follow(lambda: None, lambda: (), asyncio.Event())

    with pytest.raises(ConfigError, match="no credentials"):
        in_fake_time(run())

"""Revisions from the ConfigMaps of a cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from injector.cluster.client import Page
from injector.cluster.resources import CONFIG_MAPS, NAMESPACES, NODES, PROXY_CONFIGS, Resource, Scope
from injector.errors import ClusterError, DataError
from injector.revisions import clustersource
from injector.revisions.clustersource import (
    ClusterSource,
    Watched,
    cluster_state,
    kubelet_version,
    openshift_annotations,
    shared_meshes,
    watched_resources,
)
from injector.revisions.configmaps import IstioConfigMap, istio_config_map, raw_revisions
from injector.revisions.directory import read_directory
from injector.revisions.registry import Registry
from injector.revisions.reload import Loader
from injector.revisions.source import ClusterFacts, RawRevision, SourceState, build
from injector.revisions.tags import TagObject
from tests.cases import cases
from tests.cluster.fakeapi import FakeApi
from tests.cluster.fakes import FakeClient, Observed, in_fake_time, page
from tests.revisions.fakes import CONFIG, VALUES
from tests.tasks import running

HOME = "istio-system"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": HOME, "labels": {"istio.io/rev": "x"}}, "data": data}


def revisions_of(*items: dict[str, Any]) -> tuple[tuple[RawRevision, ...], dict[str, DataError]]:
    """The revisions of ConfigMaps, and the errors."""
    halves = [half for item in items if (half := istio_config_map(item)) is not None]
    return raw_revisions(halves)


def config_maps(suffix: str = "", **data: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two ConfigMaps of a revision; keywords are further keys of the injector's."""
    return (
        config_map(f"istio-sidecar-injector{suffix}", **{"config": "c", **data}),
        config_map(f"istio{suffix}", mesh="{}", meshNetworks="n"),
    )


@cases("name", "kind", "revision")
def test_the_name_says_which_revision_it_is_of(name: str, kind: str, revision: str) -> None:
    half = istio_config_map(config_map(name, config="c", mesh="m"))

    assert half is not None
    assert (half.kind, half.revision, half.name) == (kind, revision, name)


@pytest.mark.parametrize(
    "other",
    [
        config_map("istio-cni-config", CNI_NETWORK_CONFIG="x"),
        config_map("istio-ca-root-cert", **{"root-cert.pem": "x"}),
        config_map("values-1-24", **{"original-values": "{}"}),
        config_map("istiod", mesh="m"),
        {"metadata": {"name": "istio-leader"}},
        {"metadata": {"name": "istio-x"}, "data": {"mesh": None}},
    ],
)
def test_other_config_maps_of_the_namespace_are_ignored(other: dict[str, Any]) -> None:
    assert istio_config_map(other) is None


def test_a_pair_is_a_revision_with_its_keys_and_the_places_of_them() -> None:
    (texts,), failures = revisions_of(*config_maps("-1-24", values='{"a": 1}'))

    assert (texts.name, texts.config, texts.values, texts.mesh) == ("1-24", "c", '{"a": 1}', "{}")
    assert texts.origin == "ConfigMap istio-system/istio-sidecar-injector-1-24"
    assert texts.files == {"mesh": "ConfigMap istio-system/istio-1-24: mesh"}
    assert (texts.settings, failures) == ({}, {})


def test_before_istio_1_2_there_are_no_values() -> None:
    (texts,), _ = revisions_of(config_map("istio-sidecar-injector", config="c"), config_map("istio"))

    assert (texts.values, texts.mesh) == (None, None)


@pytest.mark.parametrize(
    ("items", "name", "says"),
    [
        (
            config_maps("-1-24")[:1],
            "1-24",
            (
                "ConfigMap istio-system/istio-sidecar-injector-1-24: revision `1-24` has no ConfigMap istio-1-24; "
                "install istio-1-24 with label istio.io/rev, or delete istio-sidecar-injector-1-24"
            ),
        ),
        (
            config_maps("-1-24")[1:],
            "1-24",
            (
                "ConfigMap istio-system/istio-1-24: revision `1-24` has no ConfigMap istio-sidecar-injector-1-24; "
                "install istio-sidecar-injector-1-24 with label istio.io/rev, or delete istio-1-24"
            ),
        ),
        (config_maps()[1:], "default", "revision `default` has no ConfigMap istio-sidecar-injector; "),
        (
            (config_map("istio-sidecar-injector", values="{}"), config_maps()[1]),
            "default",
            "ConfigMap istio-system/istio-sidecar-injector: it has no key `config`; ",
        ),
        (config_maps(**{"revision.yaml": "- a"}), "default", "istio-sidecar-injector: revision.yaml: not a mapping; "),
        (config_maps(**{"revision.yaml": "a: ["}), "default", "istio-sidecar-injector: revision.yaml"),
    ],
)
def test_an_invalid_config_map_fails_only_its_revision(items: tuple[dict[str, Any], ...], name: str, says: str) -> None:
    revisions, failures = revisions_of(*items, *config_maps("-good"))

    assert [texts.name for texts in revisions] == ["good"]
    assert list(failures) == [name]
    assert says in str(failures[name])
    assert failures[name].hint


def test_each_revision_has_its_pair_and_the_default_one_that_of_istiod() -> None:
    revisions, _ = revisions_of(*config_maps("-default", values="other"), *config_maps(), *config_maps("-1-30"))

    assert [(texts.name, texts.origin.partition("/")[2], texts.values) for texts in revisions] == [
        ("1-30", "istio-sidecar-injector-1-30", None),
        ("default", "istio-sidecar-injector", None),
    ]


@cases("values", "own", "env")
def test_istiods_variables_are_those_of_revision_yaml_and_then_of_the_values(
    values: dict[str, Any], own: str | None, env: dict[str, str], tmp_path: Path
) -> None:
    texts = {"config": CONFIG, "values": json.dumps(values), **({} if own is None else {"revision.yaml": own})}
    (of_cluster,), _ = revisions_of(*config_maps(**texts))
    (tmp_path / "default").mkdir()
    for key, text in texts.items():
        (tmp_path / "default" / key).write_text(text)
    (of_folder,) = read_directory(tmp_path).revisions

    assert build(of_cluster).env == env
    assert build(of_folder).env == env
    assert build(of_folder).fingerprint == build(replace(of_cluster, mesh=None)).fingerprint


@pytest.mark.parametrize("values", ["{", "[]", "- a"])
def test_values_that_cannot_be_read_are_left_for_the_build_to_refuse(values: str) -> None:
    (texts,), _ = revisions_of(*config_maps(values=values))

    assert (texts.values, texts.settings) == (values, {})


def test_only_the_keys_of_a_revision_are_remembered() -> None:
    half = istio_config_map(config_map("istio-sidecar-injector", config="c", other="o"))

    assert half == IstioConfigMap("istio-sidecar-injector", "default", HOME, "istio-sidecar-injector", {"config": "c"})


def test_equal_configs_of_revisions_are_kept_once() -> None:
    first, second = (json.loads(json.dumps(config_maps(suffix, config=CONFIG))) for suffix in ("-1-24", "-1-30"))
    assert first[0]["data"]["config"] is not second[0]["data"]["config"]

    revisions, _ = revisions_of(*first, *second)

    assert revisions[0].config == CONFIG
    assert revisions[0].config is revisions[1].config


UIDS = "openshift.io/sa.scc.uid-range"


def small_pair(suffix: str = "", *, values: str = VALUES) -> tuple[dict[str, Any], dict[str, Any]]:
    return config_maps(suffix, config=CONFIG, values=values)


def remembered(*items: dict[str, Any], **others: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The remembered objects: these ConfigMaps, and those of other resources."""
    return {f"configmaps/{HOME}": {item["metadata"]["name"]: istio_config_map(item) for item in items}, **others}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [({UIDS: "1/2", "other": "x"}, {"annotations": {UIDS: "1/2"}}), ({"other": "x"}, None), (None, None)],
)
def test_only_openshift_annotations_of_a_namespace_are_remembered(annotations: Any, expected: Any) -> None:
    assert openshift_annotations({"metadata": {"name": "a", "annotations": annotations}}) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [({"nodeInfo": {"kubeletVersion": "v1.33.0", "x": 1}, "images": []}, "v1.33.0"), ({}, ""), (None, "")],
)
def test_only_the_kubelet_version_of_a_node_is_remembered(status: Any, expected: str) -> None:
    assert kubelet_version({"metadata": {"name": "a"}, "status": status}) == expected


def test_the_state_is_empty_before_the_first_list() -> None:
    assert ClusterSource(FakeClient([page()]), Registry(), Observed()).read() == SourceState(())


def test_revisions_tags_and_facts_are_what_was_seen() -> None:
    state = cluster_state(
        remembered(
            *small_pair(),
            *small_pair("-1-24"),
            mutatingwebhookconfigurations={"w": (TagObject("prod", "1-24", "w"), None)},
            nodes={"a": "v1.33.0", "b": "v1.32.1", "c": "v1.33.0"},
            namespaces={"n": {"annotations": {UIDS: "1/2"}}},
        ),
    )
    nodes = {"a": "v1.33.0", "b": "v1.32.1", "c": "v1.33.0"}
    facts = ClusterFacts(("v1.32.1", "v1.33.0"), {"n": {"annotations": {UIDS: "1/2"}}}, nodes)

    assert [(raw.name, raw.config, raw.facts) for raw in state.revisions] == [
        ("1-24", CONFIG, facts),
        ("default", CONFIG, facts),
    ]
    assert (state.tags["prod"].revision, state.facts, state.failures, state.tag_faults) == ("1-24", facts, {}, {})


def test_an_invalid_name_fails_only_its_revision_or_tag() -> None:
    webhooks = {
        "a": (TagObject("cluster", "default", "a"), None),
        "b": (TagObject("prod", "A.b", "b"), None),
        "c": (TagObject("good", "default", "c"), None),
    }
    state = cluster_state(
        remembered(*small_pair(), *small_pair("-net"), *small_pair("-x.y"), mutatingwebhookconfigurations=webhooks)
    )

    assert [raw.name for raw in state.revisions] == ["default"]
    assert sorted(state.failures) == ["net", "x.y"]
    assert (list(state.tags), list(state.tag_faults)) == (["good"], ["cluster", "prod"])


NODE = {"kind": "Node", "metadata": {"name": "a"}, "status": {"nodeInfo": {"kubeletVersion": "v1.33.0"}}}


def cluster_of(objects: Mapping[Resource, Iterable[dict[str, Any]]], *, refused: str = "") -> FakeApi:
    """An API server with objects, of which one resource cannot be listed."""
    api = FakeApi(refused={f"list {refused}": "forbidden"})
    for resource, items in objects.items():
        api.put(resource, *items)
    return api


def followed(cluster: FakeApi, *, seconds: float = 30.0) -> tuple[Registry, list[str], list[bool]]:
    """The registry after so many seconds, the listed resources, and whether the source had settled."""
    registry, settled_after = Registry(), []

    async def run() -> None:
        source = ClusterSource(cluster, registry, Observed(), (HOME,))
        loader, stable = Loader(source.read, registry), asyncio.Event()

        def changed() -> None:
            loader.load(0.0)

        async with running(source.follow(changed, stable)):
            await asyncio.sleep(seconds)
            settled_after.append(stable.is_set())

    in_fake_time(run)()
    return registry, sorted({what.split()[1] for what in cluster.requests if what.startswith("list")}), settled_after


def placed(namespace: str, *items: dict[str, Any]) -> list[dict[str, Any]]:
    """The ConfigMaps in another namespace."""
    return [{**item, "metadata": {**item["metadata"], "namespace": namespace}} for item in items]


@in_fake_time
async def test_control_planes_of_several_namespaces_are_served_together() -> None:
    api = cluster_of({CONFIG_MAPS: [*placed("one", *small_pair("-a")), *placed("two", *small_pair("-b"))]})
    for item in placed("three", *small_pair("-c")):
        api.put(CONFIG_MAPS, item)
    registry = Registry()
    source = ClusterSource(api, registry, Observed(), ("one", "two"))
    loader, ready = Loader(source.read, registry), asyncio.Event()

    def changed() -> None:
        loader.load(0.0)

    async with running(source.follow(changed, ready)):
        await ready.wait()
        assert sorted(registry.snapshot.revisions) == ["a", "b"]
        for item in placed("two", *small_pair("-a", values="{}")):
            api.put(CONFIG_MAPS, item)
        await asyncio.sleep(1.0)

    assert sorted(registry.snapshot.revisions) == ["a", "b"]  # the last good one
    assert str(loader.report.revisions["a"].error) == (
        "ConfigMap one/istio-sidecar-injector-a: revision `a` is also in ConfigMap two/istio-sidecar-injector-a; "
        "install one of the control planes with another revision"
    )


def shared(text: str) -> dict[str, Any]:
    """The ConfigMap that SHARED_MESH_CONFIG names, which has no label."""
    return {"metadata": {"name": "shared", "namespace": HOME}, "data": {"mesh": text}}


@in_fake_time
async def test_the_shared_mesh_config_that_istiod_is_told_of_is_watched() -> None:
    values = json.dumps({"pilot": {"env": {"SHARED_MESH_CONFIG": "shared"}}, "global": {"tag": "1.24.1"}})
    own = config_map("istio-a", mesh="{trustDomain: own}")
    api = cluster_of({CONFIG_MAPS: [config_map("istio-sidecar-injector-a", config=CONFIG, values=values), own]})
    api.put(CONFIG_MAPS, shared("{trustDomain: shared, rootNamespace: first}"))
    registry = Registry()
    source = ClusterSource(api, registry, Observed(), (HOME,))
    loader, ready = Loader(source.read, registry), asyncio.Event()

    def root_namespace() -> str:
        return registry.snapshot.revisions["a"].mesh.root_namespace

    def changed() -> None:
        loader.load(0.0)

    async with running(source.follow(changed, ready)):
        await ready.wait()
        assert root_namespace() == "first"
        assert registry.snapshot.revisions["a"].mesh.mesh_config.values["trustDomain"] == "own"
        api.put(CONFIG_MAPS, shared("{rootNamespace: second}"))
        await asyncio.sleep(1.0)
        assert root_namespace() == "second"
        api.put(CONFIG_MAPS, shared("rootNamespace: ["))
        await asyncio.sleep(1.0)
        assert root_namespace() == "istio-system"
        assert "ignoring the shared mesh config, as istiod does: " in loader.report.revisions["a"].notes[0]
        api.drop(CONFIG_MAPS, "shared", HOME)
        await asyncio.sleep(1.0)
        assert loader.report.revisions["a"].notes == ()


def sharing(name: str, shared_name: str) -> list[dict[str, Any]]:
    """The ConfigMaps of a revision whose istiod is told of a shared mesh config."""
    values = json.dumps({"pilot": {"env": {"SHARED_MESH_CONFIG": shared_name}}, "global": {"tag": "1.24.1"}})
    return [
        config_map(f"istio-sidecar-injector-{name}", config=CONFIG, values=values),
        config_map(f"istio-{name}", mesh="{}"),
    ]


class SecondRefused(FakeApi):
    """An API server that refuses to list the ConfigMap `second`, for a reason."""

    reason = ""

    async def page(self, scope: Scope, *, token: str = "", limit: int = 0) -> Page:
        if self.reason and scope.name == "second":
            raise ClusterError("the API server says no", where="https://api", reason=self.reason)
        return await super().page(scope, token=token, limit=limit)


@dataclass
class Sharing:
    """A server that follows a cluster, and the root namespaces of each revision as it was served, one after the other."""

    api: SecondRefused = field(default_factory=SecondRefused)
    registry: Registry = field(default_factory=Registry)
    served: dict[str, list[str]] = field(default_factory=dict)

    def note(self) -> None:
        for name, revision in self.registry.snapshot.revisions.items():
            known = self.served.setdefault(name, [])
            if known[-1:] != [revision.mesh.root_namespace]:
                known.append(revision.mesh.root_namespace)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        source = ClusterSource(self.api, self.registry, Observed(), (HOME,))
        loader, ready = Loader(source.read, self.registry), asyncio.Event()
        for name in ("first", "second"):
            text = {"mesh": f"rootNamespace: {name}"}
            self.api.put(CONFIG_MAPS, {"metadata": {"name": name, "namespace": HOME}, "data": text})
        self.api.put(CONFIG_MAPS, *sharing("old", "first"))

        def changed() -> None:
            loader.load(0.0)

        async with running(source.follow(changed, ready)):
            await ready.wait()
            self.note()
            self.registry.subscribe(self.note)
            yield


@in_fake_time
async def test_a_new_revision_is_not_served_without_its_shared_mesh_config() -> None:
    cluster = Sharing()
    async with cluster.following():
        cluster.api.put(CONFIG_MAPS, *sharing("new", "second"))
        await asyncio.sleep(1.0)

    assert cluster.served == {"old": ["first"], "new": ["second"]}


@in_fake_time
async def test_a_revision_with_another_shared_mesh_config_keeps_the_former_one_meanwhile() -> None:
    cluster = Sharing()
    async with cluster.following():
        cluster.api.put(CONFIG_MAPS, *sharing("old", "second"))
        await asyncio.sleep(1.0)

    assert cluster.served == {"old": ["first", "second"]}


@pytest.mark.parametrize(("name", "reason"), [("none", ""), ("second", "forbidden")])
def test_a_shared_mesh_config_that_cannot_be_had_is_not_waited_for(name: str, reason: str) -> None:
    cluster = Sharing()
    cluster.api.reason = reason

    async def follow() -> None:
        async with cluster.following():
            cluster.api.put(CONFIG_MAPS, *sharing("new", name))
            await asyncio.sleep(1.0)

    in_fake_time(follow)()
    assert cluster.served == {"old": ["first"], "new": ["istio-system"]}


@in_fake_time
async def test_a_shared_mesh_config_that_cannot_be_listed_keeps_back_one_revision() -> None:
    cluster = Sharing()
    cluster.api.reason = "server"
    async with cluster.following():
        cluster.api.put(CONFIG_MAPS, *sharing("new", "second"))
        await asyncio.sleep(1.0)
        cluster.api.put(CONFIG_MAPS, *sharing("other", "first"))
        await asyncio.sleep(1.0)
        assert cluster.served == {"old": ["first"], "other": ["first"]}
        cluster.api.reason = ""
        await asyncio.sleep(10.0)

    assert cluster.served == {"old": ["first"], "other": ["first"], "new": ["second"]}


@pytest.mark.parametrize("name", ["a,b", "a=b", "../a", "A", "a b", "a/b"])
def test_a_name_that_no_config_map_has_is_not_asked_for(name: str) -> None:
    values = json.dumps({"pilot": {"env": {"SHARED_MESH_CONFIG": name}}, "global": {"tag": "1.24.1"}})
    state = cluster_state(remembered(*small_pair(values=values)))

    assert [raw.name for raw in state.revisions] == ["default"]
    assert not shared_meshes(state, [HOME])


@in_fake_time
async def test_a_source_that_failed_watches_again_when_it_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    api, failures = FakeApi(), [ValueError()]
    source = ClusterSource(api, Registry(), Observed(), (HOME,))

    def watched(namespaces: Iterable[str]) -> dict[str, Watched]:
        if failures and source.read().revisions:
            raise failures.pop()
        return watched_resources(namespaces)

    monkeypatch.setattr(clustersource, "watched_resources", watched)
    for config_map in config_maps("-a"):
        api.put(CONFIG_MAPS, config_map)
    with pytest.raises(ExceptionGroup):
        await source.follow(lambda: None, asyncio.Event())
    async with running(source.follow(lambda: None, asyncio.Event())):
        for config_map in config_maps("-b"):
            api.put(CONFIG_MAPS, config_map)
        await asyncio.sleep(10)

    assert [raw.name for raw in source.read().revisions] == ["a", "b"]


@cases("values", "further")
def test_other_resources_are_watched_only_where_a_revision_needs_them(values: str, further: list[str]) -> None:
    _, listed, stable = followed(cluster_of({CONFIG_MAPS: small_pair(values=values)}))

    assert (listed, stable) == (sorted(["configmaps", "mutatingwebhookconfigurations", *further]), [True])


def test_tags_without_their_revisions_are_not_read() -> None:
    source = ClusterSource(FakeClient([page()]), Registry(), Observed())
    source.objects = {"mutatingwebhookconfigurations": {"w": TagObject("prod", "default", "w")}}

    assert source.read() == SourceState(())


def test_the_state_is_computed_once_for_each_change() -> None:
    source = ClusterSource(FakeClient([page()]), Registry(), Observed(), (HOME,))
    source.objects = remembered(*small_pair())
    before = source.read()
    assert source.read() is before

    source.objects = remembered(*small_pair(), *small_pair("-1-24"))

    assert [raw.name for raw in source.read().revisions] == ["1-24", "default"]


def test_a_cluster_whose_config_maps_are_all_deleted_keeps_what_is_served() -> None:
    registry = Registry()
    source = ClusterSource(FakeClient([page()]), registry, Observed(), (HOME,))
    loader = Loader(source.read, registry)
    source.objects = remembered(*small_pair())
    loader.load(1.0)
    source.objects = remembered()

    prepared = loader.prepare(2.0)

    assert prepared is not None
    report = loader.adopt(prepared)
    assert str(report.revisions["default"].error) == "all revisions have been removed; add a revision"
    assert list(registry.snapshot.revisions) == ["default"]


def test_served_revisions_have_the_facts_of_nodes_and_namespaces() -> None:
    objects: dict[Resource, Iterable[dict[str, Any]]] = {
        CONFIG_MAPS: small_pair(values='{"global": {"tag": "1.28.1", "platform": "openshift"}}'),
        NODES: [NODE],
        NAMESPACES: [{"metadata": {"name": "app", "annotations": {UIDS: "1/2"}}}],
    }
    registry, _, _ = followed(cluster_of(objects))

    revision = registry.snapshot.revisions["default"]
    assert (revision.node_versions, revision.namespaces) == (("v1.33.0",), {"app": {"annotations": {UIDS: "1/2"}}})


def a_proxy_config(concurrency: Any) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "shop"}
    return {"kind": "ProxyConfig", "metadata": metadata, "spec": {"concurrency": concurrency}}


def test_served_revisions_have_the_proxy_configs_that_can_be_read(caplog: pytest.LogCaptureFixture) -> None:
    broken = {"kind": "ProxyConfig", "metadata": {"name": "b", "namespace": "shop"}, "spec": {"concurrency": "hidden"}}
    objects: dict[Resource, Iterable[dict[str, Any]]] = {
        CONFIG_MAPS: small_pair(),
        PROXY_CONFIGS: [a_proxy_config(3), broken],
    }
    registry, _, stable = followed(cluster_of(objects))

    proxy_configs = registry.snapshot.revisions["default"].proxy_configs_of({"namespace": "shop"})
    assert ([(str(config), config.fields) for config in proxy_configs.below], stable) == (
        [("shop/a", {"concurrency": 3})],
        [True],
    )
    assert [record.getMessage() for record in caplog.records if "shop/b" in record.getMessage()] == [
        "ignoring ProxyConfig shop/b: it is not valid"
    ]


def test_a_replica_that_may_not_list_proxy_configs_is_ready_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    registry, _, stable = followed(cluster_of({CONFIG_MAPS: small_pair()}, refused="proxyconfigs"))

    assert (list(registry.snapshot.revisions), stable) == (["default"], [True])
    assert any(record.getMessage().startswith("proxyconfigs: ") for record in caplog.records)


@pytest.mark.parametrize("refused", ["", "configmaps", "mutatingwebhookconfigurations", "nodes"])
def test_everything_that_the_revisions_need_must_be_listed_once(refused: str) -> None:
    cluster = cluster_of({CONFIG_MAPS: small_pair(values='{"global": {"tag": "1.28.1"}}')}, refused=refused)
    _, _, stable = followed(cluster)

    assert stable == [not refused]


@in_fake_time
async def test_what_has_not_been_listed_yet_is_named_with_the_fault() -> None:
    source = ClusterSource(cluster_of({}, refused="mutatingwebhookconfigurations"), Registry(), Observed(), (HOME,))
    async with running(source.follow(lambda: None, asyncio.Event())):
        await asyncio.sleep(10)
        assert source.pending().startswith("mutatingwebhookconfigurations: https://api: the API server says no to list")

"""The revisions of a cluster, read and built once for commands."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from injector.errors import ClusterError, ConfigError
from injector.fleet.clusterrevisions import NO_NODES, build_all, list_state
from injector.injection.data import native_sidecar
from injector.revisions.source import ClusterFacts, Overrides, SourceState
from tests.cli.clusters import FakeKube, revision, tag
from tests.cli.clusters import cluster as reader_of
from tests.cluster.fakeapi import FakeApi
from tests.cluster.fakes import failure
from tests.factories import make_pod
from tests.revisions.fakes import VALUES, make_raw

HOME = "istio-system"
NODE = {"kind": "Node", "metadata": {"name": "a"}, "status": {"nodeInfo": {"kubeletVersion": "v1.33.0"}}}

ASKS = make_raw("1-30", values=VALUES.replace("1.24.6", "1.30.1"))


async def test_revisions_and_tags_are_those_of_the_cluster() -> None:
    objects = (*revision("1-24", "1.24.6"), *revision("1-30", "1.30.1")[:1], tag("prod", "1-24"))

    state = await list_state(reader_of(*objects), HOME)

    assert [raw.name for raw in state.revisions] == ["1-24"]
    assert list(state.failures) == ["1-30"]
    assert {name: tag.revision for name, tag in state.tags.items()} == {"prod": "1-24"}


async def test_another_namespace_has_no_revisions() -> None:
    assert (await list_state(reader_of(*revision("1-24", "1.24.6")), "elsewhere")).revisions == ()


async def test_the_nodes_are_asked_where_a_revision_depends_on_them() -> None:
    reader = reader_of(NODE)

    built = await build_all(reader, SourceState((ASKS, make_raw("1-24"))), {}, Overrides())

    assert built.revisions["1-30"].node_versions == ("v1.33.0",)
    assert (built.failures, built.notes) == ({}, ())


@pytest.mark.parametrize(
    ("raw", "overrides"),
    [
        (make_raw("1-24"), Overrides()),
        (ASKS, Overrides(node_versions=("v1.30.0",))),
        (replace(ASKS, settings={"nodeVersions": ["v1.30.0"]}), Overrides()),
    ],
)
async def test_nodes_are_not_listed_if_no_revision_needs_them_or_versions_are_given(
    raw: Any, overrides: Overrides
) -> None:
    built = await build_all(FakeApi(fault=failure("forbidden")), SourceState((raw,)), {}, overrides)

    assert [note.partition(",")[0] for note in built.notes] == ["ignoring ProxyConfigs"]
    assert built.revisions[raw.name].node_versions in (None, ("v1.30.0",))


async def test_without_the_permission_for_nodes_a_note_says_what_follows() -> None:
    built = await build_all(FakeApi(fault=failure("forbidden")), SourceState((ASKS,)), {}, Overrides())

    assert [note.partition(":")[0] for note in built.notes] == [
        "assuming no native sidecars, because the nodes cannot be listed",
        "ignoring ProxyConfigs, because they cannot be listed",
    ]
    with pytest.raises(ClusterError):
        await build_all(FakeApi(fault=failure("unreachable")), SourceState((ASKS,)), {}, Overrides())


async def test_a_failed_build_is_raised_on_access() -> None:
    broken, unread = make_raw("broken", config="templates: {sidecar: '{{ .x'}"), ConfigError("unread")
    state = SourceState((broken, make_raw("1-24")), {"unread": unread})

    built = await build_all(reader_of(), state, {"shop": {"annotations": {"a": "b"}}}, Overrides())

    assert list(built.revisions) == ["1-24"]
    assert set(built.failures) == {"broken", "unread"}
    assert built.revision(make_raw("1-24")).namespaces == {"shop": {"annotations": {"a": "b"}}}
    with pytest.raises(type(built.failures["broken"])):
        built.revision(broken)


async def test_facts_of_the_source_are_those_of_now() -> None:
    raw = make_raw("1-24", facts=ClusterFacts(("v1.1.0",)))

    built = await build_all(reader_of(), SourceState((raw,)), {}, Overrides())

    assert built.revisions["1-24"].node_versions is None


@pytest.mark.parametrize(("nodes", "expected"), [((), True), (("v1.33.0",), True), (("v1.33.0", ""), False)])
async def test_a_cluster_without_nodes_has_none_that_is_too_old(nodes: tuple[str, ...], expected: bool) -> None:
    listed = [
        {**NODE, "metadata": {"name": f"n{number}"}, "status": {"nodeInfo": {"kubeletVersion": version}}}
        for number, version in enumerate(nodes)
    ]

    built = await build_all(FakeKube(*listed), SourceState((ASKS,)), {}, Overrides())

    assert native_sidecar(built.revisions[ASKS.name], make_pod()) is expected


async def test_a_cluster_is_asked_for_no_more_than_config_maps_and_webhooks() -> None:
    client = FakeKube(*revision("1-24", "1.24.6"))

    await list_state(client, HOME)

    assert client.requests == [
        "list configmaps in istio-system istio.io/rev",
        "list mutatingwebhookconfigurations istio.io/rev",
    ]


@pytest.mark.parametrize(("name", "notes"), [("shared", 0), ("other", 1)])
def test_a_shared_mesh_config_that_is_not_there_is_noted_once(name: str, notes: int) -> None:
    objects = [*revision("1-24", "1.24.6")]
    objects[0]["data"]["values"] = json.dumps(
        {"pilot": {"env": {"SHARED_MESH_CONFIG": name}}, "global": {"tag": "1.24.6"}}
    )
    metadata = {"name": "shared", "namespace": HOME}  # without a label
    objects.append(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"mesh": "rootNamespace: root"}}
    )
    for reader in reader_of(*objects), FakeKube(*objects):
        built = asyncio.run(build_all(reader, asyncio.run(list_state(reader, HOME)), {}, Overrides()))

        note = "revision 1-24: its shared mesh config, ConfigMap other, is not there; its own is used alone"
        assert built.notes == (note,) * notes
        assert built.revisions["1-24"].mesh.root_namespace == ("istio-system" if notes else "root")


def test_variables_that_only_the_deployment_of_istiod_has_are_named() -> None:
    env = [{"name": "ENABLE_NATIVE_SIDECARS", "value": "true"}, {"name": "PLATFORM", "value": ""}, {"name": "REVISION"}]
    istiod = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "istiod-1-24", "namespace": HOME, "labels": {"app": "istiod", "istio.io/rev": "1-24"}},
        "spec": {"template": {"spec": {"containers": [{"name": "discovery", "env": env}]}}},
    }
    objects = [*revision("1-24", "1.24.6"), istiod]
    stated = Overrides(env={"ENABLE_NATIVE_SIDECARS": "true"})
    for reader in reader_of(*objects), FakeKube(*objects):
        state = asyncio.run(list_state(reader, HOME))

        (note,) = asyncio.run(build_all(reader, state, {}, Overrides())).notes
        assert note.startswith(
            "revision 1-24: variables of the Deployment of istiod are not read, ENABLE_NATIVE_SIDECARS=true;"
        )
        assert asyncio.run(build_all(reader, state, {}, stated)).notes == ()
    refused = FakeKube(*objects, forbidden=("deployments",))
    assert asyncio.run(build_all(refused, asyncio.run(list_state(refused, HOME)), {}, Overrides())).notes == ()


@pytest.mark.parametrize(("node", "versions"), [((), None), (("v1.33.0",), ("v1.33.0",))])
def test_files_without_nodes_do_not_tell_their_versions(node: tuple[str, ...], versions: object) -> None:
    nodes = [
        {
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": {"name": "a"},
            "status": {"nodeInfo": {"kubeletVersion": version}},
        }
        for version in node
    ]
    for reader in reader_of(*revision("1-30", "1.30.1"), *nodes), FakeKube(*revision("1-30", "1.30.1"), *nodes):
        built = asyncio.run(build_all(reader, asyncio.run(list_state(reader, HOME)), {}, Overrides()))

        expected = versions if node or not reader.is_complete else ()
        assert built.revisions["1-30"].node_versions == expected
        assert built.notes == ((NO_NODES,) if expected is None else ())


async def test_a_command_reads_the_proxy_configs_of_the_cluster() -> None:
    raw, metadata = make_raw("1-24", facts=ClusterFacts()), {"name": "a", "namespace": "shop"}
    item = {"kind": "ProxyConfig", "metadata": metadata, "spec": {"concurrency": 3}}

    built = await build_all(reader_of(item), SourceState((raw,)), {}, Overrides())

    assert list(map(str, built.revisions["1-24"].proxy_configs_of({"namespace": "shop"}).below)) == ["shop/a"]
    assert (await build_all(FakeApi(fault=failure("missing")), SourceState((raw,)), {}, Overrides())).notes == ()

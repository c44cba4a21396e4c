from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from injector.cluster.reader import ClusterReader
from injector.errors import ClusterError, ConfigError
from injector.revisions.build import Overrides
from injector.revisions.clusterlist import built_with_facts, listed_state
from injector.revisions.source import ClusterFacts, SourceState
from tests.cli.clusters import HOME, FakeKube, Refusing, cluster, revision, tag
from tests.revisions.fakes import VALUES, make_raw

NODE = {"kind": "Node", "metadata": {"name": "a"}, "status": {"nodeInfo": {"kubeletVersion": "v1.33.0"}}}
ASKS = make_raw("1-30", values=VALUES.replace("1.24.6", "1.30.1"))


async def test_revisions_and_tags_are_those_of_the_cluster() -> None:
    objects = (*revision("1-24", "1.24.6"), *revision("1-30", "1.30.1")[:1], tag("prod", "1-24"))

    state = await listed_state(cluster(*objects), HOME)

    assert [raw.name for raw in state.revisions] == ["1-24"]
    assert list(state.failures) == ["1-30"]
    assert {name: found.revision for name, found in state.tags.items()} == {"prod": "1-24"}


async def test_of_another_namespace_there_are_none() -> None:
    assert (await listed_state(cluster(*revision("1-24", "1.24.6")), "elsewhere")).revisions == ()


async def test_the_nodes_are_asked_where_a_revision_depends_on_them() -> None:
    reader = cluster(NODE)

    built = await built_with_facts(reader, SourceState((ASKS, make_raw("1-24"))), {}, Overrides())

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
async def test_they_are_not_asked_where_none_does_or_the_answer_is_given(raw: Any, overrides: Overrides) -> None:
    built = await built_with_facts(Refusing("forbidden"), SourceState((raw,)), {}, overrides)

    assert built.notes == ()
    assert built.revisions[raw.name].node_versions in ((), ("v1.30.0",))


async def test_without_the_permission_for_nodes_a_note_says_what_follows() -> None:
    built = await built_with_facts(Refusing("forbidden"), SourceState((ASKS,)), {}, Overrides())

    assert [note.partition(":")[0] for note in built.notes] == [
        "native sidecars are taken to be off, since the nodes cannot be asked"
    ]
    with pytest.raises(ClusterError):
        await built_with_facts(Refusing("unreachable"), SourceState((ASKS,)), {}, Overrides())


async def test_what_cannot_be_built_or_read_is_told_when_it_is_asked_for() -> None:
    broken, unread = make_raw("broken", config="templates: {sidecar: '{{ .x'}"), ConfigError("unread")
    state = SourceState((broken, make_raw("1-24")), {"unread": unread})

    built = await built_with_facts(cluster(), state, {"shop": {"annotations": {"a": "b"}}}, Overrides())

    assert list(built.revisions) == ["1-24"]
    assert set(built.failures) == {"broken", "unread"}
    assert built.revision(make_raw("1-24")).namespaces == {"shop": {"annotations": {"a": "b"}}}
    with pytest.raises(type(built.failures["broken"])):
        built.revision(broken)


async def test_facts_of_the_source_are_those_of_now() -> None:
    raw = make_raw("1-24", facts=ClusterFacts(("v1.1.0",)))

    built = await built_with_facts(cluster(), SourceState((raw,)), {}, Overrides())

    assert built.revisions["1-24"].node_versions == ()


async def test_a_cluster_is_asked_for_no_more_than_config_maps_and_webhooks() -> None:
    client = FakeKube(*revision("1-24", "1.24.6"))

    await listed_state(ClusterReader(client), HOME)

    assert client.asked == ["list configmaps in istio-system", "list mutatingwebhookconfigurations"]

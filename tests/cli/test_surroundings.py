from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from injector.cli.clusterview import NAME_LABEL, Sources, read_revisions, read_surroundings
from injector.cluster.reader import ClusterReader
from injector.errors import ClusterError, DataError, UsageError
from tests.cli.clusters import HOME, FakeKube, cluster, labelled, revision, tag
from tests.revisions.fakes import CONFIG

if TYPE_CHECKING:
    from pathlib import Path

OBJECTS = (*revision("1-24", "1.24.6"), tag("prod", "1-24"), labelled("shop", "prod"), labelled("other", "1-24"))
FROM_CLUSTER = Sources(None, HOME)


def test_all_that_decides_about_pods_is_read() -> None:
    around = asyncio.run(read_surroundings(cluster(*OBJECTS), FROM_CLUSTER, None))

    assert list(around.built.revisions) == ["1-24"]
    assert {each.path for each in around.webhooks} == {"/inject/1-24", "/inject/prod"}
    assert around.namespaces == {
        "shop": {"istio.io/rev": "prod", NAME_LABEL: "shop"},
        "other": {"istio.io/rev": "1-24", NAME_LABEL: "other"},
    }
    assert around.revisions.where == "the configmaps of namespace istio-system"


def test_of_one_namespace_no_list_of_all_is_asked_for() -> None:
    client = FakeKube(*OBJECTS, forbidden=("namespaces",))

    around = asyncio.run(read_surroundings(ClusterReader(client), FROM_CLUSTER, "shop"))

    assert list(around.namespaces) == ["shop"]
    assert "get namespaces /shop" in client.asked
    with pytest.raises(ClusterError, match='cannot list resource "namespaces"'):
        asyncio.run(read_surroundings(ClusterReader(client), FROM_CLUSTER, None))


def test_openshifts_annotations_of_namespaces_reach_the_revisions() -> None:
    annotations = {"openshift.io/sa.scc.uid-range": "1000/10"}
    shop = {"kind": "Namespace", "metadata": {"name": "shop", "annotations": annotations}}

    around = asyncio.run(read_surroundings(cluster(*OBJECTS[:3], shop), FROM_CLUSTER, None))

    assert around.built.revisions["1-24"].namespaces == {"shop": {"annotations": annotations}}


def test_a_folder_of_revisions_takes_the_place_of_the_clusters(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config").write_text(CONFIG)

    found = asyncio.run(read_revisions(cluster(*OBJECTS), Sources(tmp_path, HOME)))

    assert [raw.name for raw in found.state.revisions] == ["own"]
    assert (found.where, found.tags_where) == (str(tmp_path), f"{tmp_path}/tags.yaml")

    (tmp_path / "tags.yaml").write_text("[")
    with pytest.raises(DataError, match=r"tags\.yaml"):
        asyncio.run(read_revisions(cluster(), Sources(tmp_path, HOME)))


def test_without_any_revision_it_is_said_where_they_were_looked_for() -> None:
    with pytest.raises(UsageError) as caught:
        asyncio.run(read_revisions(cluster(*OBJECTS), Sources(None, "elsewhere")))

    assert str(caught.value) == (
        "the configmaps of namespace elsewhere: there is no revision of Istio's; "
        "give --revisions-dir or --istio-namespace"
    )

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from injector.cli.clusterview import read_objects, reading
from injector.cluster.kubeconfig import Kubeconfig
from injector.cluster.reader import CONFIG_MAPS, NAMESPACES, PODS, Resource, Scope
from injector.errors import ManifestError, UsageError
from tests.cli.clusters import FakeKube, cluster, labelled, reached
from tests.factories import make_pod

if TYPE_CHECKING:
    from pathlib import Path

    from injector.cluster.reader import Reader

PODS_HERE = [make_pod("a", namespace="shop"), make_pod("b", namespace="other", labels={"app": "x"})]
SHOP = labelled("shop", "prod")


def names(reader: Reader, scope: Scope) -> list[str]:
    return asyncio.run(_names(reader, scope))


async def _names(reader: Reader, scope: Scope) -> list[str]:
    return await reader.all(scope, lambda item: item["metadata"]["name"])


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        (Scope(PODS), ["a", "b"]),
        (Scope(PODS, "shop"), ["a"]),
        (Scope(PODS, labels="app"), ["b"]),
        (Scope(PODS, labels="app=x"), ["b"]),
        (Scope(PODS, labels="app=y"), []),
        (Scope(NAMESPACES), ["shop"]),
        (Scope(CONFIG_MAPS), []),
    ],
)
def test_a_scope_is_read_as_of_a_cluster(scope: Scope, found: list[str]) -> None:
    assert names(cluster(*PODS_HERE, SHOP), scope) == found


def test_what_is_not_kept_is_left_out() -> None:
    assert asyncio.run(cluster(*PODS_HERE).all(Scope(PODS), lambda _: None)) == []


@pytest.mark.parametrize(
    ("resource", "name", "place", "says"),
    [
        (PODS, "a", "other", "memory: there is no Pod other/a; add it, or name another"),
        (NAMESPACES, "x", "", "memory: there is no Namespace x; add it, or name another"),
    ],
)
def test_one_object_is_found_by_its_name_or_missed(resource: Resource, name: str, place: str, says: str) -> None:
    reader = cluster(*PODS_HERE, SHOP)

    assert asyncio.run(reader.one(PODS, "a", namespace="shop")) == PODS_HERE[0]
    with pytest.raises(ManifestError) as caught:
        asyncio.run(reader.one(resource, name, namespace=place))
    assert str(caught.value) == says


def as_list(kind: str, *items: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "items": list(items)}


@pytest.mark.parametrize(
    "text",
    [
        yaml.safe_dump_all([*PODS_HERE, SHOP]),
        yaml.safe_dump(as_list("List", *PODS_HERE, SHOP)),
        json.dumps(as_list("List", *PODS_HERE, SHOP)),
        "---\n" + yaml.safe_dump(as_list("List", as_list("List", *PODS_HERE), SHOP)),
        "text\n---\n" + yaml.safe_dump_all([SHOP, *PODS_HERE]),
    ],
    ids=["documents", "a List", "JSON", "a List in a List", "with what is no object"],
)
def test_objects_are_read_from_a_file(text: str, tmp_path: Path) -> None:
    (tmp_path / "all").write_text(text)
    reader = read_objects([str(tmp_path / "all")], recursive=False)

    assert (names(reader, Scope(PODS)), names(reader, Scope(NAMESPACES))) == (["a", "b"], ["shop"])


def test_the_items_of_a_pod_list_are_pods(tmp_path: Path) -> None:
    bare = [{key: pod[key] for key in ("metadata", "spec")} for pod in PODS_HERE]
    (tmp_path / "pods.json").write_text(json.dumps(as_list("PodList", *bare)))

    assert names(read_objects([str(tmp_path)], recursive=False), Scope(PODS)) == ["a", "b"]


@pytest.mark.parametrize("text", ["", "{}", "[]", "# nothing\n"])
def test_a_file_without_an_object_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(text)

    with pytest.raises(ManifestError, match="there is no object in the files"):
        read_objects([str(tmp_path / "all.yaml")], recursive=False)
    with pytest.raises(UsageError):
        read_objects([], recursive=False)


def test_the_line_of_a_fault_is_the_files(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text("a: b\n---\nc: [\n")

    with pytest.raises(ManifestError, match=r"all\.yaml.*line 4"):
        read_objects([str(tmp_path / "all.yaml")], recursive=False)


def test_files_are_read_where_they_are_named_and_else_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "all.yaml").write_text(yaml.safe_dump(PODS_HERE[0]))
    reached(monkeypatch, FakeKube(*PODS_HERE))

    def work(reader: Reader) -> Any:
        return _names(reader, Scope(PODS))

    assert reading([str(tmp_path / "all.yaml")], Kubeconfig(), work) == ["a"]
    assert reading([], Kubeconfig(), work) == ["a", "b"]

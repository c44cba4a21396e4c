from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from injector.cli.inputs import Workloads, read_workloads
from injector.errors import ManifestError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

SHOP = "kind: Namespace\nmetadata: {name: shop, labels: {istio.io/rev: prod, size: 1}}\n"
PODS = "kind: Pod\nmetadata: {name: a, namespace: shop}\n---\nkind: Pod\nmetadata: {name: b}\n"


def read(folder: Path, text: str, namespace: str | None = None) -> Workloads:
    (folder / "m.yaml").write_text(text)
    return read_workloads((str(folder / "m.yaml"),), recursive=False, namespace=namespace)


def test_every_workload_is_read_in_order_with_its_namespace(tmp_path: Path) -> None:
    found = read(tmp_path, f"{SHOP}---\n{PODS}")

    assert [str(each) for each in found.created] == ["Pod shop/a", "Pod default/b"]
    assert found.namespaces == ("shop", "default")
    assert found.namespace_labels == {"shop": {"istio.io/rev": "prod", "size": "1"}}


def test_a_namespace_is_lent_to_workloads_that_name_none(tmp_path: Path) -> None:
    assert [str(each) for each in read(tmp_path, PODS, "lent").created] == ["Pod shop/a", "Pod lent/b"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (SHOP, "m.yaml: there is no workload in the files; name a manifest with a Pod"),
        ("kind: Pod\n---\nkind: Deployment\nmetadata: {name: d}\n", "m.yaml:3: Deployment d: "),
        ("kind: Namespace\nmetadata: text\n", "m.yaml:1: Namespace: "),
        ("kind: Pod\n\ta: b\n", "m.yaml: yaml: line 2"),
    ],
)
def test_bad_input_is_named_by_its_place(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ManifestError) as raised:
        read(tmp_path, text)

    assert says in str(raised.value)


def test_no_file_at_all_is_a_wrong_use() -> None:
    with pytest.raises(UsageError):
        read_workloads((), recursive=False, namespace=None)

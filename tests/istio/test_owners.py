"""Which tool writes an object again: by its owner, its labels and its annotations."""

from __future__ import annotations

from typing import Any

from injector.istio.webhooks.owners import owner_of
from tests.cases import cases


def item_with(*, labels: Any = None, annotations: Any = None, owners: Any = None, manager: str = "") -> dict[str, Any]:
    fields = {"labels": labels, "annotations": annotations, "ownerReferences": owners}
    metadata = {"name": "istio-revision-tag-prod", "managedFields": [{"manager": manager}] if manager else None}
    return {"metadata": {**metadata, **{key: value for key, value in fields.items() if value is not None}}}


@cases("item", "owner")
def test_an_object_names_the_tool_that_writes_it_again(item: dict[str, Any], owner: str) -> None:
    assert str(owner_of(item_with(**item)) or "") == owner


def test_only_a_controller_reverts_a_change_within_seconds() -> None:
    owned = {"kind": "IstioRevisionTag", "name": "prod", "controller": True}
    answers = [owner_of(item_with(owners=[{**owned, **more}])) for more in ({}, {"controller": False})]
    synced = owner_of(item_with(annotations={"argocd.argoproj.io/tracking-id": "mesh:/x"}))

    assert [owner is not None and owner.is_controller for owner in (*answers, synced)] == [True, False, False]

"""The described objects of Istio are those that istioctl printed."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.istio.goldens import LAST_APPLIED, OWNERS, REVISIONS, TAGS, golden
from tests.needs import CORPUS

WEBHOOKS = CORPUS / "webhooks"


def without_owners(obj: dict[str, Any]) -> dict[str, Any]:
    """The object without the labels of its owner, also in the copy of the applied configuration."""
    metadata = obj["metadata"]
    for label in OWNERS:
        del metadata["labels"][label]
    if applied := metadata.get("annotations", {}).get(LAST_APPLIED):
        metadata["annotations"][LAST_APPLIED] = without_owners(json.loads(applied))
    return obj


def described(name: str, kind: str) -> dict[str, Any]:
    result = golden(name, kind)
    if applied := result["metadata"].get("annotations", {}).get(LAST_APPLIED):
        result["metadata"]["annotations"][LAST_APPLIED] = json.loads(applied)
    return result


@pytest.mark.needs("corpus")
@pytest.mark.parametrize("name", [*(f"revision-{revision}" for revision in REVISIONS), *TAGS])
def test_each_object_is_the_one_that_istioctl_printed(name: str) -> None:
    documents = [document for document in yaml.safe_load_all((WEBHOOKS / f"{name}.yaml").read_text()) if document]

    assert documents
    assert [described(name, document["kind"]) for document in documents] == [
        without_owners(document) for document in documents
    ]


@pytest.mark.needs("corpus")
def test_the_list_of_tags_has_istioctls_layout() -> None:
    tags = [
        {"tag": "default", "revision": "1-24", "namespaces": []},
        {"tag": "prod", "revision": "1-30", "namespaces": []},
    ]

    assert (WEBHOOKS / "tag-list.json").read_text() == json.dumps(tags, indent="\t") + "\n"

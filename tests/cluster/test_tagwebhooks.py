from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from injector.cluster.webhooks import TagWebhook, tag_webhook, tag_webhooks

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "webhooks"


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"istio.io/tag": "prod", "istio.io/rev": "1-24"}, TagWebhook("prod", "1-24", "w")),
        ({"istio.io/tag": "prod"}, TagWebhook("prod", "default", "w")),
        ({"istio.io/tag": "prod", "istio.io/rev": ""}, TagWebhook("prod", "default", "w")),
        ({"istio.io/rev": "1-24"}, None),
        ({"istio.io/tag": ""}, None),
        (None, None),
    ],
)
def test_a_webhook_is_a_tags_by_its_label(labels: dict[str, str] | None, expected: TagWebhook | None) -> None:
    assert tag_webhook({"metadata": {"name": "w", "labels": labels}}) == expected


def test_each_tag_has_its_revision() -> None:
    prod, test = TagWebhook("prod", "a", "w1"), TagWebhook("test", "b", "w2")

    assert tag_webhooks([test, prod]) == ({"prod": prod, "test": test}, {})


def test_a_tag_of_two_objects_that_agree_is_one() -> None:
    first, second = TagWebhook("prod", "a", "w1"), TagWebhook("prod", "a", "w2")

    assert tag_webhooks([second, first]) == ({"prod": first}, {})


def test_a_tag_of_two_objects_that_differ_is_none_and_both_are_named() -> None:
    tags, faults = tag_webhooks(
        [TagWebhook("prod", "b", "w2"), TagWebhook("prod", "a", "w1"), TagWebhook("x", "a", "w")]
    )

    assert list(tags) == ["x"]
    assert {tag: str(fault) for tag, fault in faults.items()} == {
        "prod": "tag `prod`: several MutatingWebhookConfigurations have it: w1 (a), w2 (b); delete all but one"
    }


def test_objects_that_differ_in_our_own_annotations_differ() -> None:
    salted = TagWebhook("prod", "a", "w2", {"revision-injector/salt": "spring"})

    assert list(tag_webhooks([TagWebhook("prod", "a", "w1"), salted])[1]) == ["prod"]


def test_of_the_annotations_only_our_own_are_remembered() -> None:
    annotations = {"revision-injector/salt": "spring", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    found = tag_webhook({"metadata": {"name": "w", "labels": {"istio.io/tag": "a"}, "annotations": annotations}})

    assert found == TagWebhook("a", "default", "w", {"revision-injector/salt": "spring"})


@pytest.mark.parametrize(
    ("file", "tag", "revision"),
    [
        ("tag-prod.yaml", "prod", "1-24"),
        ("tag-canary.yaml", "canary", "1-30"),
        ("tag-default.yaml", "default", "1-24"),
        ("tag-default-auto.yaml", "default", "1-30"),
        ("tag-odd-webhook-name.yaml", "odd", "1-24"),
        ("revision-1-24.yaml", None, None),
        ("revision-default.yaml", None, None),
    ],
)
def test_what_istioctl_prints_is_the_tag_that_it_was_asked_for(
    file: str, tag: str | None, revision: str | None
) -> None:
    if not CORPUS.exists():
        pytest.skip("the corpus is not beside the project: ../shared/corpus")
    documents = yaml.safe_load_all((CORPUS / file).read_text())
    webhooks = [each for each in documents if each and each["kind"] == "MutatingWebhookConfiguration"]
    tags = [found for webhook in webhooks if (found := tag_webhook(webhook)) is not None]

    assert [(found.tag, found.revision) for found in tags] == ([] if tag is None else [(tag, revision)])

from __future__ import annotations

from typing import Any

import pytest

from injector.istio.webhooks import WebhookOptions, deactivated, overlaps, revision_webhook, tag_webhook
from tests.istio.goldens import golden

PLAIN = WebhookOptions()


def told(*names: str) -> str:
    return f"Webhook overlaps with others: [{' '.join(names)}]. This may cause injection to occur twice."


def test_istios_own_configurations_do_not_overlap() -> None:
    others = [golden("revision-1-24"), golden("revision-1-30"), golden("tag-canary")]

    assert overlaps(golden("tag-prod"), others) == ()
    assert overlaps(golden("tag-default"), others) == ()


def test_the_default_tag_overlaps_with_a_default_revision_that_is_not_deactivated() -> None:
    revision = revision_webhook("default", PLAIN)
    found = overlaps(tag_webhook("default", "1-24", PLAIN), [revision])

    suffix = "sidecar-injector.istio.io"
    assert found == tuple(
        told(f"istio-sidecar-injector/{prefix}.{suffix}")
        for prefix in ("rev.namespace", "rev.object", "namespace", "object")
    )
    assert overlaps(tag_webhook("default", "1-24", PLAIN), [deactivated(revision)]) == ()


def test_what_takes_everything_overlaps_with_each_webhook() -> None:
    everything = {"metadata": {"name": "x"}, "webhooks": [{"name": "all.istio.io"}]}

    assert overlaps(tag_webhook("prod", "1-24", PLAIN), [everything]) == (told("x/all.istio.io"),)


def test_webhooks_of_one_object_may_not_overlap_either() -> None:
    twice = {"metadata": {"name": "x", "labels": {"istio.io/rev": "a"}}, "webhooks": [{"name": "a"}, {"name": "b"}]}

    assert overlaps(twice, []) == (told("x/b"), told("x/a"))


@pytest.mark.parametrize(
    "other",
    [
        {"metadata": {"name": "theirs"}, "webhooks": [{"name": "mutate.kyverno.svc"}]},
        {"metadata": {"name": "empty"}},
        {
            "metadata": {"name": "x"},
            "webhooks": [{"name": "a.istio.io", "namespaceSelector": {"matchLabels": {"!": "x"}}}],
        },
        {
            "metadata": {"name": "x"},
            "webhooks": [{"name": "a.istio.io", "namespaceSelector": {"matchLabels": {"istio.io/rev": "other"}}}],
        },
    ],
)
def test_what_is_not_istios_or_takes_other_pods_does_not_matter(other: dict[str, Any]) -> None:
    assert overlaps(tag_webhook("prod", "1-24", PLAIN), [other]) == ()


def test_a_revision_that_only_a_selector_names_counts() -> None:
    selector = {"matchExpressions": [{"key": "istio.io/rev", "operator": "In", "values": ["blue", "prod"]}]}
    other = {"metadata": {"name": "x"}, "webhooks": [{"name": "a.istio.io", "namespaceSelector": selector}]}

    assert overlaps(tag_webhook("prod", "1-24", PLAIN), [other]) == (told("x/a.istio.io"),)
    assert overlaps(tag_webhook("green", "1-24", PLAIN), [other]) == ()

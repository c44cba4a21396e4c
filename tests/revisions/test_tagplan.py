from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from injector.errors import TagError
from injector.istio.webhooks import Endpoint, WebhookOptions, deactivated, revision_webhook, tag_webhook
from injector.revisions.tagplan import Configurations, Placement, planned, planned_revision
from injector.revisions.tags import Tag
from tests.istio.goldens import golden

HERE = WebhookOptions(Endpoint("our", "ours", 8443), failure_policy="Ignore", timeout=7)
PROD = Tag("prod", (("1-24", 1),))
DEFAULT = Tag("default", (("1-24", 1),))
CERT_MANAGER = "cert-manager.io/inject-ca-from"


def stored(configuration: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """A configuration as a cluster has it."""
    metadata = {**configuration["metadata"], "resourceVersion": "7", "managedFields": []}
    return {**configuration, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}


def seen(*items: dict[str, Any]) -> Configurations:
    return Configurations(tuple(items))


def test_a_tag_of_a_revision_without_a_configuration_is_as_the_flags_say() -> None:
    plan = planned(PROD, seen(), Placement(lambda _: HERE, "my-hook"))

    assert plan.manifest == tag_webhook("prod", "1-24", HERE, webhook_name="my-hook")
    assert (plan.applied, plan.moves, plan.conflicts, plan.deactivation) == (plan.manifest, False, (), None)


def test_what_the_revisions_own_configuration_says_is_copied_as_istioctl_does() -> None:
    trusted = replace(HERE, ca_bundle="Q0E=")
    annotations = {
        CERT_MANAGER: "a/b",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "revision-injector/salt": "x",
    }
    plan = planned(PROD, seen(stored(revision_webhook("1-24", trusted), **annotations)), Placement())

    assert plan.manifest == tag_webhook("prod", "1-24", trusted, annotations={CERT_MANAGER: "a/b"})


def test_a_url_that_is_copied_is_the_tags_own() -> None:
    by_url = WebhookOptions(Endpoint(url="https://here:9443"))

    plan = planned(PROD, seen(stored(revision_webhook("1-24", by_url))), Placement())

    assert plan.manifest["webhooks"][0]["clientConfig"] == {"url": "https://here:9443/inject/prod"}


def test_a_bundle_is_not_copied_for_another_server_nor_where_that_is_not_wanted() -> None:
    canonical = seen(stored(revision_webhook("1-24", replace(HERE, ca_bundle="Q0E="))))

    for placement in (Placement(lambda _: WebhookOptions()), Placement(trusts=False)):
        assert planned(PROD, canonical, placement).options.ca_bundle is None


def test_what_istios_own_configuration_says_is_not_for_the_injector() -> None:
    plan = planned(PROD, seen(stored(golden("revision-1-24"), **{CERT_MANAGER: "a/b"})), Placement())

    assert plan.manifest == tag_webhook("prod", "1-24", WebhookOptions())
    assert plan.conflicts == ()


def test_a_tag_that_moves_stays_in_its_object_and_sends_its_pods_where_it_did() -> None:
    current = stored(tag_webhook("prod", "1-30", HERE, webhook_name="my-hook"), **{CERT_MANAGER: "a/b"})
    plan = planned(PROD, seen(current), Placement())

    expected = tag_webhook("prod", "1-24", HERE, webhook_name="my-hook", annotations={CERT_MANAGER: "a/b"})
    assert plan.manifest == expected
    assert (plan.moves, plan.applied["metadata"]["resourceVersion"]) == (True, "7")


def test_what_a_tag_says_beside_its_revision_is_in_annotations() -> None:
    plan = planned(Tag("prod", (("1-24", 9), ("1-30", 1)), "spring"), seen(), Placement())

    assert plan.manifest["metadata"]["annotations"] == {
        "revision-injector/weights": '{"1-24":9,"1-30":1}',
        "revision-injector/salt": "spring",
    }


def test_the_default_tag_ends_the_webhooks_of_the_default_revision() -> None:
    revision = stored(revision_webhook("default", WebhookOptions()))
    plan = planned(DEFAULT, seen(revision), Placement())

    never = {"matchLabels": {"istio.io/deactivated": "never-match"}}
    assert plan.conflicts == ()
    assert plan.deactivation == {
        "metadata": {"name": "istio-sidecar-injector", "resourceVersion": "7"},
        "webhooks": [
            {"name": webhook["name"], "namespaceSelector": never, "objectSelector": never}
            for webhook in revision["webhooks"]
        ],
    }
    assert planned(DEFAULT, seen(deactivated(revision)), Placement()).deactivation is None
    assert planned(PROD, seen(revision), Placement()).deactivation is None


def test_what_takes_the_same_pods_speaks_against_it() -> None:
    other = stored(tag_webhook("prod", "1-30", WebhookOptions(), webhook_name="other"))
    other["metadata"]["labels"] = {}

    conflicts = planned(PROD, seen(other), Placement()).conflicts

    for webhook, conflict in zip(("rev.namespace", "rev.object"), conflicts, strict=True):
        assert f"overlaps with others: [other/{webhook}.sidecar-injector.istio.io]" in conflict


@pytest.mark.parametrize(
    ("tag", "items", "name", "says"),
    [
        (
            PROD,
            [tag_webhook("prod", "1-24", HERE, webhook_name=name) for name in ("a", "b")],
            None,
            'cannot modify tag "prod": several MutatingWebhookConfigurations have it: a, b; delete all but one',
        ),
        (
            PROD,
            [tag_webhook("prod", "1-24", HERE)],
            "my-hook",
            'cannot modify tag "prod": it is in MutatingWebhookConfiguration istio-revision-tag-prod; leave out --webhook-name',
        ),
        (
            PROD,
            [{"metadata": {"name": "my-hook"}}],
            "my-hook",
            "MutatingWebhookConfiguration my-hook is there, and is not this tag's; give another --webhook-name",
        ),
        (
            DEFAULT,
            [revision_webhook("default", HERE), revision_webhook("default", replace(HERE, istio_namespace="mesh"))],
            None,
            "expected a single webhook for default revision; found multiple canonical webhooks or services",
        ),
    ],
)
def test_what_cannot_be_one_write_is_refused(
    tag: Tag, items: list[dict[str, Any]], name: str | None, says: str
) -> None:
    with pytest.raises(TagError) as caught:
        planned(tag, seen(*map(stored, items)), Placement(name=name))

    assert says in str(caught.value)


def test_revisions_are_those_of_labels_and_several_of_one_are_none() -> None:
    mesh = replace(HERE, istio_namespace="mesh")
    known = seen(
        revision_webhook("1-24", HERE),
        revision_webhook("1-30", HERE),
        revision_webhook("1-30", mesh),
        tag_webhook("prod", "1-28", HERE),
        {"metadata": {"name": "x", "labels": {"istio.io/rev": ""}}},
        {"metadata": {"name": "y"}},
    )

    found, several = known.revisions()

    assert (found, list(several)) == ({"1-24"}, ["1-30"])
    assert str(several["1-30"]) == (
        'found multiple canonical webhooks or services with revision "1-30": istio-sidecar-injector-1-30, '
        "istio-sidecar-injector-1-30-mesh; delete all but one"
    )


def test_a_revisions_configuration_is_written_over_its_own_alone() -> None:
    manifest = revision_webhook("1-24", HERE)

    assert planned_revision(manifest, seen()) == manifest
    assert planned_revision(manifest, seen(stored(manifest)))["metadata"]["resourceVersion"] == "7"
    stranger = {**manifest, "metadata": {"name": manifest["metadata"]["name"]}}
    with pytest.raises(TagError, match="istio-sidecar-injector-1-24 is there, and is not this revision's"):
        planned_revision(manifest, seen(stored(stranger)))

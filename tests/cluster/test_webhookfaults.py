"""Where the configurations of revisions and tags lead, after the injector, istioctl and Helm have written them."""

from __future__ import annotations

import base64
from copy import deepcopy
from typing import Any

import pytest

from injector.cluster.webhooks import webhook_facts, webhook_faults
from injector.istio.webhooks.configurations import Endpoint, WebhookOptions, deactivate, revision_webhook, tag_webhook
from tests.webhook.certificates import authority

ISTIOD = {"name": "istiod-1-30", "namespace": "istio-system", "path": "/inject"}
OURS = "Service injector-system/injector"


def bundle(*pems: bytes) -> str:
    return base64.b64encode(b"\n".join(pems)).decode()


CA = authority().chain_pem
OTHER_CA = authority().chain_pem
HERE = WebhookOptions(ca_bundle=bundle(CA))


def written_by(manager: str, item: dict[str, Any], *, at: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    """The object with an entry of a field manager that wrote the server of every webhook."""
    owned: dict[str, Any] = {"f:clientConfig": {"f:service": {"f:path": {}}}}
    webhooks = {f'k:{{"name":"{webhook["name"]}"}}': owned for webhook in item["webhooks"]}
    entry = {"manager": manager, "operation": "Apply", "time": at, "fieldsV1": {"f:webhooks": webhooks}}
    metadata = item["metadata"]
    return {**item, "metadata": {**metadata, "managedFields": [*metadata.get("managedFields", ()), entry]}}


def led_to(client: dict[str, Any], item: dict[str, Any]) -> dict[str, Any]:
    """The object with another server in every webhook."""
    changed = deepcopy(item)
    for webhook in changed["webhooks"]:
        webhook["clientConfig"] = client
    return changed


def faults(*items: dict[str, Any]) -> list[str]:
    return list(webhook_faults(map(webhook_facts, items)))


REVISION = written_by("injector-webhook", revision_webhook("1-30", HERE))
TAG = written_by("injector-tag", tag_webhook("prod", "1-30", HERE))
TO_ISTIOD = {"service": ISTIOD, "caBundle": bundle(CA)}


def test_configurations_that_lead_here_with_one_ca_have_no_fault() -> None:
    assert faults(REVISION, TAG) == []


def test_a_revision_that_helm_took_back_is_named_with_its_remedy() -> None:
    (fault,) = faults(written_by("helm", led_to(TO_ISTIOD, REVISION), at="2026-02-01T00:00:00Z"))

    assert fault == (
        "MutatingWebhookConfiguration istio-sidecar-injector-1-30: it belongs to the injector, but it calls "
        "Service istio-system/istiod-1-30 at /inject, as `helm` wrote it; "
        "run `injector webhook apply --revision 1-30 --force-conflicts`, "
        "or delete the object if istiod is to inject these pods"
    )


def test_a_path_of_the_own_service_to_another_revision_is_named() -> None:
    (fault,) = faults(
        led_to(
            {
                "service": {"name": "injector", "namespace": "injector-system", "path": "/inject/1-99"},
                "caBundle": bundle(CA),
            },
            REVISION,
        )
    )

    assert f"but it calls {OURS} at /inject/1-99; run `injector webhook apply --revision 1-30" in fault


def test_a_tag_that_istioctl_took_back_is_named_with_its_remedy() -> None:
    (fault,) = faults(REVISION, led_to(TO_ISTIOD, TAG))

    assert fault.startswith("MutatingWebhookConfiguration istio-revision-tag-prod: it belongs to the injector, but ")
    assert "run `injector tag set prod --revision 1-30 --overwrite`" in fault


def test_a_tag_is_the_injectors_by_its_annotations_too() -> None:
    weighted = tag_webhook("prod", "1-30", HERE, annotations={"revision-injector/salt": "x"})
    blank = tag_webhook("prod", "1-30", HERE, annotations={"revision-injector/salt": ""})

    assert len(faults(led_to(TO_ISTIOD, weighted))) == 1
    assert faults(led_to(TO_ISTIOD, blank)) == []


def test_a_tag_of_istioctl_that_leads_past_the_injector_of_its_revision_is_named() -> None:
    foreign = written_by("istioctl", led_to(TO_ISTIOD, tag_webhook("prod", "1-30", HERE)))

    (fault,) = faults(REVISION, foreign)

    assert (
        "revision `1-30` belongs to the injector, but it calls Service istio-system/istiod-1-30 at /inject, as `istioctl`"
        in fault
    )
    assert faults(foreign) == []


def test_istios_own_configurations_have_no_fault() -> None:
    options = WebhookOptions(ca_bundle=bundle(CA))
    own = [
        led_to(TO_ISTIOD, configuration)
        for configuration in (revision_webhook("1-30", options), tag_webhook("prod", "1-30", options))
    ]

    assert faults(*own) == []


@pytest.mark.parametrize("name", ["prod", "1-30"])
def test_a_url_that_ends_with_the_tag_or_its_revision_leads_here(name: str) -> None:
    by_url = {"url": f"https://injector.injector-system.svc:443/inject/{name}"}

    assert faults(REVISION, led_to(by_url, TAG)) == []


def test_a_service_without_a_ca_bundle_is_named_and_a_url_is_not() -> None:
    endpoint = WebhookOptions(Endpoint(url="https://injector.example"))
    bare = revision_webhook("1-30", WebhookOptions())
    istiods = led_to({"service": ISTIOD}, revision_webhook("1-31", WebhookOptions()))

    ours, theirs = faults(bare, istiods, tag_webhook("prod", "1-30", endpoint))

    assert f"it calls {OURS} without a caBundle" in ours
    assert "--tls-mode self-signed" in ours
    assert "it calls Service istio-system/istiod-1-30 without a caBundle" in theirs
    assert "INJECTION_WEBHOOK_CONFIG_NAME" in theirs


def test_services_without_a_ca_bundle_are_named_in_one_line() -> None:
    bare = [revision_webhook(f"1-{minor}", WebhookOptions()) for minor in range(100, 400)]

    (fault,) = faults(*bare)

    assert fault.startswith("MutatingWebhookConfiguration istio-sidecar-injector-1-100, istio-sidecar-injector-1-101, ")
    assert (
        " more: they call Services without a caBundle, so API servers cannot verify them and the pods fail; " in fault
    )
    assert len(fault) < 500


def test_two_bundles_of_one_service_need_a_common_ca() -> None:
    def with_bundle(*pems: bytes) -> dict[str, Any]:
        return tag_webhook("prod", "1-30", WebhookOptions(ca_bundle=bundle(*pems)))

    (fault,) = faults(REVISION, with_bundle(OTHER_CA))

    assert fault.startswith("MutatingWebhookConfiguration istio-sidecar-injector-1-30: it calls " + OURS)
    assert "another CA in its caBundle than istio-revision-tag-prod" in fault
    assert faults(REVISION, with_bundle(OTHER_CA, CA)) == []
    assert faults(REVISION, led_to(TO_ISTIOD, with_bundle(CA))) != []


def test_a_deactivated_configuration_and_other_objects_are_left_alone() -> None:
    inactive = deactivate(led_to({"service": ISTIOD}, REVISION))
    unlabelled = {**REVISION, "metadata": {"name": "x"}}

    assert faults(inactive, led_to({"service": ISTIOD}, unlabelled)) == []
    assert webhook_facts({"metadata": {"name": "x", "labels": {"istio.io/rev": "a"}}, "webhooks": None}) is None

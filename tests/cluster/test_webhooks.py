"""The webhooks in a cluster that are the injector's own: found, written and patched."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import jsonpatch
import pytest

from injector.cluster.webhooks import (
    INJECTED_BY_CERT_MANAGER,
    OwnWebhook,
    OwnWebhooks,
    WebhookSelector,
    blank_stale_annotations,
    bundle_patch,
    merge_for_apply,
)
from injector.istio.webhooks.configurations import Endpoint, WebhookOptions, tag_webhook
from tests.cluster.fakeapi import webhook_configuration

TARGET = WebhookSelector("injector", "injector-system")


def own(item: dict[str, Any], target: WebhookSelector = TARGET) -> OwnWebhooks:
    webhooks = target.keep(item)
    assert webhooks is not None
    return webhooks


def test_the_webhooks_that_call_its_service_are_its_own() -> None:
    item = webhook_configuration("w", "a.test.io", "b.test.io", "c.test.io", "d.test.io", "e.test.io")
    item["webhooks"][1]["clientConfig"] = {"url": "https://example.com"}
    item["webhooks"][2]["clientConfig"] = {"service": {"name": "other", "namespace": "injector-system"}}
    item["webhooks"][3]["clientConfig"] = {"service": {"name": "injector", "namespace": "other"}}
    item["webhooks"][4]["clientConfig"] = {**item["webhooks"][0]["clientConfig"], "caBundle": "eA=="}

    assert own(item) == OwnWebhooks("w", (OwnWebhook(0, "a.test.io", b""), OwnWebhook(4, "e.test.io", b"x")))


@pytest.mark.parametrize("webhooks", [None, []])
def test_an_object_without_webhooks_is_not_the_injectors(webhooks: list[Any] | None) -> None:
    assert TARGET.keep({"metadata": {"name": "w"}, "webhooks": webhooks}) is None


@pytest.mark.parametrize("annotation", INJECTED_BY_CERT_MANAGER)
def test_objects_of_cert_manager_are_left_alone(annotation: str) -> None:
    item = webhook_configuration("w", **{annotation: "mesh/injector"})

    assert TARGET.keep(item) is None
    assert WebhookSelector("", "", "w").keep(item) is None


def test_a_name_stands_for_all_the_webhooks_of_that_object_or_for_one() -> None:
    item = webhook_configuration("w", "a.test.io", "b.test.io")
    item["webhooks"][1]["clientConfig"] = {"url": "https://example.com"}

    assert [entry.name for entry in own(item, WebhookSelector("", "", "w")).entries] == ["a.test.io", "b.test.io"]
    assert [entry.name for entry in own(item, WebhookSelector("", "", "w", "b.test.io")).entries] == ["b.test.io"]
    assert WebhookSelector("", "", "w", "c.test.io").keep(item) is None
    assert WebhookSelector("injector", "injector-system", "v").keep(item) is None


@pytest.mark.parametrize("bundle", [None, "", "%%%"])
def test_a_bundle_that_is_missing_or_no_base64_is_another(bundle: str | None) -> None:
    item = webhook_configuration("w")
    item["webhooks"][0]["clientConfig"]["caBundle"] = bundle

    assert own(item).entries[0].bundle == b""


def test_the_patch_changes_the_bundles_that_are_outdated_and_nothing_else() -> None:
    item = webhook_configuration("w", "a.test.io", "b.test.io", "c.test.io")
    item["webhooks"][1]["clientConfig"] = {"url": "https://example.com"}
    item["webhooks"][2]["clientConfig"] = {
        **item["webhooks"][2]["clientConfig"],
        "caBundle": base64.b64encode(b"new").decode(),
    }

    operations = bundle_patch(own(item), b"new")

    after = jsonpatch.apply_patch(item, operations)
    assert [operation["path"] for operation in operations] == ["/webhooks/0/name", "/webhooks/0/clientConfig/caBundle"]
    assert after["webhooks"][0]["clientConfig"].pop("caBundle") == base64.b64encode(b"new").decode()
    assert after == item
    assert bundle_patch(own(jsonpatch.apply_patch(item, operations)), b"new") == []


def test_the_patch_fails_where_another_webhook_stands_there_by_now() -> None:
    item = webhook_configuration("w", "a.test.io", "b.test.io")
    operations = bundle_patch(own(item), b"new")
    item["webhooks"].reverse()

    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch(item, operations)


ME = "injector-tag"
NEVER = {"matchLabels": {"istio.io/deactivated": "never-match"}}


def manifest(**options: Any) -> dict[str, Any]:
    return tag_webhook("default", "1-24", WebhookOptions(**options))


def entry(manager: str, *names: str, operation: str = "Apply", annotations: tuple[str, ...] = ()) -> dict[str, Any]:
    """managedFields: the owners of caBundles, of webhooks, and of annotations."""
    fields: dict[str, Any] = {"f:clientConfig": {"f:caBundle": {}}}
    webhooks = {f"k:{json.dumps({'name': f'{name}.sidecar-injector.istio.io'})}": fields for name in names}
    owned: dict[str, Any] = {f"f:{key}": {} for key in annotations}
    values = {"f:webhooks": webhooks, "f:metadata": {"f:annotations": owned}}
    return {"manager": manager, "operation": operation, "fieldsV1": values}


def there(*entries: dict[str, Any], bundle: str = "Q0E=", auto: bool = False) -> dict[str, Any]:
    """An object of a cluster."""
    obj = copy.deepcopy(manifest(ca_bundle=bundle, auto_inject=auto))
    obj["metadata"] |= {"resourceVersion": "7", "managedFields": list(entries)}
    return obj


def bundles(applied: dict[str, Any]) -> list[str | None]:
    return [webhook["clientConfig"].get("caBundle") for webhook in applied["webhooks"]]


NAMES = ("rev.namespace", "rev.object", "namespace", "object")


def test_a_new_object_is_applied_unchanged() -> None:
    assert merge_for_apply(manifest(), None, manager=ME) == manifest()


def test_an_existing_object_is_changed_only_at_its_version() -> None:
    assert merge_for_apply(manifest(), there(), manager=ME)["metadata"]["resourceVersion"] == "7"


def test_only_the_managers_own_bundle_is_applied_again() -> None:
    assert bundles(merge_for_apply(manifest(), there(entry(ME, *NAMES)), manager=ME)) == ["Q0E="] * 4
    assert bundles(merge_for_apply(manifest(), there(entry("rotator", *NAMES)), manager=ME)) == [None] * 4
    assert bundles(merge_for_apply(manifest(), there(entry(ME, *NAMES, operation="Update")), manager=ME)) == [None] * 4
    assert bundles(merge_for_apply(manifest(), there(entry(ME, "object")), manager=ME)) == [None, None, None, "Q0E="]


def test_a_bundle_that_is_given_is_given() -> None:
    assert bundles(merge_for_apply(manifest(ca_bundle="TmV3"), there(entry(ME, *NAMES)), manager=ME)) == ["TmV3"] * 4


def test_a_webhook_that_is_given_up_goes_unless_another_has_a_part_in_it() -> None:
    def remaining(*entries: dict[str, Any]) -> list[str]:
        applied = merge_for_apply(manifest(), there(*entries, auto=True), manager=ME)
        return [webhook["name"].partition(".sidecar")[0] for webhook in applied["webhooks"]]

    assert remaining(entry(ME, *NAMES, "auto")) == [*NAMES]
    assert remaining(entry(ME, *NAMES, "auto"), entry("rotator", "auto")) == [*NAMES, "auto"]


def test_one_that_stays_so_takes_no_pod_and_leaves_its_bundle_to_the_other() -> None:
    applied = merge_for_apply(manifest(), there(entry("rotator", "auto"), auto=True), manager=ME)

    auto = applied["webhooks"][-1]
    assert (auto["namespaceSelector"], auto["objectSelector"]) == (NEVER, NEVER)
    assert "caBundle" not in auto["clientConfig"]
    assert auto["sideEffects"] == "None"


def test_a_webhook_has_a_service_or_a_url_and_never_both() -> None:
    by_url = manifest(endpoint=Endpoint(url="https://here"))
    for wanted, current, gone in ((manifest(), by_url, "url"), (by_url, manifest(), "service")):
        existing = {**current, "metadata": {**current["metadata"], "resourceVersion": "7"}}
        clients = [webhook["clientConfig"] for webhook in merge_for_apply(wanted, existing, manager=ME)["webhooks"]]
        assert all(client[gone] is None for client in clients)
        assert all(len(client) == 2 for client in clients)


def test_an_annotation_that_another_set_is_emptied_and_ones_own_is_left_out() -> None:
    current = there(entry(ME, annotations=("own/weights",)), entry("kubectl", annotations=("own/salt", "other/x")))

    assert blank_stale_annotations({"own/shadow": "{}"}, current, manager=ME, prefix="own/") == {
        "own/salt": "",
        "own/shadow": "{}",
    }
    assert blank_stale_annotations({"own/salt": "new"}, current, manager=ME, prefix="own/") == {"own/salt": "new"}
    assert blank_stale_annotations({}, None, manager=ME, prefix="own/") == {}


def test_malformed_managed_fields_are_ignored() -> None:
    current = there(
        {"manager": "x"}, {"manager": "y", "fieldsV1": {"f:metadata": {"f:annotations": None}, "f:webhooks": {".": {}}}}
    )

    assert blank_stale_annotations({}, current, manager=ME, prefix="own/") == {}
    assert bundles(merge_for_apply(manifest(), current, manager=ME)) == [None] * 4

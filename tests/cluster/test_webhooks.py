from __future__ import annotations

import base64
from typing import Any

import jsonpatch
import pytest

from injector.cluster.webhooks import INJECTED_BY_CERT_MANAGER, Entry, OwnWebhooks, Target, bundle_patch
from tests.cluster.fakeapi import webhook_configuration

TARGET = Target("injector", "injector-system")


def own(item: dict[str, Any], target: Target = TARGET) -> OwnWebhooks:
    found = target.keep(item)
    assert found is not None
    return found


def test_the_webhooks_that_call_its_service_are_its_own() -> None:
    item = webhook_configuration("w", "a.test.io", "b.test.io", "c.test.io", "d.test.io", "e.test.io")
    item["webhooks"][1]["clientConfig"] = {"url": "https://example.com"}
    item["webhooks"][2]["clientConfig"] = {"service": {"name": "other", "namespace": "injector-system"}}
    item["webhooks"][3]["clientConfig"] = {"service": {"name": "injector", "namespace": "other"}}
    item["webhooks"][4]["clientConfig"] = {**item["webhooks"][0]["clientConfig"], "caBundle": "eA=="}

    assert own(item) == OwnWebhooks("w", (Entry(0, "a.test.io", b""), Entry(4, "e.test.io", b"x")))


@pytest.mark.parametrize("webhooks", [None, []])
def test_an_object_without_webhooks_is_not_the_injectors(webhooks: list[Any] | None) -> None:
    assert TARGET.keep({"metadata": {"name": "w"}, "webhooks": webhooks}) is None


@pytest.mark.parametrize("annotation", INJECTED_BY_CERT_MANAGER)
def test_objects_of_cert_manager_are_left_alone(annotation: str) -> None:
    item = webhook_configuration("w", **{annotation: "mesh/injector"})

    assert TARGET.keep(item) is None
    assert Target("", "", "w").keep(item) is None


def test_a_name_stands_for_all_the_webhooks_of_that_object_or_for_one() -> None:
    item = webhook_configuration("w", "a.test.io", "b.test.io")
    item["webhooks"][1]["clientConfig"] = {"url": "https://example.com"}

    assert [each.name for each in own(item, Target("", "", "w")).entries] == ["a.test.io", "b.test.io"]
    assert [each.name for each in own(item, Target("", "", "w", "b.test.io")).entries] == ["b.test.io"]
    assert Target("", "", "w", "c.test.io").keep(item) is None
    assert Target("injector", "injector-system", "v").keep(item) is None


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
    assert [each["path"] for each in operations] == ["/webhooks/0/name", "/webhooks/0/clientConfig/caBundle"]
    assert after["webhooks"][0]["clientConfig"].pop("caBundle") == base64.b64encode(b"new").decode()
    assert after == item
    assert bundle_patch(own(jsonpatch.apply_patch(item, operations)), b"new") == []


def test_the_patch_fails_where_another_webhook_stands_there_by_now() -> None:
    item = webhook_configuration("w", "a.test.io", "b.test.io")
    operations = bundle_patch(own(item), b"new")
    item["webhooks"].reverse()

    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch(item, operations)

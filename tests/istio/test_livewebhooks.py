from __future__ import annotations

from typing import Any

import pytest

from injector.errors import ManifestError
from injector.istio.webhooks import (
    Endpoint,
    Service,
    WebhookOptions,
    deactivated,
    live_webhooks,
    revision_webhook,
    tag_webhook,
)

REV = "istio.io/rev"


def configuration(name: str = "w", **changed: Any) -> dict[str, Any]:
    """A configuration with one webhook of an injector; keywords are fields of the webhook."""
    webhook = {
        "name": "a",
        "clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/inject"}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        **changed,
    }
    return {"metadata": {"name": name}, "webhooks": [webhook]}


def test_what_is_written_for_a_revision_is_read_back() -> None:
    options = WebhookOptions(Endpoint("injector", "home"), ca_bundle="QQ==", failure_policy="Ignore")

    first, second = live_webhooks([revision_webhook("1-30", options)])

    assert (first.configuration, first.webhook.name) == (
        "istio-sidecar-injector-1-30",
        "rev.namespace.sidecar-injector.istio.io",
    )
    assert (first.path, first.revision, first.tag) == ("/inject/1-30", "1-30", "")
    assert (first.service, first.fails, first.trusted, first.conditional) == (
        Service("injector", "home"),
        False,
        True,
        False,
    )
    assert str(first.service) == "home/injector"
    assert (first.calls({REV: "1-30"}, {}), second.calls({REV: "1-30"}, {})) == (True, False)
    assert (first.calls({}, {REV: "1-30"}), second.calls({}, {REV: "1-30"})) == (False, True)


def test_a_tag_is_told_by_its_label_and_a_url_by_its_path() -> None:
    options = WebhookOptions(Endpoint(url="https://example.com:9443/inject"))

    first, _ = live_webhooks([tag_webhook("prod", "1-30", options)])

    assert (first.path, first.revision, first.tag) == ("/inject/prod", "1-30", "prod")
    assert (first.service, first.fails, first.trusted) == (None, True, False)


def test_they_are_in_the_order_that_the_api_server_calls_them_in() -> None:
    found = live_webhooks([configuration("b"), configuration("a"), configuration("c")])

    assert [each.configuration for each in found] == ["a", "b", "c"]


def test_one_that_is_switched_off_is_never_called() -> None:
    assert not any(
        each.calls({"istio-injection": "enabled"}, {}) or each.calls({REV: "default"}, {})
        for each in live_webhooks([deactivated(revision_webhook("default", WebhookOptions()))])
    )


@pytest.mark.parametrize("path", ["/inject", "/inject/", "/inject/1-30", "/inject/cluster/c/net/n"])
def test_the_path_tells_an_injectors_webhook(path: str) -> None:
    service = {"name": "s", "namespace": "n", "path": path}

    assert [each.path for each in live_webhooks([configuration(clientConfig={"service": service})])] == [path]


@pytest.mark.parametrize(
    "changed",
    [
        {"clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/injection"}}},
        {"clientConfig": {"service": {"name": "s", "namespace": "n"}}},
        {"clientConfig": {"url": "https://example.com/validate"}},
        {"rules": []},
        {"rules": [{"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]},
        {"rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"]}]},
        {"rules": [{"operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["*"]}]},
    ],
)
def test_every_other_webhook_is_left_out(changed: dict[str, Any]) -> None:
    assert live_webhooks([configuration(**changed)]) == ()


def test_a_rule_for_everything_is_one_for_pods_and_conditions_are_noted() -> None:
    rule = {key: ["*"] for key in ("operations", "apiGroups", "apiVersions", "resources")}

    (found,) = live_webhooks([configuration(rules=[rule], matchConditions=[{"name": "x", "expression": "true"}])])

    assert found.conditional


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"clientConfig": "x"}, "MutatingWebhookConfiguration w: it has a value that is no object"),
        ({"rules": ["x"]}, "MutatingWebhookConfiguration w: it has a value that is no object"),
        (
            {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            'MutatingWebhookConfiguration w: objectSelector: "Near" is not a valid label selector operator',
        ),
    ],
)
def test_what_cannot_be_read_is_named(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(ManifestError) as caught:
        live_webhooks([configuration(**changed)])

    assert str(caught.value).startswith(says)

from __future__ import annotations

from typing import Any

import pytest

from injector.istio.webhooks import (
    UNSERVED_ACTIONS,
    UNSERVED_KINDS,
    Endpoint,
    WebhookOptions,
    called,
    deactivated,
    is_deactivated,
    options_of,
    revision_webhook,
    tag_webhook,
    unserved_webhook,
)
from injector.kube.selectors import Selector
from injector.kube.serial import dump_json
from tests.istio.goldens import REVISIONS, TAGS, copied_annotations, golden, on_istios_path, service_of

REV, AUTO, INJECT, NAME = "istio.io/rev", "istio-injection", "sidecar.istio.io/inject", "kubernetes.io/metadata.name"


def at_istiod(revision: str, **options: Any) -> WebhookOptions:
    """Options with the Service that Istio's own webhooks name."""
    return WebhookOptions(endpoint=Endpoint(service_of(revision), "istio-system"), **options)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_revision_has_istios_webhooks(revision: str) -> None:
    expected = golden(f"revision-{revision}")

    assert on_istios_path(revision_webhook(revision, at_istiod(revision)), revision) == expected


@pytest.mark.parametrize("file", TAGS)
def test_a_tag_has_istios_webhooks(file: str) -> None:
    tag, revision, options, arguments = TAGS[file]
    expected = golden(file)
    annotations = copied_annotations(revision)

    built = tag_webhook(tag, revision, at_istiod(revision, **options), annotations=annotations, **arguments)

    assert on_istios_path(built, tag) == expected


def test_a_tag_of_a_revision_without_annotations_has_none() -> None:
    assert "annotations" not in tag_webhook("prod", "1-24", WebhookOptions())["metadata"]


def test_what_is_said_of_a_webhook_is_in_each_of_them() -> None:
    options = WebhookOptions(
        endpoint=Endpoint("our", "ours", 8443),
        ca_bundle="Q0E=",
        failure_policy="Ignore",
        timeout=5,
        reinvocation_policy="IfNeeded",
        auto_inject=True,
    )

    webhooks = revision_webhook("default", options)["webhooks"]

    assert [webhook["name"].split(".sidecar")[0] for webhook in webhooks] == [
        "rev.namespace", "rev.object", "namespace", "object", "auto",
    ]  # fmt: skip
    for webhook in webhooks:
        assert webhook["clientConfig"] == {
            "service": {"name": "our", "namespace": "ours", "path": "/inject/default", "port": 8443},
            "caBundle": "Q0E=",
        }
        assert (webhook["failurePolicy"], webhook["timeoutSeconds"], webhook["reinvocationPolicy"]) == (
            "Ignore", 5, "IfNeeded",
        )  # fmt: skip


def test_only_the_default_takes_namespaces_without_labels() -> None:
    options = WebhookOptions(auto_inject=True)

    assert len(revision_webhook("1-24", options)["webhooks"]) == 2
    assert len(tag_webhook("prod", "1-24", options)["webhooks"]) == 2


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://injector.example", "https://injector.example/inject/prod"),
        ("https://injector.example:9443/", "https://injector.example:9443/inject/prod"),
        ("https://injector.example/inject", "https://injector.example/inject/prod"),
        ("https://injector.example/inject/", "https://injector.example/inject/prod"),
        ("https://injector.example/inject/prod", "https://injector.example/inject/prod"),
        ("https://injector.example/behind/a/proxy", "https://injector.example/behind/a/proxy/inject/prod"),
    ],
)
def test_a_url_ends_in_the_path_of_the_name(url: str, expected: str) -> None:
    assert Endpoint(url=url).client_config("prod") == {"url": expected}


CALLED = [
    ({REV: "prdo"}, {}, ["namespace"]),
    ({REV: "prdo"}, {REV: "other"}, ["namespace"]),
    ({}, {REV: "prdo"}, ["pod"]),
    ({}, {REV: "prdo", INJECT: "true"}, ["pod"]),
    ({}, {}, []),
    ({}, {REV: "prdo", INJECT: "false"}, []),
    ({REV: "prdo"}, {INJECT: "false"}, []),
    ({REV: "prdo", AUTO: "enabled"}, {}, []),
    ({AUTO: "disabled"}, {REV: "prdo"}, []),
    ({REV: "prdo", NAME: "kube-system"}, {}, []),
    ({NAME: "injector-system"}, {REV: "prdo"}, []),
]
"""Labels of a namespace and of a pod, and whose name the webhook for names that nobody serves is called for."""


@pytest.mark.parametrize(("namespace", "pod", "kinds"), CALLED)
def test_names_that_nobody_serves_are_looked_for_where_istio_looks_for_names(
    namespace: dict[str, str], pod: dict[str, str], kinds: list[str]
) -> None:
    webhooks = unserved_webhook("warn", WebhookOptions())["webhooks"]

    called = [
        webhook["name"].partition(".")[0]
        for webhook in webhooks
        if Selector.compile(webhook["namespaceSelector"]).matches({NAME: "shop"} | namespace)
        and Selector.compile(webhook["objectSelector"]).matches(pod)
    ]

    assert called == kinds


@pytest.mark.parametrize(("namespace", "pod", "kinds"), [case for case in CALLED if NAME not in case[0]])
def test_the_webhook_for_names_that_nobody_serves_is_called_for_what_that_names_own_would_be(
    namespace: dict[str, str], pod: dict[str, str], kinds: list[str]
) -> None:
    names = sorted({labels[REV] for labels in (namespace, pod) if REV in labels})

    found = [each.webhook.name.split(".")[1] for each in called(names, namespace, pod)]

    assert found == [{"namespace": "namespace", "pod": "object"}[kind] for kind in kinds]


@pytest.mark.parametrize("action", UNSERVED_ACTIONS)
def test_the_webhook_for_names_that_nobody_serves_holds_up_no_pod(action: str) -> None:
    options = WebhookOptions(ca_bundle="Q0E=", reinvocation_policy="IfNeeded")
    configuration = unserved_webhook(action, options)

    assert configuration["metadata"] == {
        "name": "injector-unserved",
        "labels": {"app.kubernetes.io/name": "injector"},
    }
    for webhook, kind in zip(configuration["webhooks"], UNSERVED_KINDS, strict=True):
        assert webhook["name"] == f"{kind}.unserved.injector.istio.io"
        assert webhook["clientConfig"]["service"]["path"] == f"/unserved/{action}/{kind}"
        assert webhook["clientConfig"]["caBundle"] == "Q0E="
        assert (webhook["failurePolicy"], webhook["reinvocationPolicy"], webhook["sideEffects"]) == (
            "Ignore", "Never", "None",
        )  # fmt: skip
        assert webhook["timeoutSeconds"] == 2
        assert webhook["rules"][0]["operations"] == ["CREATE"]


def test_the_webhook_for_names_that_nobody_serves_takes_the_timeout_the_namespaces_and_the_url_that_it_is_given() -> (
    None
):
    endpoint = Endpoint(namespace="ours", url="https://injector.example/inject")
    configuration = unserved_webhook("deny", WebhookOptions(endpoint, timeout=9, istio_namespace="mesh"))

    assert configuration["metadata"]["name"] == "injector-unserved-mesh"
    webhook = configuration["webhooks"][0]
    assert webhook["clientConfig"] == {"url": "https://injector.example/unserved/deny/namespace"}
    assert webhook["timeoutSeconds"] == 9
    assert "ours" in webhook["namespaceSelector"]["matchExpressions"][0]["values"]


def test_another_istio_namespace_is_a_part_of_the_names() -> None:
    options = WebhookOptions(istio_namespace="mesh")

    assert [
        configuration["metadata"]["name"]
        for configuration in (
            revision_webhook("default", options),
            revision_webhook("1-24", options),
            tag_webhook("prod", "1-24", options),
            tag_webhook("prod", "1-24", options, webhook_name="my-hook"),
        )
    ] == ["istio-sidecar-injector-mesh", "istio-sidecar-injector-1-24-mesh", "istio-revision-tag-prod-mesh", "my-hook"]


def test_what_is_deactivated_matches_nothing_and_keeps_the_rest() -> None:
    configuration = revision_webhook("default", WebhookOptions())
    before = dump_json(configuration)

    webhooks = deactivated(configuration)["webhooks"]

    never = {"matchLabels": {"istio.io/deactivated": "never-match"}}
    assert all(webhook["namespaceSelector"] == webhook["objectSelector"] == never for webhook in webhooks)
    assert [webhook["name"] for webhook in webhooks] == [webhook["name"] for webhook in configuration["webhooks"]]
    assert dump_json(configuration) == before


def test_what_matches_nothing_is_known_again() -> None:
    configuration = revision_webhook("default", WebhookOptions())

    assert not is_deactivated(configuration)
    assert is_deactivated(deactivated(configuration))


@pytest.mark.parametrize(
    "options",
    [
        WebhookOptions(),
        WebhookOptions(
            Endpoint("our", "ours", 8443), failure_policy="Ignore", timeout=5, reinvocation_policy="IfNeeded"
        ),
        WebhookOptions(Endpoint(url="https://injector.example"), timeout=30),
        WebhookOptions(Endpoint(url="https://injector.example/behind/a/proxy"), timeout=30),
    ],
)
def test_the_options_of_a_configuration_are_read_from_it(options: WebhookOptions) -> None:
    assert options_of(tag_webhook("prod", "1-24", options), "prod") == options


@pytest.mark.parametrize("file", ["revision-1-24", "tag-prod"])
def test_istios_own_is_not_the_injectors(file: str) -> None:
    assert options_of(golden(file), "1-24") is None


def test_what_has_no_webhook_of_istios_is_not_the_injectors() -> None:
    assert options_of({"metadata": {"name": "x"}}, "prod") is None
    assert (
        options_of({"webhooks": [{"name": "other.example", "clientConfig": {"url": "https://x/inject/prod"}}]}, "prod")
        is None
    )

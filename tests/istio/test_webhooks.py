from __future__ import annotations

from typing import Any

import pytest

from injector.istio.webhooks import (
    Endpoint,
    WebhookOptions,
    deactivated,
    is_deactivated,
    options_of,
    revision_webhook,
    tag_webhook,
)
from injector.kube.serial import dump_json
from tests.istio.goldens import REVISIONS, TAGS, copied_annotations, golden, on_istios_path, service_of


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

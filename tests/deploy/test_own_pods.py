"""No webhook of the injector's takes the injector's own pods: under `Fail` none of them could start where all are gone."""

from __future__ import annotations

from itertools import product
from typing import Any

from injector.istio.webhooks.configurations import WebhookOptions, revision_webhook, tag_webhook
from injector.kube.selectors import Selector
from tests.deploy.rendering import base, of_kind, one

LABELS: dict[str, tuple[str | None, ...]] = {
    "istio-injection": (None, "enabled", "disabled"),
    "istio.io/rev": (None, "default", "stable", "canary", "prod"),
    "kubernetes.io/metadata.name": ("injector-system",),
}
"""What somebody may label the injector's own namespace with; None is no label."""


def written() -> list[dict[str, Any]]:
    """Every webhook that the project writes: of deploy/, and of all that `generate` prints."""
    configurations = of_kind(base("default"), "MutatingWebhookConfiguration")
    for options in (WebhookOptions(), WebhookOptions(auto_inject=True)):
        configurations += [revision_webhook(name, options) for name in ("default", "stable", "canary")]
        configurations += [tag_webhook(name, "stable", options) for name in ("default", "prod")]
    return [webhook for configuration in configurations for webhook in configuration["webhooks"]]


def matched(webhook: dict[str, Any], namespace: dict[str, str], pod: dict[str, str]) -> bool:
    """Whether an API server sends the pod there."""
    selectors = (Selector.compile(webhook[key]) for key in ("namespaceSelector", "objectSelector"))
    return all(selector.matches(labels) for selector, labels in zip(selectors, (namespace, pod), strict=True))


def test_no_webhook_takes_the_injectors_own_pods_whatever_their_namespace_says() -> None:
    own = one(base("default"), "Deployment")["spec"]["template"]["metadata"]["labels"]
    others = {key: value for key, value in own.items() if key != "sidecar.istio.io/inject"}
    namespaces = [
        {key: value for key, value in zip(LABELS, values, strict=True) if value is not None}
        for values in product(*LABELS.values())
    ]

    taken = [
        (webhook["clientConfig"], namespace)
        for webhook in written()
        for namespace in namespaces
        if matched(webhook, namespace, own)
    ]

    assert taken == []
    # The same question about a pod of somebody else's has another answer, so it is not asked in vain.
    assert [webhook for webhook in written() for namespace in namespaces if matched(webhook, namespace, others)]

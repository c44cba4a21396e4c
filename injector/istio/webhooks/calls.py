"""The webhooks that the API server calls for a pod by their selectors and matchConditions, and why it calls none."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from injector.istio.labels import DEFAULT_NAME, INJECT_LABEL, INJECTION_LABEL, REVISION_LABEL, Labels
from injector.istio.webhooks.matching import asked_name, why_none
from injector.istio.webhooks.reading import LiveWebhook, LiveWebhooks, precedence_of


def called_webhooks(
    webhooks: LiveWebhooks, namespace_labels: Labels, labels: Labels, pod: Mapping[str, Any] | None = None
) -> list[LiveWebhook]:
    """Return the webhooks that the API server calls for a pod, in its order, also one that refuses the pod by its conditions.

    matchConditions count if the ``pod`` itself is given. A condition that is not evaluated counts as met.
    """
    matching = webhooks.find_called(namespace_labels, labels)
    if pod is None:
        return matching
    return [webhook for webhook in matching if not webhook.leaves_out(pod)]


def why_not_called(
    webhooks: LiveWebhooks,
    namespace_labels: Labels,
    labels: Labels,
    pod: Mapping[str, Any] | None,
    served: Collection[str],
) -> str:
    """Explain why no webhook is called for a pod. ``served`` are the revisions and tags that webhooks are called for."""
    precedence = precedence_of(webhooks)
    wanted = asked_name(namespace_labels, labels, precedence)
    nearest = nearest_webhook(webhooks, namespace_labels, labels, wanted or "")
    if nearest is None or nearest.assumed:
        return why_none(namespace_labels, labels, served, precedence)
    left_out = f"whose webhook {nearest.title} requires {nearest.missing(namespace_labels, labels, pod)}"
    # A webhook for the name may require more than its label, so that no pod reaches it by this label alone.
    names = {*served, wanted} if wanted is not None and _asks_for(nearest, wanted) else served
    return why_none(namespace_labels, labels, names, precedence, left_out)


def nearest_webhook(
    webhooks: LiveWebhooks, namespace_labels: Labels, labels: Labels, name: str = ""
) -> LiveWebhook | None:
    """Return the webhook that the labels miss by the fewest requirements, preferably one for the revision or tag ``name``."""
    named = [webhook for webhook in webhooks if _asks_for(webhook, name)] if name else []
    return min(named or webhooks, key=lambda webhook: len(webhook.unmet(namespace_labels, labels)), default=None)


def _asks_for(webhook: LiveWebhook, name: str | None) -> bool:
    """Return whether a requirement of the webhook's selectors is a label that asks for a revision or tag."""
    values = {
        REVISION_LABEL: name,
        **({INJECTION_LABEL: "enabled", INJECT_LABEL: "true"} if name == DEFAULT_NAME else {}),
    }
    return any(
        requirement.operator == "In" and values.get(requirement.key) in requirement.values
        for requirement in webhook.requirements
    )

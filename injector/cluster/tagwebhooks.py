"""The cluster's tags: what ``istioctl tag set`` leaves behind, a MutatingWebhookConfiguration for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.configmaps import DEFAULT_REVISION
from injector.errors import ConfigError
from injector.istio.webhooks import REVISION_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TAG_LABEL: Final = "istio.io/tag"


@dataclass(frozen=True, slots=True)
class TagWebhook:
    """A tag, the revision that it names, and the object that says so."""

    tag: str
    revision: str
    name: str


def tag_webhook(item: Mapping[str, Any]) -> TagWebhook | None:
    """Return the tag of a MutatingWebhookConfiguration; None where it is none's."""
    metadata = item["metadata"]
    labels = metadata.get("labels") or {}
    tag = labels.get(TAG_LABEL)
    return TagWebhook(tag, labels.get(REVISION_LABEL) or DEFAULT_REVISION, metadata["name"]) if tag else None


def tag_targets(webhooks: Iterable[TagWebhook]) -> tuple[dict[str, str], tuple[ConfigError, ...]]:
    """Return the revision of each tag, and what is wrong with the others.

    Two objects that name different revisions for one tag are a fault of that tag: which of them the API server asks
    depends on the selectors of both.
    """
    named: dict[str, list[TagWebhook]] = {}
    for each in sorted(webhooks, key=lambda webhook: webhook.name):
        named.setdefault(each.tag, []).append(each)
    clashes = {tag: found for tag, found in named.items() if len({each.revision for each in found}) > 1}
    return (
        {tag: found[0].revision for tag, found in named.items() if tag not in clashes},
        tuple(_clash(tag, found) for tag, found in clashes.items()),
    )


def _clash(tag: str, found: list[TagWebhook]) -> ConfigError:
    told = ", ".join(f"{each.name} ({each.revision})" for each in found)
    return ConfigError(
        f"several MutatingWebhookConfigurations have it: {told}", where=f"tag `{tag}`", hint="delete all but one"
    )

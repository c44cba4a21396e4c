"""The cluster's tags: what ``injector tag set`` and ``istioctl tag set`` leave behind, a MutatingWebhookConfiguration each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.configmaps import DEFAULT_REVISION
from injector.errors import ConfigError
from injector.istio.webhooks import REVISION_LABEL, TAG_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ANNOTATIONS: Final = "revision-injector/"
"""What the keys of our own annotations begin with: they say of a tag what Istio's labels cannot."""


@dataclass(frozen=True, slots=True)
class TagWebhook:
    """A tag, the revision that its label names, the object that says so, and what our own annotations of it say."""

    tag: str
    revision: str
    name: str
    annotations: Mapping[str, str] = field(default_factory=dict)


def tag_webhook(item: Mapping[str, Any]) -> TagWebhook | None:
    """Return the tag of a MutatingWebhookConfiguration; None where it is none's."""
    metadata = item["metadata"]
    labels = metadata.get("labels") or {}
    tag = labels.get(TAG_LABEL)
    if not tag:
        return None
    own = {key: text for key, text in (metadata.get("annotations") or {}).items() if key.startswith(ANNOTATIONS)}
    return TagWebhook(tag, labels.get(REVISION_LABEL) or DEFAULT_REVISION, metadata["name"], own)


def tag_webhooks(webhooks: Iterable[TagWebhook]) -> tuple[dict[str, TagWebhook], dict[str, ConfigError]]:
    """Return the object of each tag by its name, and what is wrong with the others, by theirs.

    Two objects that say different things of one tag are a fault of that tag: which of them the API server asks depends
    on the selectors of both.
    """
    named: dict[str, list[TagWebhook]] = {}
    for each in sorted(webhooks, key=lambda webhook: webhook.name):
        named.setdefault(each.tag, []).append(each)
    clashes = {tag: found for tag, found in named.items() if any(_differ(found[0], each) for each in found)}
    return (
        {tag: found[0] for tag, found in named.items() if tag not in clashes},
        {tag: _clash(tag, found) for tag, found in clashes.items()},
    )


def _differ(one: TagWebhook, other: TagWebhook) -> bool:
    return (one.revision, one.annotations) != (other.revision, other.annotations)


def _clash(tag: str, found: list[TagWebhook]) -> ConfigError:
    told = ", ".join(f"{each.name} ({each.revision})" for each in found)
    return ConfigError(
        f"several MutatingWebhookConfigurations have it: {told}", where=f"tag `{tag}`", hint="delete all but one"
    )

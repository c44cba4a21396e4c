"""MutatingWebhookConfigurations: those that call this injector, those of tags, and how they are patched and applied.

The ``caBundle`` is written by a JSON patch of that one field, not by server-side apply: the API server (1.35) takes an entry that a second
manager applied for co-owned, and its owner can then no longer delete it, since what is left of it is invalid. The ``test`` operations of
the patch keep it from changing another webhook if the list has moved.

A manifest is applied by server-side apply, which removes fields that only the applying manager has and that the manifest leaves out
(https://kubernetes.io/docs/reference/using-api/server-side-apply/). Three cases need care: a ``caBundle`` that this manager set once, an
entry that another manager also manages, and an annotation that another manager set.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ConfigError
from injector.istio.webhooks import DEFAULT_NAME, REVISION_LABEL, TAG_LABEL, deactivated
from injector.kube.serial import load_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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
    return TagWebhook(tag, labels.get(REVISION_LABEL) or DEFAULT_NAME, metadata["name"], own)


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


TAG_MANAGER: Final = "injector-tag"
"""Who manages the fields of a tag, as the API server notes it."""
REVISION_MANAGER: Final = "injector-webhook"
"""The same for a revision's."""

_APPLY: Final = "Apply"
_BUNDLE: Final = "caBundle"
_ENDPOINTS: Final = ("service", "url")


def over(manifest: Mapping[str, Any], current: Mapping[str, Any] | None, *, manager: str) -> dict[str, Any]:
    """Return ``manifest`` as ``manager`` has to apply it where ``current`` is there.

    It holds ``current``'s version, so that nothing is written over what has changed since.
    """
    if current is None:
        return dict(manifest)
    there = {webhook["name"]: webhook for webhook in current.get("webhooks") or ()}
    wanted = {webhook["name"]: webhook for webhook in manifest["webhooks"]}
    kept = [_with_bundle(webhook, there.get(name, {}), name, current, manager) for name, webhook in wanted.items()]
    given_up = [there[name] for name in there if name not in wanted and _is_shared(current, name, manager)]
    left = [_without_bundle(webhook) for webhook in deactivated({"webhooks": given_up})["webhooks"]]
    metadata = {**manifest["metadata"], "resourceVersion": current["metadata"]["resourceVersion"]}
    return {**manifest, "metadata": metadata, "webhooks": [*kept, *left]}


def emptied(
    annotations: Mapping[str, str], current: Mapping[str, Any] | None, *, manager: str, prefix: str
) -> dict[str, str]:
    """Return ``annotations``, and empty ones for those that begin with ``prefix``, are there and are not wanted.

    One that ``manager`` leaves out is gone, unless another has set it too; an empty one says nothing either way.
    """
    entries = [] if current is None else current["metadata"].get("managedFields") or []
    foreign = (_annotations(entry) for entry in entries if _who(entry) != (manager, _APPLY))
    keys = {key.removeprefix("f:") for found in foreign for key in found}
    return {**{key: "" for key in sorted(keys) if key.startswith(prefix)}, **annotations}


def _with_bundle(
    webhook: Mapping[str, Any], there: Mapping[str, Any], name: str, current: Mapping[str, Any], manager: str
) -> dict[str, Any]:
    before, client = there.get("clientConfig") or {}, dict(webhook["clientConfig"])
    own = _fields(current, name, manager)
    if _BUNDLE not in client and _BUNDLE in before and f"f:{_BUNDLE}" in (own.get("f:clientConfig") or {}):
        client[_BUNDLE] = before[_BUNDLE]
    # A webhook has either; what is not taken away would stay where another manages it.
    client |= {key: None for key in _ENDPOINTS if key in before and key not in client}
    return {**webhook, "clientConfig": client}


def _without_bundle(webhook: Mapping[str, Any]) -> dict[str, Any]:
    client = {key: value for key, value in webhook["clientConfig"].items() if key != _BUNDLE}
    return {**webhook, "clientConfig": client}


def _fields(current: Mapping[str, Any], name: str, manager: str) -> Mapping[str, Any]:
    """Return the fields of a webhook that ``manager`` has applied, as ``fieldsV1`` names them."""
    return next((fields for who, fields in _managed(current, name) if who == (manager, _APPLY)), {})


def _is_shared(current: Mapping[str, Any], name: str, manager: str) -> bool:
    return any(who != (manager, _APPLY) for who, _ in _managed(current, name))


def _managed(current: Mapping[str, Any], name: str) -> Iterator[tuple[tuple[str, str], Mapping[str, Any]]]:
    """Yield who manages something of a webhook, and what."""
    for entry in current["metadata"].get("managedFields") or ():
        webhooks = (entry.get("fieldsV1") or {}).get("f:webhooks") or {}
        for key, fields in webhooks.items():
            if key.startswith("k:") and load_json(key.removeprefix("k:")) == {"name": name}:
                yield _who(entry), fields


def _who(entry: Mapping[str, Any]) -> tuple[str, str]:
    return entry.get("manager", ""), entry.get("operation", "")


def _annotations(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    found = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:annotations")
    return found if isinstance(found, dict) else {}


MANAGER: Final = "injector-ca-bundle"
# https://cert-manager.io/docs/concepts/ca-injector/
INJECTED_BY_CERT_MANAGER: Final = (
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One webhook of a list: where it stands, its name, and the bundle that it has."""

    index: int
    name: str
    bundle: bytes


@dataclass(frozen=True, slots=True)
class OwnWebhooks:
    """The webhooks of one MutatingWebhookConfiguration that call this injector."""

    name: str
    entries: tuple[Entry, ...]

    def outdated(self, bundle: bytes) -> tuple[Entry, ...]:
        """Return those that have another bundle."""
        return tuple(entry for entry in self.entries if entry.bundle != bundle)


@dataclass(frozen=True, slots=True)
class Target:
    """Which webhooks are the injector's.

    They are those that call its Service; or, with ``configuration``, those of the object of that name, and with
    ``webhook`` the one of them that has that name, as sidecar-injector of Istio 1.4 has it.
    """

    service: str
    namespace: str
    configuration: str = ""
    webhook: str = ""

    def keep(self, item: Mapping[str, Any]) -> OwnWebhooks | None:
        """Return what is the injector's of an object; None where nothing is, or where cert-manager sees to it."""
        metadata = item["metadata"]
        annotations = metadata.get("annotations") or {}
        if any(key in annotations for key in INJECTED_BY_CERT_MANAGER):
            return None
        if self.configuration and metadata["name"] != self.configuration:
            return None
        entries = tuple(
            Entry(index, webhook["name"], _bundle(webhook))
            for index, webhook in enumerate(item.get("webhooks") or ())
            if self._owns(webhook)
        )
        return OwnWebhooks(metadata["name"], entries) if entries else None

    def _owns(self, webhook: Mapping[str, Any]) -> bool:
        if self.configuration:
            return not self.webhook or bool(webhook["name"] == self.webhook)
        service = webhook["clientConfig"].get("service") or {}
        return (service.get("namespace"), service.get("name")) == (self.namespace, self.service)


def bundle_patch(own: OwnWebhooks, bundle: bytes) -> list[dict[str, Any]]:
    """Return the JSON patch that gives ``bundle`` to each webhook that has another; empty where none has."""
    value = base64.b64encode(bundle).decode()
    return [
        operation
        for entry in own.outdated(bundle)
        for operation in (
            {"op": "test", "path": f"/webhooks/{entry.index}/name", "value": entry.name},
            {"op": "add", "path": f"/webhooks/{entry.index}/clientConfig/caBundle", "value": value},
        )
    ]


def _bundle(webhook: Mapping[str, Any]) -> bytes:
    try:
        return base64.b64decode(webhook["clientConfig"].get("caBundle") or "", validate=True)
    except binascii.Error:
        return b""

"""MutatingWebhookConfigurations whose webhooks call this injector, and the patch that brings their ``caBundle`` up to date.

The patch is a JSON patch of the one field, not a server-side apply. Applied by a manager of its own, the API server
(1.35) takes each webhook's entry for co-owned: whoever installed the object by server-side apply can then no longer
delete an entry, since what is left of it, a name and a bundle, is invalid. By the JSON patch the manager
``injector-ca-bundle`` owns ``caBundle`` alone, and the entry goes when its owner says so. Its ``test`` operations keep
it from changing another webhook where the list has moved; a ``resourceVersion`` it does not ask for, since against
somebody who writes many times a second it would never fit.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

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

"""Faults of the MutatingWebhookConfigurations of revisions and tags: where they lead, and whether API servers can verify that server.

``helm upgrade`` of istiod and ``istioctl tag set`` write these objects too. They do not know the injector's Service, so its pods silently
go to istiod again, or to a Service that does not exist. ``webhook_facts`` takes what matters from one object, and ``webhook_faults``
compares the objects of a cluster.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from injector.cluster.webhooks import REVISION_MANAGER, TAG_MANAGER, endpoint_manager, managers
from injector.errors import ConfigError
from injector.istio.webhooks import (
    ANNOTATIONS,
    DEFAULT_NAME,
    REVISION_LABEL,
    TAG_LABEL,
    has_path_of,
    is_deactivated,
    sidecar_webhooks,
)

_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class WebhookFacts:
    """Where the configuration of a revision or tag leads.

    Args:
        name: the name of the object.
        tag: its tag; empty for the configuration of a revision.
        revision: its revision.
        is_own: whether the injector's commands wrote it.
        leads_here: whether its path is ``/inject/<its tag or revision>``, which only the injector has.
        server: its Service as ``namespace/name``, or its URL.
        changed_by: the field manager that wrote the server last; empty if it is not known.
        unverified: whether a Service is called without a ``caBundle``.
        certificates: the certificates of its ``caBundle``, if it calls a Service.
    """

    name: str
    tag: str
    revision: str
    is_own: bool
    leads_here: bool
    server: str
    changed_by: str
    unverified: bool
    certificates: frozenset[bytes]


def webhook_facts(item: Mapping[str, Any]) -> WebhookFacts | None:
    """Return the facts about a MutatingWebhookConfiguration; None if it has no active webhook of a revision or tag."""
    metadata = item["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    clients = [webhook["clientConfig"] for webhook in sidecar_webhooks(item)]
    if REVISION_LABEL not in labels or not clients or is_deactivated(item):
        return None
    tag, revision = labels.get(TAG_LABEL) or "", labels[REVISION_LABEL] or DEFAULT_NAME
    noted = any(text for key, text in annotations.items() if key.startswith(ANNOTATIONS))
    astray = [
        client for client in clients if not any(has_path_of(client, name) for name in (tag or revision, revision))
    ]
    in_services = [client for client in clients if client.get("service")]
    return WebhookFacts(
        metadata["name"],
        tag,
        revision,
        noted or not managers(item).isdisjoint((TAG_MANAGER, REVISION_MANAGER)),
        not astray,
        _server((astray or clients)[0]),
        endpoint_manager(item),
        any(not client.get("caBundle") for client in in_services),
        frozenset().union(*(_certificates(client.get("caBundle") or "") for client in in_services)),
    )


def webhook_faults(found: Iterable[WebhookFacts | None]) -> tuple[str, ...]:
    """Return the faults of a cluster's configurations, one line each, with a remedy."""
    known = sorted((each for each in found if each is not None), key=lambda each: each.name)
    faults = (*_led_away(known), *_unverified(known), *_distrusted(known))
    return tuple(str(fault) for fault in faults)


def _led_away(known: Sequence[WebhookFacts]) -> Iterator[ConfigError]:
    """Yield the configurations that the injector wrote, and the tags of its revisions, that do not lead to it."""
    here = {each.revision for each in known if not each.tag and each.leads_here}
    for each in known:
        if each.leads_here or not (each.is_own or (each.tag and each.revision in here)):
            continue
        by = f", as `{each.changed_by}` wrote it" if each.changed_by not in ("", TAG_MANAGER, REVISION_MANAGER) else ""
        whose = "it belongs to the injector" if each.is_own else f"revision `{each.revision}` belongs to the injector"
        if each.tag:
            remedy = f"run `injector tag set {each.tag} --revision {each.revision} --overwrite`"
        else:
            remedy = f"run `injector webhook apply --revision {each.revision} --force-conflicts`"
        yield ConfigError(
            f"{whose}, but it calls {each.server}{by}",
            where=f"MutatingWebhookConfiguration {each.name}",
            hint=f"{remedy}, or delete the object if istiod is to inject these pods",
        )


def _unverified(known: Iterable[WebhookFacts]) -> Iterator[ConfigError]:
    for each in known:
        if each.unverified:
            ours = "run the injector with `--tls-mode self-signed` or `--patch-webhooks`, which writes it"
            istiods = (
                "an istiod whose INJECTION_WEBHOOK_CONFIG_NAME is empty does not write it; "
                f"run `injector webhook apply --revision {each.revision}` if the injector is to inject these pods"
            )
            yield ConfigError(
                f"it calls {each.server} without a caBundle, so API servers cannot verify it and its pods fail",
                where=f"MutatingWebhookConfiguration {each.name}",
                hint=ours if each.leads_here else istiods,
            )


def _distrusted(known: Iterable[WebhookFacts]) -> Iterator[ConfigError]:
    """Yield the Services that configurations call with bundles of different CAs: one of the bundles is wrong."""
    by_server: dict[str, list[WebhookFacts]] = {}
    for each in known:
        if each.certificates:
            by_server.setdefault(each.server, []).append(each)
    for server, callers in by_server.items():
        first = callers[0]
        other = next((each for each in callers if each.certificates.isdisjoint(first.certificates)), None)
        if other is not None:
            yield ConfigError(
                f"it calls {server} with another CA in its caBundle than {first.name}, so one of the two fails",
                where=f"MutatingWebhookConfiguration {other.name}",
                hint="set both to the CA of the server's certificate",
            )


def _server(client: Mapping[str, Any]) -> str:
    service = client.get("service")
    return f"Service {service['namespace']}/{service['name']}" if service else str(client.get("url"))


def _certificates(bundle: str) -> frozenset[bytes]:
    try:
        text = base64.b64decode(bundle, validate=True)
    except binascii.Error:
        return frozenset()
    return frozenset(b"".join(found.split()) for found in _CERTIFICATE.findall(text))

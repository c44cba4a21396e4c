"""MutatingWebhookConfigurations: how to apply those of revisions and tags, patch the ``caBundle`` of the injector's own, and find faults.

Manifests are written by server-side apply, which removes fields that only the applying manager owns and that the manifest leaves out
(https://kubernetes.io/docs/reference/using-api/server-side-apply/). Three cases need care: a ``caBundle`` that this manager set before,
an entry that another manager also owns, and an annotation that another manager set.

``caBundle`` is written by a JSON patch of this one field. If a second manager applied the entry, its owner could no longer delete it,
because the rest of the entry would be invalid (API server 1.35). ``test`` operations prevent a change to another webhook if the list has
moved.

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

from injector.errors import ConfigError
from injector.golang.json import load_json
from injector.hints import fitting_names
from injector.istio.labels import ANNOTATIONS, DEFAULT_NAME, REVISION_LABEL, TAG_LABEL
from injector.istio.webhooks.configurations import deactivate, is_deactivated, sidecar_webhooks
from injector.istio.webhooks.paths import has_path_of
from injector.kube.objects import mapping_at

TAG_MANAGER: Final = "injector-tag"
"""The field manager of tags."""
REVISION_MANAGER: Final = "injector-webhook"
"""The field manager of revisions."""

_APPLY: Final = "Apply"
_BUNDLE: Final = "caBundle"
_ENDPOINTS: Final = ("service", "url")


def merge_for_apply(manifest: Mapping[str, Any], current: Mapping[str, Any] | None, *, manager: str) -> dict[str, Any]:
    """Return ``manifest`` as ``manager`` must apply it over ``current``.

    It has the version of ``current``, so that a change since then is a conflict.
    """
    if current is None:
        return dict(manifest)
    there = {webhook["name"]: webhook for webhook in current.get("webhooks") or ()}
    wanted = {webhook["name"]: webhook for webhook in manifest["webhooks"]}
    applied = [_with_bundle(webhook, there.get(name, {}), name, current, manager) for name, webhook in wanted.items()]
    own = (manager, _APPLY)
    removed = [
        there[name]
        for name in there
        if name not in wanted and any(field_manager != own for field_manager, _ in _managed_fields(current, name))
    ]
    shared = [_without_bundle(webhook) for webhook in deactivate({"webhooks": removed})["webhooks"]]
    metadata = {**manifest["metadata"], "resourceVersion": current["metadata"]["resourceVersion"]}
    return {**manifest, "metadata": metadata, "webhooks": [*applied, *shared]}


def differ_in_bundles_only(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two states of a configuration have the same labels, annotations and webhooks, whatever their caBundles are."""
    return _besides_bundles(one) == _besides_bundles(other)


def _besides_bundles(configuration: Mapping[str, Any]) -> tuple[Any, ...]:
    metadata, webhooks = configuration["metadata"], configuration.get("webhooks") or ()
    return metadata.get("labels"), metadata.get("annotations"), [_without_bundle(webhook) for webhook in webhooks]


def blank_stale_annotations(
    annotations: Mapping[str, str], current: Mapping[str, Any] | None, *, manager: str, prefix: str
) -> dict[str, str]:
    """Return ``annotations``, with empty values for those that start with ``prefix`` and that other managers set.

    An annotation that ``manager`` leaves out stays if another manager set it too; an empty value counts as absent.
    """
    entries = [] if current is None else current["metadata"].get("managedFields") or []
    others = (entry for entry in entries if _manager_of(entry) != (manager, _APPLY))
    foreign = (mapping_at(entry, "fieldsV1", "f:metadata", "f:annotations") for entry in others)
    keys = {key.removeprefix("f:") for fields in foreign for key in fields}
    return {**{key: "" for key in sorted(keys) if key.startswith(prefix)}, **annotations}


def _with_bundle(
    webhook: Mapping[str, Any], there: Mapping[str, Any], name: str, current: Mapping[str, Any], manager: str
) -> dict[str, Any]:
    before, client = there.get("clientConfig") or {}, dict(webhook["clientConfig"])
    own = next(
        (fields for field_manager, fields in _managed_fields(current, name) if field_manager == (manager, _APPLY)), {}
    )
    if _BUNDLE not in client and _BUNDLE in before and f"f:{_BUNDLE}" in (own.get("f:clientConfig") or {}):
        client[_BUNDLE] = before[_BUNDLE]
    # A webhook has a service or a url. The other one must be removed explicitly, in case another manager owns it.
    client |= {key: None for key in _ENDPOINTS if key in before and key not in client}
    return {**webhook, "clientConfig": client}


def _without_bundle(webhook: Mapping[str, Any]) -> dict[str, Any]:
    client = {key: value for key, value in webhook["clientConfig"].items() if key != _BUNDLE}
    return {**webhook, "clientConfig": client}


def _managed_fields(current: Mapping[str, Any], name: str) -> Iterator[tuple[tuple[str, str], Mapping[str, Any]]]:
    """Yield the managers of a webhook's fields, each with the fields."""
    for entry, key, fields in _managed_webhooks(current):
        if key.startswith("k:") and load_json(key.removeprefix("k:")) == {"name": name}:
            yield _manager_of(entry), fields


def _managed_webhooks(configuration: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str, Mapping[str, Any]]]:
    """Yield the entries of ``managedFields`` with the key of each webhook that they have, and its fields."""
    for entry in configuration["metadata"].get("managedFields") or ():
        for key in mapping_at(entry, "fieldsV1", "f:webhooks"):
            yield entry, key, mapping_at(entry, "fieldsV1", "f:webhooks", key)


def _manager_of(entry: Mapping[str, Any]) -> tuple[str, str]:
    return entry.get("manager", ""), entry.get("operation", "")


def managers(item: Mapping[str, Any]) -> frozenset[str]:
    """Return the field managers of an object."""
    return frozenset(_manager_of(entry)[0] for entry in item["metadata"].get("managedFields") or ())


def creators(configuration: Mapping[str, Any]) -> frozenset[str]:
    """Return the field managers that wrote whole webhooks of a configuration, not only a caBundle.

    They are those of ``sideEffects``: all tools write the same value, so that each stays an owner. The rules do not tell: the API server
    adds a scope to them, and the manager that applies them again becomes their only owner (API server 1.35).
    """
    return frozenset(
        _manager_of(entry)[0] for entry, _, fields in _managed_webhooks(configuration) if "f:sideEffects" in fields
    )


def endpoint_manager(configuration: Mapping[str, Any]) -> str:
    """Return the field manager that wrote the path of a configuration's webhooks, or their URL, last; empty if it is not known."""
    written = []
    for entry, _, fields in _managed_webhooks(configuration):
        client = mapping_at(fields, "f:clientConfig")
        if "f:url" in client or "f:path" in mapping_at(client, "f:service"):
            written.append((entry.get("time") or "", _manager_of(entry)[0]))
    return max(written, default=("", ""))[1]


BUNDLE_MANAGER: Final = "injector-ca-bundle"
# https://cert-manager.io/docs/concepts/ca-injector/
INJECTED_BY_CERT_MANAGER: Final = (
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
)


@dataclass(frozen=True, slots=True)
class OwnWebhook:
    """One webhook of a configuration: its index, its name and its bundle."""

    index: int
    name: str
    bundle: bytes


@dataclass(frozen=True, slots=True)
class OwnWebhooks:
    """The webhooks of one MutatingWebhookConfiguration that call this injector."""

    name: str
    entries: tuple[OwnWebhook, ...]

    def find_outdated(self, bundle: bytes) -> tuple[OwnWebhook, ...]:
        """Return the entries with a different bundle."""
        return tuple(entry for entry in self.entries if entry.bundle != bundle)


@dataclass(frozen=True, slots=True)
class WebhookSelector:
    """Selects the injector's own webhooks.

    These are the webhooks that call its Service. If ``configuration`` is given, they are those of the object with this name instead, and if
    ``webhook`` is given, only the one with this name, as in Istio 1.4's sidecar-injector.
    """

    service: str
    namespace: str
    configuration: str = ""
    webhook: str = ""

    def keep(self, item: Mapping[str, Any]) -> OwnWebhooks | None:
        """Return the injector's own webhooks in an object; None if it has none, or if cert-manager maintains the object."""
        metadata = item["metadata"]
        annotations = metadata.get("annotations") or {}
        if any(key in annotations for key in INJECTED_BY_CERT_MANAGER):
            return None
        if self.configuration and metadata["name"] != self.configuration:
            return None
        entries = tuple(
            OwnWebhook(index, webhook["name"], _bundle(webhook["clientConfig"]))
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
    """Return the JSON patch that sets ``bundle`` where it differs; empty if it is up to date."""
    value = base64.b64encode(bundle).decode()
    return [
        operation
        for entry in own.find_outdated(bundle)
        for operation in (
            {"op": "test", "path": f"/webhooks/{entry.index}/name", "value": entry.name},
            {"op": "add", "path": f"/webhooks/{entry.index}/clientConfig/caBundle", "value": value},
        )
    ]


def _bundle(client: Mapping[str, Any]) -> bytes:
    try:
        return base64.b64decode(client.get(_BUNDLE) or "", validate=True)
    except binascii.Error:
        return b""


_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class WebhookFacts:
    """Where the configuration of a revision or tag leads.

    Args:
        tag: its tag; empty for the configuration of a revision.
        is_own: whether the injector's commands wrote it.
        leads_here: whether its path is ``/inject/<its tag or revision>``, which only the injector has.
        server: its Service as ``namespace/name``, or its URL.
        path: the path of its Service; empty for a URL, which has its own.
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
    path: str
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
    example = (astray or clients)[0]
    return WebhookFacts(
        metadata["name"],
        tag,
        revision,
        noted or not managers(item).isdisjoint((TAG_MANAGER, REVISION_MANAGER)),
        not astray,
        _server(example),
        (example["service"].get("path") or "/") if example.get("service") else "",
        endpoint_manager(item),
        any(not client.get("caBundle") for client in in_services),
        frozenset().union(*(_certificates(client) for client in in_services)),
    )


def webhook_faults(facts: Iterable[WebhookFacts | None]) -> tuple[str, ...]:
    """Return the faults of a cluster's configurations, one line each, with a remedy."""
    known = sorted(
        (configuration for configuration in facts if configuration is not None),
        key=lambda configuration: configuration.name,
    )
    faults = (*_faults_of_destination(known), *_faults_of_missing_bundle(known), *_faults_of_bundles(known))
    return tuple(str(fault) for fault in faults)


def _faults_of_destination(known: Sequence[WebhookFacts]) -> Iterator[ConfigError]:
    """Yield the configurations that the injector wrote, and the tags of its revisions, that do not lead to it."""
    here = {configuration.revision for configuration in known if not configuration.tag and configuration.leads_here}
    for configuration in known:
        if configuration.leads_here or not (
            configuration.is_own or (configuration.tag and configuration.revision in here)
        ):
            continue
        by = (
            f", as `{configuration.changed_by}` wrote it"
            if configuration.changed_by not in ("", TAG_MANAGER, REVISION_MANAGER)
            else ""
        )
        at = f" at {configuration.path}" if configuration.path else ""
        whose = (
            "it belongs to the injector"
            if configuration.is_own
            else f"revision `{configuration.revision}` belongs to the injector"
        )
        if configuration.tag:
            remedy = f"run `injector tag set {configuration.tag} --revision {configuration.revision} --overwrite`"
        else:
            remedy = f"run `injector webhook apply --revision {configuration.revision} --force-conflicts`"
        yield ConfigError(
            f"{whose}, but it calls {configuration.server}{at}{by}",
            where=f"MutatingWebhookConfiguration {configuration.name}",
            hint=f"{remedy}, or delete the object if istiod is to inject these pods",
        )


def _faults_of_missing_bundle(known: Iterable[WebhookFacts]) -> Iterator[ConfigError]:
    """Yield the configurations without a caBundle: in one error those that lead here, in another those that lead to an istiod."""
    by_target: dict[bool, list[WebhookFacts]] = {}
    for configuration in known:
        if configuration.unverified:
            by_target.setdefault(configuration.leads_here, []).append(configuration)
    for leads_here, of_target in by_target.items():
        first, several = of_target[0], len(of_target) > 1
        calls = "they call Services" if several else f"it calls {first.server}"
        ours = "an injector with `--tls-mode self-signed` or `--patch-webhooks` writes it within seconds"
        istiods = (
            "an istiod whose INJECTION_WEBHOOK_CONFIG_NAME is empty does not write it; run "
            f"`injector webhook apply --revision {'REVISION' if several else first.revision}` "
            "if the injector is to inject these pods"
        )
        yield ConfigError(
            f"{calls} without a caBundle, so API servers cannot verify {'them' if several else 'it'} and the pods fail",
            where=f"MutatingWebhookConfiguration {fitting_names(configuration.name for configuration in of_target)}",
            hint=ours if leads_here else istiods,
        )


def _faults_of_bundles(known: Iterable[WebhookFacts]) -> Iterator[ConfigError]:
    """Yield the Services that configurations call with bundles of different CAs: one of the bundles is wrong."""
    by_server: dict[str, list[WebhookFacts]] = {}
    for configuration in known:
        if configuration.certificates:
            by_server.setdefault(configuration.server, []).append(configuration)
    for server, callers in by_server.items():
        first = callers[0]
        other = next((caller for caller in callers if caller.certificates.isdisjoint(first.certificates)), None)
        if other is not None:
            yield ConfigError(
                f"it calls {server} with another CA in its caBundle than {first.name}, so one of the two fails",
                where=f"MutatingWebhookConfiguration {other.name}",
                hint="set both to the CA of the server's certificate",
            )


def _server(client: Mapping[str, Any]) -> str:
    service = client.get("service")
    return f"Service {service['namespace']}/{service['name']}" if service else str(client.get("url"))


def _certificates(client: Mapping[str, Any]) -> frozenset[bytes]:
    return frozenset(b"".join(certificate.split()) for certificate in _CERTIFICATE.findall(_bundle(client)))

"""The Gateways of the Gateway API that Istio serves, the revisions that own them, and the owners that they get if a tag moves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.resources import (
    GATEWAY,
    GATEWAY_CLASSES,
    GATEWAY_GROUP,
    NAMESPACES,
    SERVICES,
    VALIDATORS,
    WEBHOOKS,
    ObjectReader,
    Resource,
    Scope,
)
from injector.errors import ClusterError
from injector.hints import first_of
from injector.injection.containers import labels_of
from injector.istio.labels import REVISION_LABEL, TAG_LABEL, Labels
from injector.istio.ownership import TagObjects, class_of, is_istios
from injector.kube.objects import mapping_at, mappings_at
from injector.revisions.source import RawRevision, known_minor

if TYPE_CHECKING:
    from injector.istio.behaviours import Minor
    from injector.revisions.tags import Tag

PIN_MANAGER: Final = "injector-upgrade-gateways"
"""The field manager of the labels that an upgrade writes."""
_CONFIGURES_ONLY_OWN: Final = (1, 24), (1, 30)
"""The first and last minor in which istiod sends an empty configuration to the pods of a Gateway that another revision owns. 1.29.5 and
1.30.2 do not: releasenotes/notes/59959.yaml."""
_CONDITIONS: Final = ("Accepted", "Programmed")
"""The conditions of a Gateway that is in service."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A Gateway or waypoint of the cluster.

    Attributes:
        class_name: the name of its GatewayClass.
        pin: its own label ``istio.io/rev``; None if it has none.
        version: its resourceVersion.
        fault: why it is not in service by its conditions; empty if it is.
        pinned_by_upgrade: whether an upgrade wrote that label, and nothing else since.
    """

    namespace: str
    name: str
    class_name: str
    labels: Labels
    version: str = ""
    fault: str = ""
    pinned_by_upgrade: bool = False

    def __str__(self) -> str:
        """Name it as a workload is named."""
        return f"{GATEWAY} {self.namespace}/{self.name}"

    @property
    def pin(self) -> str | None:
        """Its own label ``istio.io/rev``; None if it has none."""
        return self.labels.get(REVISION_LABEL)


@dataclass(frozen=True, slots=True)
class OwnerChange:
    """The revisions that own a Gateway before and after a change: one, none, or several."""

    gateway: Gateway
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def way(self) -> str:
        """Both in words."""
        return f"{owner_text(self.before)} to {owner_text(self.after)}"


@dataclass(frozen=True, slots=True)
class GatewayView:
    """The Gateways of a cluster that Istio serves, and the objects by which istiods decide about them.

    Attributes:
        revisions: the revisions with their minors; None is a minor that is not known.
        resource: that of Gateways; None if the cluster does not have it.
        unknown: why the Gateways cannot be listed; empty if they can.
    """

    gateways: tuple[Gateway, ...] = ()
    objects: TagObjects = field(default_factory=lambda: TagObjects({}))
    revisions: Mapping[str, Minor | None] = field(default_factory=dict)
    resource: Resource | None = None
    unknown: str = ""

    def owners(self, gateway: Gateway, objects: TagObjects | None = None) -> tuple[str, ...]:
        """Return the revisions that own a Gateway, or would with other objects."""
        return (objects or self.objects).owners(gateway.labels, gateway.namespace, self.revisions)

    def changes(self, tag: str, revision: str) -> tuple[OwnerChange, ...]:
        """Return the Gateways whose owner changes if a tag leads to a revision: its label decides, not its weights."""
        return self._changes_to(self.objects.with_tag(tag, revision))

    def changes_of_removal(self, tag: str) -> tuple[OwnerChange, ...]:
        """Return the Gateways whose owner changes if a tag is removed. Most have none then."""
        return self._changes_to(self.objects.without_tag(tag))

    def _changes_to(self, after: TagObjects) -> tuple[OwnerChange, ...]:
        pairs = ((gateway, self.owners(gateway), self.owners(gateway, after)) for gateway in self.gateways)
        return tuple(OwnerChange(gateway, old, new) for gateway, old, new in pairs if old != new)


def owner_text(owners: Collection[str]) -> str:
    """Return the revisions that own a Gateway, for people."""
    return " and ".join(owners) or "no revision"


def gateway_notes(view: GatewayView, source: str) -> list[str]:
    """Return notes for the user: that Gateways are not known, those that stay with the old revision by their own label, and pins."""
    own = [gateway for gateway in view.gateways if not gateway.pinned_by_upgrade]
    staying = [str(gateway) for gateway in own if gateway.pin == source]
    # An upgrade also writes the label that a Gateway had before: empty, or a tag.
    names = {"", *view.objects.tags}
    pinned = [
        f"{gateway} to {gateway.pin}"
        for gateway in view.gateways
        if gateway.pinned_by_upgrade and gateway.pin not in names
    ]
    stay = f"Gateways that stay with revision {source} by their own label {REVISION_LABEL}: {first_of(staying)}"
    remedy = f"if it was deleted before it released them, set {REVISION_LABEL} as it was, or remove it"
    pins = f"Gateways that an upgrade has pinned: {first_of(pinned)}; {remedy}"
    return [*([view.unknown] if view.unknown else []), *([stay] if staying else []), *([pins] if pinned else [])]


def outage_notes(view: GatewayView, changes: Iterable[OwnerChange]) -> list[str]:
    """Return a note for the user if a revision stops configuring Gateways as soon as it does not own them any more."""
    first, last = _CONFIGURES_ONLY_OWN
    owners = {owner for change in changes for owner in change.before}
    old = sorted(owner for owner in owners if first <= (view.revisions.get(owner) or (0, 0)) <= last)
    if not old:
        return []
    when = "as soon as another revision owns it, so that its requests fail until its pods are replaced"
    return [
        f"revision {' and '.join(old)} stops configuring a Gateway {when} (Istio 1.24 to 1.29.4, 1.30.0 and 1.30.1): see docs/gateways.md"
    ]


def minors_of(revisions: Iterable[RawRevision], others: Iterable[str] = ()) -> dict[str, Minor | None]:
    """Return revisions with their minors, and ``others`` whose minor is not known."""
    return {**dict.fromkeys(others), **{raw.name: known_minor(raw) for raw in revisions}}


async def read_gateways(
    reader: ObjectReader, istio_namespace: str, revisions: Mapping[str, Minor | None], tags: Mapping[str, Tag]
) -> GatewayView:
    """Read the Gateways of a cluster, or of files, with what decides about their owners.

    A cluster without the Gateway API has none. If files have no webhooks, ``tags`` stand for them. Raises ClusterError if the API server
    cannot be reached; if it forbids a list, the Gateways are unknown.
    """
    try:
        resource = await reader.find_resource(GATEWAY, GATEWAY_GROUP)
        if resource is None:
            return GatewayView()
        classes = await _controllers(reader, resource)
        gateways = await reader.all(Scope(resource), _gateway)
        objects = await _tag_objects(reader, istio_namespace, tags)
    except ClusterError as error:
        if error.reason != "forbidden":
            raise
        return GatewayView(unknown=f"the Gateways whose owner changes are not known: {error.what}")
    own = sorted(
        (gateway for gateway in gateways if is_istios(gateway.class_name, classes)),
        key=lambda gateway: (gateway.namespace, gateway.name),
    )
    return GatewayView(tuple(own), objects, revisions, resource)


async def _controllers(reader: ObjectReader, resource: Resource) -> dict[str, str]:
    """Return the controllers of the GatewayClasses by name."""
    classes = replace(GATEWAY_CLASSES, api_version=resource.api_version)
    return dict(
        await reader.all(
            Scope(classes),
            lambda item: (str(item["metadata"].get("name")), str((item.get("spec") or {}).get("controllerName", ""))),
        )
    )


async def _tag_objects(reader: ObjectReader, istio_namespace: str, tags: Mapping[str, Tag]) -> TagObjects:
    def labels_by_name(item: dict[str, Any]) -> tuple[str, Labels]:
        return str(item["metadata"].get("name", "")), labels_of(item)

    webhooks = dict(await reader.all(Scope(WEBHOOKS, metadata_only=True), labels_by_name))
    if not webhooks:
        webhooks = {
            f"istio-revision-tag-{tag.name}": {TAG_LABEL: tag.name, REVISION_LABEL: tag.revision}
            for tag in tags.values()
        }
    services = await reader.all(Scope(SERVICES, istio_namespace, TAG_LABEL, metadata_only=True), labels_of)
    validators = dict(await reader.all(Scope(VALIDATORS, labels=REVISION_LABEL, metadata_only=True), labels_by_name))
    namespaces = dict(await reader.all(Scope(NAMESPACES, metadata_only=True), labels_by_name))
    return TagObjects(webhooks, services, validators, namespaces)


def _gateway(item: dict[str, Any]) -> Gateway:
    meta = item["metadata"]
    return Gateway(
        str(meta.get("namespace", "")),
        str(meta.get("name", "")),
        class_of(item),
        labels_of(item),
        str(meta.get("resourceVersion", "")),
        _fault(item),
        REVISION_LABEL in labels_of(item) and any(map(_has_pin, meta.get("managedFields") or ())),
    )


def _has_pin(entry: Mapping[str, Any]) -> bool:
    """Tell whether an entry of ``managedFields`` says that an upgrade wrote the label ``istio.io/rev``."""
    labels = mapping_at(entry, "fieldsV1", "f:metadata", "f:labels")
    return entry.get("manager") == PIN_MANAGER and f"f:{REVISION_LABEL}" in labels


def _fault(item: Mapping[str, Any]) -> str:
    """Return why a Gateway is not in service: a condition that is not true, or that is about an earlier generation."""
    conditions = {str(entry.get("type")): entry for entry in mappings_at(mapping_at(item, "status"), "conditions")}
    generation = item["metadata"].get("generation")
    for kind in _CONDITIONS:
        condition = conditions.get(kind, {})
        if condition.get("status") != "True":
            return f"it is not {kind}: {condition.get('message') or condition.get('reason') or 'no such condition'}"
        if generation is not None and int(condition.get("observedGeneration") or 0) < int(generation):
            return f"its condition {kind} is about an earlier generation"
    return ""

"""The tag of an upgrade in the cluster: how it is now, how it was before, and how it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from injector.cluster.resources import WEBHOOKS, Scope
from injector.cluster.webhooks import TAG_MANAGER
from injector.errors import ClusterError
from injector.istio.labels import ANNOTATIONS, REVISION_LABEL, TAG_LABEL
from injector.kube.objects import mapping_at
from injector.revisions.clustertags import ClusterTags
from injector.revisions.tags import Tag, TagObject, read_tags, tag_annotations, tag_object
from injector.upgrade.state import TagBefore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from injector.cluster.client import KubeClient
    from injector.cluster.session import Session
    from injector.upgrade.document import Upgrade
    from injector.upgrade.state import State


@dataclass(frozen=True, slots=True)
class TagView:
    """The tag of an upgrade as it is now. ``fault`` says why it cannot be read, and ``writer`` names its other field managers."""

    tag: Tag | None = None
    fault: str = ""
    writer: str = ""


async def read_tag(client: KubeClient, upgrade: Upgrade) -> TagView:
    """Return the tag of an upgrade as it is now; that of an upgrade without a tag is None."""
    if not upgrade.tag:
        return TagView()
    items = await client.all(Scope(WEBHOOKS, labels=f"{TAG_LABEL}={upgrade.tag}"), lambda item: item)
    tags, faults = read_tags(tag_of_item for item in items if (tag_of_item := tag_object(item)) is not None)
    writer = ", ".join(sorted({name for item in items for name in _writers(item)}))
    if upgrade.tag in faults:
        return TagView(fault=faults[upgrade.tag].what, writer=writer)
    if upgrade.tag not in tags:
        restore = f"`injector tag set {upgrade.tag} --revision {upgrade.source}`"
        return TagView(fault=f"it does not exist; run {restore} first")
    return TagView(tags[upgrade.tag], writer=writer)


def _writers(item: Mapping[str, Any]) -> Iterator[str]:
    """Yield the field managers that own the label or the annotations of a tag, besides the injector's own."""
    for entry in item["metadata"].get("managedFields") or ():
        labels = mapping_at(entry, "fieldsV1", "f:metadata", "f:labels")
        annotations = mapping_at(entry, "fieldsV1", "f:metadata", "f:annotations")
        is_owner = f"f:{REVISION_LABEL}" in labels or any(key.startswith(f"f:{ANNOTATIONS}") for key in annotations)
        if is_owner and entry.get("manager") != TAG_MANAGER:
            yield str(entry.get("manager"))


def tag_data(tag: Tag | None) -> TagBefore:
    """Return a tag as a state stores it."""
    return TagBefore() if tag is None else TagBefore(revision=tag.revision, annotations=tag_annotations(tag))


def tag_before(upgrade: Upgrade, state: State) -> Tag | None:
    """Return the tag before the upgrade; None if the upgrade has none. Raises DataError if the state cannot be read."""
    data = state.tag_before
    if not data:
        return None
    label, annotations = data.get("revision", ""), data.get("annotations", {})
    tag, fault = TagObject(upgrade.tag, label, "before the upgrade", annotations).read()
    if fault is not None:
        raise fault
    return tag


def write_tag(session: Session, istio_namespace: str, tag: Tag, expected: TagView) -> None:
    """Write a tag of the cluster, if it is still the expected one.

    Only the revision with the largest weight must exist. A rollback writes the tag as it was, and that may name the new revision, which is
    perhaps gone, as its shadow or with a smaller weight. The tag is served without it then.

    Raises:
        ClusterError: with the reason ``conflict`` if it is not.
        InjectorError: the revision does not exist, or the tag has several objects.
    """
    tags = ClusterTags(session, istio_namespace)
    state = tags.list()
    is_faulty = tag.name in state.faults or tag.name not in state.tags
    if (state.tags.get(tag.name) != expected.tag) if not expected.fault else not is_faulty:
        raise ClusterError(f"tag {tag.name} was changed by another writer", hint="try again", reason="conflict")
    state.check_revision(tag.revision)
    tags.write(tags.plan(tag))

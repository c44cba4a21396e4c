"""What the plan of an upgrade needs to know of a cluster: its revisions, the tag, and every workload with its pods."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from injector.errors import TagError, UsageError
from injector.fleet.routing import pod_labels, requested_name
from injector.fleet.view import ClusterView, notes_of_unknown_namespaces, read_view
from injector.fleet.workloads import list_workloads
from injector.hints import first_of
from injector.injection.tools.drift import injected_revision
from injector.kube.pods import has_ended
from injector.kube.podsecurity import enforced_level
from injector.revisions.clustersource import Offload, inline
from injector.revisions.tags import Tag, workload_key
from injector.upgrade.plan import Key, Restart, Workload, key_of, restart_of, unknown_restart

if TYPE_CHECKING:
    from injector.cluster.resources import TextReader
    from injector.fleet.sources import RevisionSources
    from injector.istio.revision import Revision
    from injector.kube.pods import Created
    from injector.upgrade.document import Upgrade


@dataclass(frozen=True, slots=True)
class Fleet:
    """The input of a plan: the revisions, the tag and the workloads of a cluster. ``notes`` are for the user."""

    source: Revision
    target: Revision
    tag: Tag | None
    workloads: tuple[Workload, ...]
    notes: tuple[str, ...]


async def read_fleet(
    reader: TextReader, sources: RevisionSources, document: Upgrade, offload: Offload = inline
) -> Fleet:
    """Read the input of a plan from a cluster, or from files. A server gives ``offload`` to keep its event loop free.

    Raises:
        InjectorError: as in ``read_view``, a workload cannot be read, or the tag is unknown.
    """
    view = await read_view(reader, sources, None, offload=offload)
    source, target = (_revision(view, name) for name in (document.source, document.target))
    tags = view.revisions.state.tags
    if document.tag and document.tag not in tags:
        hint = f"known tags are {first_of(sorted(tags))}" if tags else "set it with `injector tag set`"
        raise TagError(f'cannot find tag "{document.tag}"', where=view.revisions.tags_where, hint=hint)
    restarts: dict[Key, Restart] = {}
    # By name, because a list can be started again. A pod of a file may have no name.
    sidecars: dict[tuple[str, str | int], tuple[Key, str | None]] = {}

    def note(item: dict[str, Any]) -> None:
        if item["kind"] != "Pod":
            restarts[key_of(item)] = restart_of(item)
        elif not has_ended(item):
            meta = item["metadata"]
            place = str(meta.get("namespace", ""))
            sidecars[place, meta.get("name") or len(sidecars)] = (
                Key(*workload_key(item, place)),
                injected_revision(item),
            )

    created = await list_workloads(reader, note, offload)
    pods: dict[Key, Counter[str | None]] = {}
    for key, revision in sidecars.values():
        pods.setdefault(key, Counter())[revision] += 1

    def workload_of(pod: Created) -> Workload:
        labels = pod_labels(pod, view.namespaces[pod.namespace])
        key = Key(pod.namespace, pod.kind, pod.name)
        restart = restarts.get(key) or unknown_restart(pod)
        name = requested_name(view.webhooks, labels)
        # The pods of a Job whose name looks like that of a CronJob's Job are those of the CronJob.
        own = pods.get(key) or pods.get(Key(*labels.workload.key)) or Counter()
        return Workload(pod, name, labels.workload.pin, own, restart, enforced_level(labels.namespace))

    skipped = notes_of_unknown_namespaces({workload.namespace for workload in created} - view.namespaces.keys())
    known = [workload for workload in created if workload.namespace in view.namespaces]
    workloads = await offload(lambda: tuple(map(workload_of, known)))
    notes = (*view.notes, *skipped)
    return Fleet(source, target, tags.get(document.tag), workloads, notes)


def _revision(view: ClusterView, name: str) -> Revision:
    state = view.revisions.state
    if name not in state.names:
        hint = f"known revisions are {first_of(sorted(state.names))}"
        raise UsageError(f'no revision is called "{name}"', where=view.revisions.where, hint=hint)
    return view.built.revision(state.revision(name))

"""The input of the plans of upgrades, read from a cluster: the revisions, the tag, and every workload with its pods."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from injector.cluster.resources import WEBHOOKS
from injector.errors import DataError, InjectorError, TagError, UsageError
from injector.fleet.gateways import GatewayView, minors_of, read_gateways
from injector.fleet.offload import Offload, inline
from injector.fleet.routing import destination, find_called, pod_labels, requested_name
from injector.fleet.status import PodStatuses
from injector.fleet.view import ClusterView, notes_of_unknown_namespaces, read_view
from injector.fleet.workloads import list_workloads
from injector.hints import first_of
from injector.injection.containers import labels_of
from injector.injection.tools.drift import NOW_REFUSED, OLDER_TEMPLATE, injected_revision
from injector.istio.labels import REVISION_LABEL, TAG_LABEL
from injector.kube.pods import has_ended
from injector.kube.podsecurity import enforced_level
from injector.revisions.clustertags import owned_lines
from injector.revisions.tags import Tag, workload_key
from injector.upgrade.plan import (
    Fleet,
    Key,
    Plan,
    Restart,
    Workload,
    check_tag,
    key_of,
    make_plan,
    pins_of,
    restart_of,
    unknown_restart,
)
from injector.upgrade.statefulset import UnreadyPods

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from injector.cluster.client import KubeClient
    from injector.cluster.resources import TextReader
    from injector.fleet.sources import RevisionSources
    from injector.istio.revision import Revision
    from injector.kube.podtemplates import Created
    from injector.upgrade.document import Upgrade
    from injector.upgrade.state import State


async def read_fleet(
    reader: TextReader,
    sources: RevisionSources,
    document: Upgrade,
    offload: Offload = inline,
    *,
    needs: Collection[str] | None = None,
    sidecars: tuple[str, str] = ("", ""),
) -> Fleet:
    """Read the input of a plan from a cluster, or from files. A server gives ``offload`` to keep its event loop free.

    ``needs`` has the revisions that must exist; by default both, and the tag. ``sidecars`` are the names that the revisions write into
    pods, for one that does not exist.

    Raises:
        InjectorError: as in ``read_view``, a workload cannot be read, or the tag is unknown.
    """
    view = await read_view(reader, sources, None, offload=offload)
    source, target = (
        _revision(view, name) if needs is None or name in needs else _revision_if_readable(view, name)
        for name in (document.source, document.target)
    )
    tags = view.revisions.state.tags
    if document.tag and document.tag not in tags and needs is None:
        hint = f"known tags are {first_of(sorted(tags))}" if tags else "set it with `injector tag set`"
        raise TagError(f'cannot find tag "{document.tag}"', where=view.revisions.tags_where, hint=hint)
    restarts: dict[Key, Restart] = {}
    old, new = (
        revision.written if revision else name for revision, name in zip((source, target), sidecars, strict=True)
    )
    if document.in_place:
        old = f"{new} ({OLDER_TEMPLATE})"
    # By name, because a list can be started again. A pod of a file may have no name.
    sidecar_of: dict[tuple[str, str | int], tuple[Key, str | None]] = {}
    statuses, outdated, kinds_of = PodStatuses(view), set[str](), defaultdict[Key, dict[str, None]](dict)
    unready = UnreadyPods()

    def note(item: dict[str, Any]) -> None:
        unready.note(item)
        if item["kind"] != "Pod":
            restarts[key_of(item)] = restart_of(item)
        elif not has_ended(item):
            meta = item["metadata"]
            place = str(meta.get("namespace", ""))
            key, revision = Key(*workload_key(item, place)), injected_revision(item)
            kinds = _outdated_kinds(item, statuses, view, document) if document.in_place and revision == new else None
            if kinds is not None:
                revision = old
                outdated.add(str(meta.get("uid", "")))
                kinds_of[key] |= dict.fromkeys(kinds)
            sidecar_of[place, meta.get("name") or len(sidecar_of)] = key, revision

    created = await list_workloads(reader, note, offload)
    pods: dict[Key, Counter[str | None]] = {}
    for key, revision in sidecar_of.values():
        pods.setdefault(key, Counter())[revision] += 1

    def workload_of(pod: Created) -> Workload:
        labels = pod_labels(pod, view.namespaces[pod.namespace])
        key = Key(pod.namespace, pod.kind, pod.name)
        restart = restarts.get(key) or unknown_restart(pod)
        name, matching = requested_name(view.webhooks, labels), find_called(view.webhooks, labels)
        if document.in_place and matching:
            name = destination(matching, view, labels)
        # The pods of a Job whose name looks like that of a CronJob's Job are those of the CronJob.
        own_key = key if pods.get(key) else Key(*labels.workload.key)
        own, kinds = pods.get(own_key) or Counter(), tuple(kinds_of.get(own_key, ()))
        policy = enforced_level(labels.namespace)
        return Workload(
            pod,
            name,
            labels.workload.pin,
            own,
            restart,
            policy,
            has_own_label=REVISION_LABEL in labels.pod,
            outdated_kinds=kinds,
            unready=unready.of(key),
            is_called=bool(matching),
        )

    skipped = notes_of_unknown_namespaces({workload.namespace for workload in created} - view.namespaces.keys())
    known = [workload for workload in created if workload.namespace in view.namespaces]
    workloads = await offload(lambda: tuple(map(workload_of, known)))
    of_tag = [item for item in view.configurations if document.tag and labels_of(item).get(TAG_LABEL) == document.tag]
    notes = (*view.notes, *owned_lines((WEBHOOKS, item) for item in of_tag), *skipped)
    state = view.revisions.state
    home, minors = sources.istio_namespace, minors_of(state.revisions)
    gateways = await read_gateways(reader, home, minors, state.tags) if document.tag else GatewayView()
    return Fleet(
        source,
        target,
        tags.get(document.tag),
        workloads,
        (old, new),
        notes,
        frozenset(outdated),
        gateways,
        view.namespaces,
    )


def _outdated_kinds(
    pod: Mapping[str, Any], statuses: PodStatuses, view: ClusterView, document: Upgrade
) -> tuple[str, ...] | None:
    """Return the kinds of changes between the sidecar of a pod and the one that its revision injects now.

    None if there are none, if the pod gets another revision, or if it cannot be read.
    """
    if pod["metadata"].get("namespace", "") not in view.namespaces:
        return None
    try:
        status = statuses.of_running(dict(pod))
    except DataError:
        return None
    if status is None or status.gets != document.target or status.drift.state not in (OLDER_TEMPLATE, NOW_REFUSED):
        return None
    return status.drift.kinds


def _revision(view: ClusterView, name: str) -> Revision:
    state = view.revisions.state
    if name not in state.names:
        hint = f"known revisions are {first_of(sorted(state.names))}"
        raise UsageError(f'no revision is called "{name}"', where=view.revisions.where, hint=hint)
    return view.built.revision(state.revision(name))


def _revision_if_readable(view: ClusterView, name: str) -> Revision | None:
    try:
        return _revision(view, name)
    except InjectorError:
        return None


@dataclass(frozen=True, slots=True)
class Survey:
    """A plan, and the workloads of the whole cluster that it was made of."""

    plan: Plan
    workloads: tuple[Workload, ...]


@dataclass(frozen=True, slots=True)
class Beginning:
    """The cluster before an upgrade.

    Attributes:
        tag: the tag of the upgrade; None if it has none.
        sidecars: the names that its revisions write into pods.
        pins: the pins to keep.
        fingerprint: that of the new revision's configuration.
    """

    tag: Tag | None
    sidecars: tuple[str, str]
    pins: tuple[str, ...]
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Surveyor:
    """Makes the plans of running upgrades of one cluster, on the event loop that the client belongs to.

    The work of reading and planning is done in a thread, because the event loop of a server answers admissions. While 5,000 workloads
    were read and compared, it was late by at most 0.34 s on a busy machine, instead of 3.3 s. One upgrade after the other does it:
    several would take the processor and every thread of the server, which reloads its configuration in one.
    """

    client: KubeClient
    sources: RevisionSources
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def start(self, upgrade: Upgrade) -> Beginning:
        """Return what the state of an upgrade remembers of the cluster before its start.

        Raises:
            InjectorError: a revision or the tag does not exist, or the upgrade cannot move the tag.
        """
        async with self._lock:
            fleet = await read_fleet(self.client, self.sources, upgrade, asyncio.to_thread)
        if fleet.tag is not None:
            check_tag(upgrade, fleet.tag)
        pins = pins_of(upgrade, fleet.tag, fleet.workloads)
        return Beginning(fleet.tag, fleet.sidecars, pins, "" if fleet.target is None else fleet.target.fingerprint)

    async def fingerprint(self, revision: str) -> str:
        """Return the fingerprint of a revision's configuration; empty if it cannot be used."""
        async with self._lock:
            view = await read_view(self.client, self.sources, None, offload=asyncio.to_thread)
            built = await asyncio.to_thread(_revision_if_readable, view, revision)
        return "" if built is None else built.fingerprint

    async def survey(self, upgrade: Upgrade, state: State, before: Tag | None, *, is_compared: bool = False) -> Survey:
        """Return the plan of an upgrade or its rollback from the tag before it, with the classes of change of the current wave.

        If workloads of the waves before are tried again, these have the classes too.

        Raises:
            InjectorError: the revision that the pods are to get does not exist.
        """
        needs = {upgrade.source if state.back else upgrade.target}
        waves: Collection[int] = (state.wave,) if is_compared else ()
        if is_compared and (state.rest or state.retries):
            waves = range(state.wave + 1)
        async with self._lock:
            fleet = await read_fleet(
                self.client, self.sources, upgrade, asyncio.to_thread, needs=needs, sidecars=state.sidecars
            )
            plan = await asyncio.to_thread(make_plan, upgrade, before, fleet, waves, back=state.back, pins=state.pins)
        return Survey(plan, fleet.workloads)

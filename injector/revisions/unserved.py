"""Names that nobody serves: labels ``istio.io/rev`` of namespaces and pods that lead to no revision and no tag.

Of such a pod the API server asks nobody, so it starts without a sidecar and without a word. ``UnservedNames`` watches
for them beside what is served. A namespace's label counts unless it has ``istio-injection`` too, a pod's only where its
namespace has neither, as in the selectors of Istio's webhooks (``istio.webhooks``).

What is remembered does not grow with the cluster: of namespaces those that carry one of the two labels, by name; of pods
only those whose name is not served, at most ``MAX_PODS``. It is the API server that picks them, by a selector that leaves
out what is served, and it sends their metadata alone: where every name is served the watch of pods is silent. To list the
pods every so often instead would have it read all of them from etcd each time, and tell later. Metadata does not say which
pods use the host's network and would get no sidecar anyway: these are counted too.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.listwatch import ListWatch
from injector.cluster.reader import NAMESPACES, PODS, Scope
from injector.injection.steps.status import STATUS
from injector.istio.servednames import MAX_LABEL_VALUE
from injector.istio.webhooks import INJECT_LABEL, INJECTION_LABEL, REVISION_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from injector.cluster.listwatch import Client, Observer
    from injector.metrics import Metrics
    from injector.revisions.registry import Registry

PACE: Final = 1.0
"""Seconds between two counts, however often what is served or what was seen changes."""
MAX_PODS: Final = 10_000
"""How many pods are remembered, at some 250 bytes each."""
MAX_NAMES: Final = 100
"""How many names are shown; there are as many as label values have been made up."""
# A name has up to 63 characters: the selector stays well within the megabyte that Go's server takes as a request's head.
_SELECTED: Final = 200


def kept_revision(item: Mapping[str, Any]) -> str | None:
    """Return the revision or tag that a namespace names; None where ``istio-injection`` stands before it."""
    labels = _labels(item)
    return None if INJECTION_LABEL in labels else labels.get(REVISION_LABEL)


def kept_injection(item: Mapping[str, Any]) -> bool | None:
    """Tell that a namespace has the label ``istio-injection``, which stands before a pod's ``istio.io/rev``."""
    return True if INJECTION_LABEL in _labels(item) else None


def kept_pod(item: Mapping[str, Any], served: Collection[str]) -> str | None:
    """Return the name that a pod without a sidecar asks for and nobody serves; None where it is served, or has one."""
    name = _labels(item).get(REVISION_LABEL)
    has_sidecar = STATUS in (item["metadata"].get("annotations") or {})
    return None if name in served or has_sidecar else name


def _labels(item: Mapping[str, Any]) -> Mapping[str, str]:
    return item["metadata"].get("labels") or {}


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of the cluster: the labels of namespaces, and the names of pods, None where these cannot be listed."""

    namespaces: Mapping[str, str]
    with_injection: Collection[str]
    pods: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """How many namespaces and pods name something that nobody serves, in all and by name; ``pods`` is None if unknown."""

    namespaces: int
    pods: int | None
    names: Mapping[str, tuple[int, int]]

    def shown(self) -> dict[str, Any]:
        """Return it as JSON data, the most frequent names first; what a label holds is as long as its author likes."""
        ordered = sorted(self.names.items(), key=lambda each: (-sum(each[1]), each[0]))
        return {
            "namespaces": self.namespaces,
            "pods": self.pods,
            "names": {
                name[:MAX_LABEL_VALUE]: {"namespaces": namespaces, "pods": pods}
                for name, (namespaces, pods) in ordered[:MAX_NAMES]
            },
            "more": max(0, len(ordered) - MAX_NAMES),
        }


def tally(seen: Seen, served: Collection[str]) -> Tally:
    """Count what names something that is not ``served``."""
    namespaces = Counter(name for name in seen.namespaces.values() if name not in served)
    pods = Counter(
        name
        for key, name in (seen.pods or {}).items()
        if name not in served
        and (home := key.partition("/")[0]) not in seen.namespaces
        and home not in seen.with_injection
    )
    names = {name: (namespaces[name], pods[name]) for name in {*namespaces, *pods}}
    return Tally(namespaces.total(), None if seen.pods is None else pods.total(), names)


@dataclass(frozen=True, slots=True)
class _Told:
    """Passes on how a watch fares under a name of its own: three of them are of namespaces."""

    observer: Observer
    name: str

    def watch_fault(self, resource: str, reason: str) -> None:  # noqa: ARG002 -- the observer's signature
        self.observer.watch_fault(self.name, reason)

    def watch_synced(self, resource: str, *, synced: bool) -> None:  # noqa: ARG002 -- the observer's signature
        self.observer.watch_synced(self.name, synced=synced)


@dataclass(frozen=True, slots=True)
class _Namespaces:
    """The watches of the namespaces with either label."""

    revisions: ListWatch
    injections: ListWatch

    @property
    def synced(self) -> bool:
        """Whether both were listed."""
        return self.revisions.synced.is_set() and self.injections.synced.is_set()


@dataclass(frozen=True, slots=True)
class _Pods:
    """The watch of the pods that ask for none of ``served``, and the task that runs it."""

    served: frozenset[str]
    watch: ListWatch
    task: asyncio.Task[None]


@dataclass
class UnservedNames:
    """Watches a cluster for names that nobody serves.

    Args:
        client: the API server, closed at the end.
        registry: what is served here.
        elsewhere: names that another injector serves.
    """

    client: Client
    registry: Registry
    elsewhere: frozenset[str] = frozenset()
    _namespaces: _Namespaces | None = None
    _pods: _Pods | None = None
    _next: _Pods | None = None
    _changed: bool = False
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _tally: Tally | None = None
    _counted_for: frozenset[str] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        self.registry.subscribe(self._woken.set)

    @property
    def served(self) -> frozenset[str]:
        """The names that are served, here or elsewhere."""
        return self.registry.snapshot.names | self.elsewhere

    def named_by(self, namespace: str) -> str | None:
        """Return the revision or tag that a namespace names; None where it names none, or nothing is known of it yet."""
        if self._namespaces is None:
            return None
        found: str | None = self._namespaces.revisions.state.objects.get(namespace)
        return found

    def shown(self) -> dict[str, Any]:
        """Return what was counted last as JSON data; ``podsAtLeast`` tells that there may be more pods."""
        found = Tally(0, None, {}) if self._tally is None else self._tally
        full = self._pods is not None and self._pods.watch.state.full
        return {"counted": self._tally is not None, **found.shown(), "podsAtLeast": full}

    async def follow(self, metrics: Metrics) -> None:
        """Watch, and count in ``metrics``, until cancelled. While nothing is served yet, nothing is counted."""
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    self._woken.clear()
                    if self.registry.snapshot.revisions:
                        self._look(tasks, metrics)
                    await self._woken.wait()
                    await asyncio.sleep(PACE)
        finally:
            await self.client.close()

    def _look(self, tasks: asyncio.TaskGroup, metrics: Metrics) -> None:
        if self._namespaces is None:
            self._namespaces = _Namespaces(
                self._watch_namespaces(tasks, REVISION_LABEL, kept_revision, metrics),
                self._watch_namespaces(tasks, INJECTION_LABEL, kept_injection, metrics),
            )
        served = self.served
        self._watch_pods(tasks, served, metrics)
        if self._namespaces.synced and (self._changed or served != self._counted_for):
            self._changed, self._counted_for = False, served
            pods = None if self._pods is None else self._pods.watch.state.objects
            seen = Seen(self._namespaces.revisions.state.objects, self._namespaces.injections.state.objects, pods)
            self._tally = tally(seen, served)
            metrics.unserved_names(self._tally.namespaces, self._tally.pods)

    def _watch_namespaces(
        self, tasks: asyncio.TaskGroup, label: str, keep: Callable[[Mapping[str, Any]], Any], metrics: Metrics
    ) -> ListWatch:
        scope = Scope(NAMESPACES, labels=label, metadata_only=True)
        watch = self._list_watch(scope, keep, _Told(metrics, f"{NAMESPACES.plural}/{label}"))
        tasks.create_task(watch.run())
        return watch

    def _watch_pods(self, tasks: asyncio.TaskGroup, served: frozenset[str], metrics: Metrics) -> None:
        """Watch the pods that ask for none of ``served``; what was seen with another selector counts until this is synced."""
        latest = self._next or self._pods
        if latest is None or latest.served != served:
            if self._next is not None:
                self._next.task.cancel()
            scope = Scope(PODS, labels=pod_selector(served), metadata_only=True, room=MAX_PODS)
            watch = self._list_watch(scope, lambda item: kept_pod(item, served), _Told(metrics, PODS.plural))
            self._next = _Pods(served, watch, tasks.create_task(watch.run()))
        if self._next is not None and self._next.watch.synced.is_set():
            if self._pods is not None:
                self._pods.task.cancel()
            self._pods, self._next, self._changed = self._next, None, True

    def _list_watch(self, scope: Scope, keep: Callable[[Mapping[str, Any]], Any], told: _Told) -> ListWatch:
        return ListWatch(self.client, scope, keep=keep, changed=self._note, observer=told)

    def _note(self, objects: Mapping[str, Any]) -> None:  # noqa: ARG002 -- the watch keeps them
        self._changed = True
        self._woken.set()


def pod_selector(served: Collection[str]) -> str:
    """Return the label selector of pods that ask for a sidecar by a name that is none of ``served``."""
    names = ",".join(sorted(served)[:_SELECTED])
    return f"{REVISION_LABEL},{REVISION_LABEL} notin ({names}),{INJECT_LABEL} notin (false)"

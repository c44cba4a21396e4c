"""Watch a cluster for names that nothing serves: labels ``istio.io/rev`` that lead to no revision and no tag.

The API server calls no webhook for such a pod, so it silently starts without a sidecar. The label of a namespace counts unless it also has
``istio-injection``, and the label of a pod counts if its namespace has neither (``istio.webhooks.configurations``).

Memory does not grow with the cluster: the API server selects the namespaces that have one of the two labels and the pods whose name is not
served, and sends only their metadata. It does not show which pods use the host's network and get no sidecar anyway; they are counted too.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.listwatch import ListWatch
from injector.cluster.resources import NAMESPACES, PODS, Scope
from injector.injection.containers import labels_of
from injector.injection.steps.status import STATUS
from injector.istio.labels import INJECT_LABEL, INJECTION_LABEL, MAX_LABEL_VALUE, REVISION_LABEL

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient
    from injector.metrics import Metrics
    from injector.revisions.registry import Registry

COUNT_INTERVAL: Final = 1.0
"""Minimum seconds between two counts."""
MAX_PODS: Final = 10_000
"""How many pods are remembered, at about 250 bytes each."""
MAX_NAMES: Final = 100
"""How many names are shown; users can invent any number of label values."""
# A name has up to 63 characters, so the selector stays well below the megabyte that Go's server accepts as a request's head.
_MAX_SELECTOR_NAMES: Final = 200


def namespace_revision(item: Mapping[str, Any]) -> str | None:
    """Return the revision or tag that a namespace names; None if ``istio-injection`` takes precedence."""
    labels = labels_of(item)
    return None if INJECTION_LABEL in labels else labels.get(REVISION_LABEL)


def has_injection_label(item: Mapping[str, Any]) -> bool | None:
    """Return True if a namespace has the label ``istio-injection``, which takes precedence over a pod's ``istio.io/rev``, else None."""
    return True if INJECTION_LABEL in labels_of(item) else None


def unserved_name(item: Mapping[str, Any], served: Collection[str]) -> str | None:
    """Return the name in a pod's label; None if it is served or the pod has a sidecar."""
    name = labels_of(item).get(REVISION_LABEL)
    has_sidecar = STATUS in (item["metadata"].get("annotations") or {})
    return None if name in served or has_sidecar else name


@dataclass(frozen=True, slots=True)
class UnservedCount:
    """The numbers of namespaces and pods with unserved names, in total and by name; ``pods`` is None if unknown."""

    namespaces: int
    pods: int | None
    names: Mapping[str, tuple[int, int]]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data, the most frequent names first. Names are cut, because users write them."""
        ordered = sorted(self.names.items(), key=lambda named: (-sum(named[1]), named[0]))
        return {
            "namespaces": self.namespaces,
            "pods": self.pods,
            "names": {
                name[:MAX_LABEL_VALUE]: {"namespaces": namespaces, "pods": pods}
                for name, (namespaces, pods) in ordered[:MAX_NAMES]
            },
            "more": max(0, len(ordered) - MAX_NAMES),
        }


def count_unserved(
    namespaces: Mapping[str, str],
    with_injection: Collection[str],
    pods: Mapping[str, str] | None,
    served: Collection[str],
) -> UnservedCount:
    """Count the namespaces and pods whose name is not ``served``.

    ``namespaces`` are those with a name, and ``with_injection`` those with the label ``istio-injection``. ``pods`` has the names in pods,
    by namespace and name; None if they cannot be listed.
    """
    in_namespaces = Counter(name for name in namespaces.values() if name not in served)
    in_pods = Counter(
        name
        for key, name in (pods or {}).items()
        if name not in served and (home := key.partition("/")[0]) not in namespaces and home not in with_injection
    )
    names = {name: (in_namespaces[name], in_pods[name]) for name in {*in_namespaces, *in_pods}}
    return UnservedCount(in_namespaces.total(), None if pods is None else in_pods.total(), names)


@dataclass(frozen=True, slots=True)
class _PodWatch:
    """The watch of the pods whose name is not in ``served``, and its task."""

    served: frozenset[str]
    watch: ListWatch
    task: asyncio.Task[None]


@dataclass
class UnservedNames:
    """Watches a cluster for names that nothing serves, neither this injector nor, ``elsewhere``, another one."""

    client: KubeClient
    registry: Registry
    metrics: Metrics
    elsewhere: frozenset[str] = frozenset()
    _namespaces: dict[str, ListWatch] = field(default_factory=dict)
    """The watches of the namespaces with a label, by the label."""
    _pods: _PodWatch | None = None
    _next: _PodWatch | None = None
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _count: UnservedCount | None = None

    def __post_init__(self) -> None:
        self.registry.subscribe(self._woken.set)

    @property
    def served(self) -> frozenset[str]:
        """The names that are served, here or elsewhere."""
        return self.registry.snapshot.names | self.elsewhere

    def named_by(self, namespace: str) -> str | None:
        """Return the revision or tag that a namespace names; None if it names none, or is not known yet."""
        if REVISION_LABEL not in self._namespaces:
            return None
        label: str | None = self._namespaces[REVISION_LABEL].state.objects.get(namespace)
        return label

    def to_dict(self) -> dict[str, Any]:
        """Return the last count as JSON data; ``podsAtLeast`` is true if there may be more pods."""
        unserved = UnservedCount(0, None, {}) if self._count is None else self._count
        full = self._pods is not None and self._pods.watch.state.full
        return {"counted": self._count is not None, **unserved.to_dict(), "podsAtLeast": full}

    async def follow(self, ready: asyncio.Event) -> None:
        """Watch and count until cancelled. Counting starts once revisions are served, and the server does not wait for it."""
        ready.set()
        self._namespaces, self._pods, self._next = {}, None, None  # the watches of a run that failed have ended
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._woken.clear()
                if self.registry.snapshot.revisions:
                    self._update(tasks)
                await self._woken.wait()
                await asyncio.sleep(COUNT_INTERVAL)

    def _update(self, tasks: asyncio.TaskGroup) -> None:
        for label, keep in ((REVISION_LABEL, namespace_revision), (INJECTION_LABEL, has_injection_label)):
            if label not in self._namespaces:
                scope = Scope(NAMESPACES, labels=label, metadata_only=True, watch_name=f"{NAMESPACES.plural}/{label}")
                self._namespaces[label] = self._list_watch(scope, keep)
                tasks.create_task(self._namespaces[label].run())
        served = self.served
        self._watch_pods(tasks, served)
        if all(watch.synced.is_set() for watch in self._namespaces.values()):
            named, with_injection = (watch.state.objects for watch in self._namespaces.values())
            pods = None if self._pods is None else self._pods.watch.state.objects
            self._count = count_unserved(named, with_injection, pods, served)
            self.metrics.unserved_names.labels("namespace").set(self._count.namespaces)
            if self._count.pods is not None:
                self.metrics.unserved_names.labels("pod").set(self._count.pods)

    def _watch_pods(self, tasks: asyncio.TaskGroup, served: frozenset[str]) -> None:
        """Watch the pods whose name is not in ``served``. The previous watch counts until the new one is synced."""
        latest = self._next or self._pods
        if latest is None or latest.served != served:
            if self._next is not None:
                self._next.task.cancel()
            scope = Scope(PODS, labels=pod_selector(served), metadata_only=True, room=MAX_PODS)
            watch = self._list_watch(scope, lambda item: unserved_name(item, served))
            self._next = _PodWatch(served, watch, tasks.create_task(watch.run()))
        if self._next is not None and self._next.watch.synced.is_set():
            if self._pods is not None:
                self._pods.task.cancel()
            self._pods, self._next = self._next, None

    def _list_watch(self, scope: Scope, keep: Callable[[Mapping[str, Any]], Any]) -> ListWatch:
        return ListWatch(self.client, scope, keep=keep, changed=lambda _: self._woken.set(), metrics=self.metrics)


def pod_selector(served: Collection[str]) -> str:
    """Return the label selector of pods that ask for a sidecar by a name that is not in ``served``."""
    names = ",".join(sorted(served)[:_MAX_SELECTOR_NAMES])
    return f"{REVISION_LABEL},{REVISION_LABEL} notin ({names}),{INJECT_LABEL} notin (false)"

"""Watch a cluster for workloads whose sidecar is of another revision than new pods would get.

Only metadata is read. A pod's annotation ``sidecar.istio.io/status`` names the revision that it has. Its labels and those of its namespace
decide which of Istio's webhooks would be called for it now, and the tags of this injector which revision it would get. A pod that no
revision of this injector would inject is not counted. An older template of the same revision is not seen; ``injector revision status``
compares the whole pods.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.listwatch import ListWatch
from injector.cluster.resources import NAMESPACES, PODS, RUNNING, Scope
from injector.injection.containers import labels_of
from injector.injection.tools.drift import injected_revision, own_revision_label
from injector.istio.labels import INJECT_LABEL, INJECTION_LABEL, MAX_LABEL_VALUE, REVISION_LABEL
from injector.istio.webhooks.configurations import WebhookOptions
from injector.istio.webhooks.reading import istios_webhooks
from injector.memo import Memo
from injector.revisions.tags import TagWorkload, workload_of_pod

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient
    from injector.metrics import Metrics
    from injector.revisions.registry import Registry, Snapshot

COUNT_INTERVAL: Final = 5.0
"""Minimum seconds between two counts."""
MAX_PODS: Final = 20_000
"""How many pods are remembered."""
SHARED: Final = 1000
"""How many sidecars other pods of their workload can share. The API server lists pods by namespace and name."""
UNNAMED: Final = "(no name)"
"""The revision of a pod whose sidecar names none."""


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The workload of a pod with a sidecar, the revision that the sidecar names, and the labels of the pod that select a webhook."""

    workload: TagWorkload
    revision: str
    labels: tuple[tuple[str, str], ...]


def sidecar_of(pod: Mapping[str, Any]) -> Sidecar | None:
    """Return the sidecar of a pod from its metadata; None if it has none."""
    revision = injected_revision(pod)
    if revision is None:
        return None
    labels = {REVISION_LABEL: own_revision_label(pod), INJECT_LABEL: labels_of(pod).get(INJECT_LABEL)}
    present = tuple((key, value) for key, value in labels.items() if value is not None)
    # Users can write longer ones. The revision becomes the label of a metric, and a cut pin names no revision.
    key, pin = workload_of_pod(pod, pod["metadata"]["namespace"])
    return Sidecar(TagWorkload(key, pin[: MAX_LABEL_VALUE + 1]), revision[:MAX_LABEL_VALUE], present)


def injection_labels(namespace: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the labels of a namespace that select a webhook; None without one."""
    return {
        key: value for key, value in labels_of(namespace).items() if key in (REVISION_LABEL, INJECTION_LABEL)
    } or None


def count_drift(
    sidecars: Iterable[Sidecar], namespaces: Mapping[str, Mapping[str, str]], snapshot: Snapshot
) -> Counter[tuple[str, str, str]]:
    """Count the workloads whose pods would get another revision: by the revision that they have, the one they would get, and namespace.

    ``namespaces`` has the labels of the namespaces that have any.
    """
    webhooks = istios_webhooks(dict.fromkeys(snapshot.names, WebhookOptions()))
    names: dict[tuple[str, tuple[tuple[str, str], ...]], str | None] = {}
    counted: set[tuple[str, str, tuple[str, str, str]]] = set()
    for sidecar in set(sidecars):
        place = sidecar.workload.key[0]
        if (place, sidecar.labels) not in names:
            matching = webhooks.find_called(namespaces.get(place, {}), dict(sidecar.labels))
            names[place, sidecar.labels] = matching[0].configuration if matching else None
        name, workload = names[place, sidecar.labels], sidecar.workload
        if name is not None:
            wanted = snapshot.resolve(name, partial(TagWorkload, *workload)).revision
            if sidecar.revision != (wanted.written if wanted.behaviours.names_revision else ""):
                counted.add((sidecar.revision or UNNAMED, wanted.name, workload.key))
    return Counter((has, gets, key[0]) for has, gets, key in counted)


@dataclass
class DriftWatch:
    """Watches the pods and namespaces of a cluster, and counts the workloads that have drifted."""

    client: KubeClient
    registry: Registry
    metrics: Metrics
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _shared: Memo[Sidecar, Sidecar] = field(default_factory=lambda: Memo(SHARED, SHARED, lambda _: 1))
    """The sidecars that were seen last. The pods of a workload share one, which saves memory."""

    def __post_init__(self) -> None:
        self.registry.subscribe(self._woken.set)

    async def follow(self, ready: asyncio.Event) -> None:
        """Watch and count until cancelled. The server does not wait for it."""
        ready.set()
        pods = self._watch(Scope(PODS, fields=RUNNING, room=MAX_PODS), self._keep)
        namespaces = self._watch(Scope(NAMESPACES), injection_labels)
        async with asyncio.TaskGroup() as tasks:
            for watch in (pods, namespaces):
                tasks.create_task(watch.run())
            while True:
                await self._woken.wait()
                self._woken.clear()
                if pods.synced.is_set() and namespaces.synced.is_set():
                    await self._count(pods, namespaces)
                    await asyncio.sleep(COUNT_INTERVAL)

    async def _count(self, pods: ListWatch, namespaces: ListWatch) -> None:
        sidecars = tuple(pods.state.objects.values())
        # 10,000 workloads take a tenth of a second, in which requests must be answered.
        counts = await asyncio.to_thread(count_drift, sidecars, dict(namespaces.state.objects), self.registry.snapshot)
        self.metrics.set_drift(counts)

    def _keep(self, pod: Mapping[str, Any]) -> Sidecar | None:
        pod_sidecar = sidecar_of(pod)
        return None if pod_sidecar is None else self._shared.get(pod_sidecar, lambda sidecar: sidecar)

    def _watch(self, scope: Scope, keep: Callable[[Mapping[str, Any]], Any]) -> ListWatch:
        scope = replace(scope, metadata_only=True, watch_name=f"drift/{scope.resource.plural}")
        return ListWatch(self.client, scope, keep=keep, changed=lambda _: self._woken.set(), metrics=self.metrics)

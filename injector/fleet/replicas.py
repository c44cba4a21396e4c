"""The revisions that the replicas of the injector serve, which can be the last good ones of ConfigMaps that are not valid now.

A replica says on its operations port what it serves (``webhook/operations.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.resources import ENDPOINT_SLICES, PODS, Scope
from injector.errors import ClusterError, DataError
from injector.istio.webhooks.reading import live_webhooks
from injector.revisions.source import build

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient
    from injector.cluster.session import Session
    from injector.istio.webhooks.reading import LiveWebhooks, Service
    from injector.revisions.tagstore import TagState

STATUS_PATH: Final = "status.json"
OPS_PORT: Final = "ops"
"""The name of the operations port in the pods of the chart."""
_DEFAULT_PORT: Final = 8080
_MAX_REPLICAS: Final = 3
"""The number of replicas to ask. All have the same ConfigMaps, but one that started later may have no last good revision."""


@dataclass(frozen=True, slots=True)
class ServedRevision:
    """A revision as a replica serves it. ``written`` is the name that it writes into pods."""

    name: str
    istio_version: str
    fingerprint: str
    written: str

    def __str__(self) -> str:
        return f"{self.name}, Istio {self.istio_version}, fingerprint {self.fingerprint}"


@dataclass(frozen=True, slots=True)
class Replicas:
    """The revisions that the replicas serve, by name, and the faults of replicas that could not be asked."""

    revisions: Mapping[str, ServedRevision]
    faults: tuple[str, ...] = ()

    def about(self, name: str) -> str:
        """Return a sentence about what the replicas serve in place of a revision that cannot be read."""
        if name in self.revisions:
            return f"the replicas serve the last good revision {self.revisions[name]}"
        if self.faults:
            return f"what the replicas serve is not known: {self.faults[0]}"
        return "no replica serves it"


NO_REPLICAS: Final = Replicas({})
"""No replica was asked."""


async def read_replicas(webhooks: LiveWebhooks, client: KubeClient) -> Replicas:
    """Ask the ready replicas behind the webhooks what they serve. A replica that cannot be asked is a fault."""
    revisions: dict[str, ServedRevision] = {}
    faults: list[str] = []
    for service in dict.fromkeys(webhook.service for webhook in webhooks if webhook.service is not None):
        try:
            for pod in (await _pods_behind(service, client))[:_MAX_REPLICAS]:
                status = await _status_of(pod, service.namespace, client)
                revisions = {row.name: row for row in _revisions_of(status)} | revisions
        except ClusterError as error:
            faults.append(str(error))
    return Replicas(revisions, tuple(faults))


async def _pods_behind(service: Service, client: KubeClient) -> list[str]:
    """Return the names of the pods that are ready endpoints of a Service."""
    scope = Scope(ENDPOINT_SLICES, service.namespace, f"kubernetes.io/service-name={service.name}")
    slices = await client.all(scope, lambda item: item.get("endpoints") or ())
    ready = [
        endpoint
        for endpoints in slices
        for endpoint in endpoints
        if (endpoint.get("conditions") or {}).get("ready") is not False
    ]
    targets = [endpoint.get("targetRef") or {} for endpoint in ready]
    return sorted(target["name"] for target in targets if target.get("kind") == PODS.kind)


async def _status_of(pod: str, namespace: str, client: KubeClient) -> Mapping[str, Any]:
    spec = (await client.get(PODS, pod, namespace=namespace)).get("spec") or {}
    ports = [port for container in spec.get("containers") or () for port in container.get("ports") or ()]
    port = next((port["containerPort"] for port in ports if port.get("name") == OPS_PORT), _DEFAULT_PORT)
    return await client.get_from_pod(pod, STATUS_PATH, namespace=namespace, port=port)


def _revisions_of(status: Mapping[str, Any]) -> Iterable[ServedRevision]:
    """Return the revisions of a status. istiod, or another server on this port, has none."""
    rows = status.get("revisions")
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and row.get("served") and isinstance(row.get("name"), str):
            keys = "istioVersion", "fingerprint", "writtenRevision"
            yield ServedRevision(row["name"], *(str(row.get(key, "")) for key in keys))


def ask_replicas(session: Session, configurations: Iterable[Mapping[str, Any]]) -> Replicas:
    """Ask the replicas behind the webhooks of configurations what they serve."""
    return session.run(partial(read_replicas, live_webhooks(configurations)))


def warnings_about_targets(state: TagState, ask: Callable[[], Replicas] | None) -> list[str]:
    """Return a warning for each revision of a tag that cannot be used, with what the replicas serve if these can be asked."""
    targets = {target: tag.name for tag in state.tags.values() for target in tag.targets}
    faults = {name: fault for name in targets if (fault := _fault_of(name, state)) is not None}
    replicas = ask() if faults and ask is not None else NO_REPLICAS
    return [
        f"tag `{targets[name]}`: revision {name} cannot be used: {fault}"
        + (f"; {replicas.about(name)}" if ask is not None else "")
        for name, fault in sorted(faults.items())
    ]


def _fault_of(name: str, state: TagState) -> object | None:
    if name in state.broken:
        return state.broken[name]
    if name not in state.revisions or (state.texts and name not in state.texts):
        return "it has no ConfigMap"
    try:
        if name in state.texts:
            build(state.texts[name])
    except DataError as error:
        return error
    return None

"""Resources of the API server, and reading objects once: single objects, and lists page by page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from injector.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from injector.cluster.client import Page


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of the API: its path and kind as Kubernetes spells them."""

    api_version: str
    plural: str
    kind: str
    namespaced: bool

    def path(self, *, namespace: str = "", name: str = "") -> str:
        """Return the path of one object, or of all objects in a namespace or the cluster."""
        root = f"/api/{self.api_version}" if "/" not in self.api_version else f"/apis/{self.api_version}"
        within = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{root}{within}/{self.plural}" + (f"/{name}" if name else "")


CONFIG_MAPS: Final = Resource("v1", "configmaps", "ConfigMap", namespaced=True)
NAMESPACES: Final = Resource("v1", "namespaces", "Namespace", namespaced=False)
SECRETS: Final = Resource("v1", "secrets", "Secret", namespaced=True)
PODS: Final = Resource("v1", "pods", "Pod", namespaced=True)
SERVICES: Final = Resource("v1", "services", "Service", namespaced=True)
NODES: Final = Resource("v1", "nodes", "Node", namespaced=False)
WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False
)
ENDPOINT_SLICES: Final = Resource("discovery.k8s.io/v1", "endpointslices", "EndpointSlice", namespaced=True)
DEPLOYMENTS: Final = Resource("apps/v1", "deployments", "Deployment", namespaced=True)
STATEFUL_SETS: Final = Resource("apps/v1", "statefulsets", "StatefulSet", namespaced=True)
DAEMON_SETS: Final = Resource("apps/v1", "daemonsets", "DaemonSet", namespaced=True)
REPLICA_SETS: Final = Resource("apps/v1", "replicasets", "ReplicaSet", namespaced=True)
JOBS: Final = Resource("batch/v1", "jobs", "Job", namespaced=True)
CRON_JOBS: Final = Resource("batch/v1", "cronjobs", "CronJob", namespaced=True)


@dataclass(frozen=True, slots=True)
class Scope:
    """A selection of objects of one resource.

    Args:
        resource: the resource.
        namespace: the namespace; empty for all.
        labels: a label selector.
        metadata_only: whether the API server sends only the metadata.
        room: the maximum number of objects to remember; None for all.
        name: the name of the only object.
        fields: a field selector.
    """

    resource: Resource
    namespace: str = ""
    labels: str = ""
    metadata_only: bool = False
    room: int | None = None
    name: str = ""
    fields: str = ""

    def __str__(self) -> str:
        """Describe the objects for messages."""
        return f"{self.resource.plural} in {self.namespace}" if self.namespace else self.resource.plural


PAGE: Final = 500
"""The number of objects in a page, as kubectl's --chunk-size."""
# A list fails if it takes longer than the API server keeps its version, about five minutes. It is then started again.
TRIES: Final = 3

T = TypeVar("T")


class ReadClient(Protocol):
    """The part of the API server's client that reads objects."""

    async def page(self, scope: Scope, *, token: str = "", limit: int = PAGE) -> Page:
        """Return one page of a list."""

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        """Return one object."""


class Client(ReadClient, Protocol):
    """The part of the API server's client that reads and writes objects."""

    async def apply(
        self,
        resource: Resource,
        manifest: Mapping[str, Any],
        *,
        manager: str,
        force: bool = False,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Apply a manifest."""

    async def delete(self, resource: Resource, name: str, *, namespace: str = "", resource_version: str = "") -> None:
        """Delete one object."""


async def every(client: ReadClient, scope: Scope) -> AsyncIterator[dict[str, Any]]:
    """Yield the objects of ``scope``; only one page is held at a time.

    Raises:
        ClusterError: the API server cannot be reached, or refuses.
    """
    token = ""
    while True:
        page = await client.page(scope, token=token, limit=PAGE)
        for item in page.items:
            yield item
        token = page.token
        if not token:
            return


class Reader(Protocol):
    """Reads objects from a cluster, or from files with the objects of a cluster."""

    async def all(self, scope: Scope, keep: Callable[[dict[str, Any]], T | None]) -> list[T]:
        """Return the results of ``keep`` for all objects of a scope, without None."""

    async def one(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        """Return one object."""


class ClusterReader:
    """Reads a cluster. Only the results of ``keep`` stay in memory."""

    def __init__(self, client: ReadClient) -> None:
        self._client = client

    async def all(self, scope: Scope, keep: Callable[[dict[str, Any]], T | None]) -> list[T]:
        """Return the results of ``keep`` for all objects of a scope, without None.

        Raises:
            ClusterError: the API server cannot be reached, refuses, or no longer has the list's version ``TRIES`` times.
        """
        for tried in range(TRIES):
            try:
                return await self._listed(scope, keep)
            except ClusterError as error:
                if error.reason != "gone" or tried == TRIES - 1:
                    raise
        raise AssertionError("unreachable")  # pragma: no cover -- the last try returns or raises

    async def one(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        """Return one object."""
        return await self._client.get(resource, name, namespace=namespace)

    async def _listed(self, scope: Scope, keep: Callable[[dict[str, Any]], T | None]) -> list[T]:
        # The items of a list have no kind.
        named = {"apiVersion": scope.resource.api_version, "kind": scope.resource.kind}
        found = [keep({**named, **item}) async for item in every(self._client, scope)]
        return [each for each in found if each is not None]

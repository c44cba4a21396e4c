"""Objects of the API server that are read once: which resources, single objects, and whole lists page by page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from injector.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from injector.cluster.client import Page


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of the API: its path and kind as Kubernetes spells them."""

    api_version: str
    plural: str
    kind: str
    namespaced: bool

    def path(self, *, namespace: str = "", name: str = "") -> str:
        """Return the path of one object, or of all of them in a namespace or the cluster."""
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
    """Which objects: those of one namespace or of all, with the labels, and the fields, of a selector or any, of one name or any.

    ``metadata_only`` leaves the rest of each object with the API server; ``room`` is how many are remembered at most.
    """

    resource: Resource
    namespace: str = ""
    labels: str = ""
    metadata_only: bool = False
    room: int | None = None
    name: str = ""
    fields: str = ""

    def __str__(self) -> str:
        """Say what they are, for messages."""
        return f"{self.resource.plural} in {self.namespace}" if self.namespace else self.resource.plural


PAGE: Final = 500
"""Objects in a page, as kubectl's --chunk-size."""
# A list that takes longer than the API server keeps its version, about five minutes, is started again.
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
        """Bring an object's fields to what the manifest says."""

    async def delete(self, resource: Resource, name: str, *, namespace: str = "", resource_version: str = "") -> None:
        """Delete one object."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of some objects, ``namespace/name`` where they have one, and how many there are with the others."""

    first: tuple[str, ...]
    total: int


async def every(client: Client, scope: Scope) -> AsyncIterator[dict[str, Any]]:
    """Yield the objects of ``scope``, page by page; only one page is held at a time.

    Raises:
        ClusterError: the API server cannot be reached, or refuses.
    """
    async for item in listed(lambda token: client.page(scope, token=token)):
        yield item


async def listed(page_of: Callable[[str], Awaitable[Page]]) -> AsyncIterator[dict[str, Any]]:
    """Yield the items of a list; ``page_of`` returns the page of a token, which is empty for the first page."""
    token = ""
    while True:
        page = await page_of(token)
        for item in page.items:
            yield item
        token = page.token
        if not token:
            return


async def names(client: Client, scope: Scope, *, most: int) -> Names:
    """Return the names of the first ``most`` objects of ``scope``, and how many there are.

    Raises:
        ClusterError: the API server cannot be reached, or refuses.
    """
    first: list[str] = []
    total = 0
    async for item in every(client, scope):
        total += 1
        if total <= most:
            metadata = item["metadata"]
            first.append("/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part))
    return Names(tuple(first), total)


class Reader(Protocol):
    """Where objects are read: a cluster, or files that hold what one had."""

    async def all(self, scope: Scope, keep: Callable[[dict[str, Any]], T | None]) -> list[T]:
        """Return what ``keep`` makes of each object of a scope, without None."""

    async def one(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        """Return one object."""


class ClusterReader:
    """Reads a cluster. Of each object no more stays in memory than what ``keep`` returns."""

    def __init__(self, client: ReadClient) -> None:
        self._client = client

    async def all(self, scope: Scope, keep: Callable[[dict[str, Any]], T | None]) -> list[T]:
        """Return what ``keep`` makes of each object of a scope, without None.

        Raises:
            ClusterError: the API server cannot be reached, or refuses, or forgets the list again and again.
        """
        for tried in range(TRIES):
            try:
                return await self._listed(scope, keep)
            except ClusterError as error:
                if error.reason != "gone" or tried == TRIES - 1:
                    raise
        raise AssertionError("unreachable")  # pragma: no cover -- the last try returns or raises

    async def one(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        """Return one object.

        Raises:
            ClusterError: there is none, or the API server cannot be reached, or refuses.
        """
        return await self._client.get(resource, name, namespace=namespace)

    async def _listed(self, scope: Scope, keep: Callable[[dict[str, Any]], T | None]) -> list[T]:
        # The items of a list do not say of what kind they are.
        named = {"apiVersion": scope.resource.api_version, "kind": scope.resource.kind}
        items = listed(lambda token: self._client.page(scope, token=token, limit=PAGE))
        found = [keep({**named, **item}) async for item in items]
        return [each for each in found if each is not None]

"""Resources of the API server, selections of their objects, and the interface that reads objects once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from injector.errors import ClusterError, ManifestError
from injector.kube.objects import mapping_at, mappings_at

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of the API: its path and kind as Kubernetes spells them.

    With ``strict``, an object with a field that the API server does not know is not written: otherwise the field would be dropped.
    """

    api_version: str
    plural: str
    kind: str
    namespaced: bool
    strict: bool = False

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
VALIDATORS: Final = Resource(
    "admissionregistration.k8s.io/v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
ENDPOINT_SLICES: Final = Resource("discovery.k8s.io/v1", "endpointslices", "EndpointSlice", namespaced=True)
DEPLOYMENTS: Final = Resource("apps/v1", "deployments", "Deployment", namespaced=True)
STATEFUL_SETS: Final = Resource("apps/v1", "statefulsets", "StatefulSet", namespaced=True)
DAEMON_SETS: Final = Resource("apps/v1", "daemonsets", "DaemonSet", namespaced=True)
REPLICA_SETS: Final = Resource("apps/v1", "replicasets", "ReplicaSet", namespaced=True)
JOBS: Final = Resource("batch/v1", "jobs", "Job", namespaced=True)
BUDGETS: Final = Resource("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
CRON_JOBS: Final = Resource("batch/v1", "cronjobs", "CronJob", namespaced=True)
GATEWAY: Final = "Gateway"
GATEWAY_GROUP: Final = "gateway.networking.k8s.io"
GATEWAY_CLASSES: Final = Resource("gateway.networking.k8s.io/v1", "gatewayclasses", "GatewayClass", namespaced=False)
PROXY_CONFIGS: Final = Resource("networking.istio.io/v1beta1", "proxyconfigs", "ProxyConfig", namespaced=True)


RUNNING: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""The field selector of pods that have not ended: an ended pod is not created again."""


LIST_ATTEMPTS: Final = 3
"""A list fails if it takes longer than the API server keeps its version, about five minutes. It is then started again."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A selection of objects of one resource.

    Args:
        namespace: the namespace; empty for all.
        metadata_only: whether the API server sends only the metadata.
        room: the maximum number of objects to remember; None for all.
        name: the name of the only object.
        watch_name: the name of a watch of it in the metrics; default: the plural of the resource.
        optional: whether the cluster may lack the resource, which then has no objects, or forbid it.
    """

    resource: Resource
    namespace: str = ""
    labels: str = ""
    metadata_only: bool = False
    room: int | None = None
    name: str = ""
    fields: str = ""
    watch_name: str = ""
    optional: bool = False

    def __str__(self) -> str:
        """Describe the objects for messages."""
        return f"{self.resource.plural} in {self.namespace}" if self.namespace else self.resource.plural


class ObjectReader(Protocol):
    """Reads objects of a cluster, from its API server or from files.

    ``is_complete`` is whether it has all objects: files may leave some out. All methods, and all functions that use one, raise
    ClusterError if the API server cannot be reached or refuses.
    """

    @property
    def is_complete(self) -> bool:
        """Whether the cluster has no object that is not here."""

    async def all(self, scope: Scope, keep: Callable[[dict[str, Any]], T | None]) -> list[T]:
        """Return the results of ``keep`` for all objects of ``scope``, without None. Only these results stay in memory."""

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        """Return one object."""

    async def find_resource(self, kind: str, group: str) -> Resource | None:
        """Return the resource of a kind in the preferred version of its group; None if the cluster does not have it."""


async def find_object(
    reader: ObjectReader, resource: Resource, name: str, *, namespace: str = ""
) -> dict[str, Any] | None:
    """Return one object; None if it does not exist."""
    try:
        return await reader.get(resource, name, namespace=namespace)
    except ManifestError:  # the files do not have it
        return None
    except ClusterError as error:
        if error.reason != "missing":
            raise
        return None


class TextReader(ObjectReader, Protocol):
    """An ``ObjectReader`` that can also leave the decoding to others."""

    async def texts(self, scope: Scope, token: str = "") -> tuple[list[bytes], str]:
        """Return one page of the objects of ``scope`` as JSON, and the token of the next page, empty on the last."""


async def ready_endpoints(reader: ObjectReader, namespace: str, service: str) -> list[int]:
    """Return the number of ready endpoints in each EndpointSlice of a Service. As for the API server, one without a condition is ready."""
    # k8s.io/api/discovery/v1, LabelServiceName
    return await reader.all(Scope(ENDPOINT_SLICES, namespace, f"kubernetes.io/service-name={service}"), _ready)


def _ready(item: Mapping[str, Any]) -> int:
    endpoints = mappings_at(item, "endpoints")
    return sum(mapping_at(endpoint, "conditions").get("ready") is not False for endpoint in endpoints)

"""What is asked of the API server: resources, and which of their objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


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

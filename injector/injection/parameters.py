"""What one injection works with, gathered before the first template runs.

Follows ``InjectionParameters`` and ``extractClusterAndNetwork`` in pkg/kube/inject (1.30.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.injection import containers as c
from injector.injection.result import ENFORCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.istio.meshfacts import MeshFacts
    from injector.istio.revision import Revision
    from injector.kube.pods import WorkloadMeta

CLUSTER: Final = "ISTIO_META_CLUSTER_ID"
NETWORK: Final = "ISTIO_META_NETWORK"
NETWORK_LABEL: Final = "topology.istio.io/network"


@dataclass(frozen=True, slots=True)
class Parameters:
    """One injection's inputs.

    ``workload`` owns the pod, ``owner_meta`` is its metadata as templates see it. ``mesh`` is what the mesh config says and
    ``proxy_config`` the facts of the pod's own ProxyConfig: the two differ where a pod has the annotation
    ``proxy.istio.io/config`` and comes by the webhook; ``mesh_in_data`` is the one that templates see. ``default_templates``
    are those of a pod that names none; ``injected_annotations`` is empty for kube-inject, as in Istio. Templates do not see the pod's
    label ``hidden_label``. ``guard`` is one of ``result.GUARDS``.
    """

    revision: Revision
    pod: c.Pod
    workload: WorkloadMeta
    owner_meta: Mapping[str, Any]
    mesh: MeshFacts
    mesh_in_data: MeshFacts
    proxy_config: MeshFacts
    default_templates: tuple[str, ...]
    injected_annotations: Mapping[str, str]
    written_revision: str
    native_sidecar: bool
    proxy_envs: Mapping[str, str]
    namespace_meta: Mapping[str, Any] | None = None
    hidden_label: str = ""
    guard: str = ENFORCE

    @property
    def hold_application(self) -> bool:
        """Whether the proxy starts before the application: by mesh config, annotation or values."""
        source = self.revision.behaviours.hold_application
        by_values = bool(source) and self.revision.values.hold_application
        return by_values or (source == "mesh" and self.proxy_config.hold_application)


def cluster_envs(revision: Revision, pod: c.Pod, proxy_envs: Mapping[str, str]) -> dict[str, str]:
    """Return the env variables of the URL completed with cluster and network: label over URL over values."""
    values = revision.values
    found = {
        CLUSTER: proxy_envs.get(CLUSTER) or values.cluster_name,
        NETWORK: c.labels_of(pod).get(NETWORK_LABEL, proxy_envs.get(NETWORK) or values.network),
    }
    return {**proxy_envs, **{name: value for name, value in found.items() if value}}

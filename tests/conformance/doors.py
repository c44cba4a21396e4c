"""Where Istio's two doors differ: up to 1.7 kube-inject and the webhook are two implementations, and a golden is kube-inject's.

Read in Istio 1.1.17, 1.4.10 and 1.5.10: ``IntoObject`` in inject.go against ``inject`` and ``createPatch`` in webhook.go. What both do is
compared; what one does alone is taken away from both sides, or the workload is no case for the webhook.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.conformance import workloads

LAST_APART: Final = 7
"""The last minor whose kube-inject goes its own way."""

KUBE_INJECT_ANNOTATIONS: Final = frozenset(
    {
        "k8s.v1.cni.cncf.io/networks",
        "sidecar.istio.io/interceptionMode",
        "traffic.sidecar.istio.io/excludeInboundPorts",
        "traffic.sidecar.istio.io/excludeOutboundIPRanges",
        "traffic.sidecar.istio.io/includeInboundPorts",
        "traffic.sidecar.istio.io/includeOutboundIPRanges",
    }
)
"""What only kube-inject writes, for Istio's CNI."""

WEBHOOK_LABELS: Final = frozenset({"service.istio.io/canonical-name", "service.istio.io/canonical-revision"})
"""What only the webhook writes."""

NO_PROBERS: Final = {"name": "ISTIO_KUBE_APP_PROBERS", "value": "{}"}
"""What only the webhook adds, where the agent has no status port to serve probes on."""

STATUS: Final = "sidecar.istio.io/status"
INJECT: Final = "sidecar.istio.io/inject"
SYSTEM_NAMESPACES: Final = frozenset({"kube-system", "kube-public"})


def apart(minor: str) -> bool:
    """Whether the doors of a minor differ."""
    return int(minor.split(".")[1]) <= LAST_APART


def comparable(minor: str, workload: Mapping[str, Any]) -> bool:
    """Whether the golden of a workload says what the webhook does.

    kube-inject asks no policy and leaves alone what has a sidecar; the webhook takes a ReplicaSet without a hash for a Deployment's.
    """
    if not apart(minor):
        return True
    annotations = workloads.as_pod(dict(workload))["metadata"].get("annotations") or {}
    return (
        STATUS not in annotations
        and annotations.get(INJECT) != "false"
        and workloads.namespace_of(dict(workload)) not in SYSTEM_NAMESPACES
        and workload["kind"] != "ReplicaSet"
    )


def pairs(minor: str, sources: list[Any], goldens: list[Any]) -> list[tuple[dict[str, Any], str, dict[str, Any]]]:
    """For each workload that the webhook can be asked about: its pod, its namespace, and the pod that it must become."""
    return [
        (as_pod(minor, source), workloads.namespace_of(source), common(minor, as_pod(minor, golden)))
        for source, golden in zip(workloads.injectable(sources), workloads.injectable(goldens), strict=True)
        if comparable(minor, source)
    ]


def as_pod(minor: str, workload: dict[str, Any]) -> dict[str, Any]:
    """The pod of a workload; where the doors differ without the hash, which kube-inject's templates do not see."""
    pod = workloads.as_pod(workload)
    if apart(minor) and workload["kind"] == "Deployment":
        meta = pod["metadata"]
        labels = {key: value for key, value in meta["labels"].items() if key != "pod-template-hash"}
        (owner,) = meta["ownerReferences"]
        pod["metadata"] = {
            **meta,
            "ownerReferences": [{**owner, "name": workload["metadata"]["name"]}],
            "labels": labels,
        }
    return pod


def common(minor: str, pod: dict[str, Any]) -> dict[str, Any]:
    """The pod without what one door alone does."""
    if not apart(minor):
        return pod
    meta = dict(pod["metadata"])
    for key, only in (("annotations", KUBE_INJECT_ANNOTATIONS), ("labels", WEBHOOK_LABELS)):
        remaining_pairs = {name: value for name, value in (meta.pop(key, None) or {}).items() if name not in only}
        if remaining_pairs:
            meta[key] = remaining_pairs
    containers = [_without_empty_probers(item) for item in pod["spec"]["containers"]]
    return {**pod, "metadata": meta, "spec": {**pod["spec"], "containers": containers}}


def _without_empty_probers(container: dict[str, Any]) -> dict[str, Any]:
    env = [item for item in container.get("env") or () if item != NO_PROBERS]
    return {**container, "env": env} if env else container

"""Renders built-in pods with a revision: a template that fails on every pod is found before it is served.

Istio accepts a template once it parses; here it must also run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from injector.injection.pipeline import inject_pod
from injector.injection.result import RequestFacts, Skipped

if TYPE_CHECKING:
    from injector.istio.revision import Revision

NAMESPACE: Final = "injector-verify"

# The label decides from 1.10 or so on, the annotation before: together they ask every minor to inject.
_ASKS: Final = {
    "labels": {"sidecar.istio.io/inject": "true", "app": "verify"},
    "annotations": {"sidecar.istio.io/inject": "true"},
}
_HTTP_PROBE: Final = {"httpGet": {"path": "/ready", "port": "http"}}

BUILT_IN_PODS: Final[dict[str, dict[str, Any]]] = {
    "plain": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "plain", **_ASKS},
        "spec": {"containers": [{"name": "app", "image": "app"}]},
    },
    "probes": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "probes-7f9c-",
            "labels": {**_ASKS["labels"], "pod-template-hash": "7f9c"},
            "annotations": {**_ASKS["annotations"], "prometheus.io/scrape": "true", "prometheus.io/port": "9100"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "probes-7f9c", "uid": "", "controller": True}
            ],
        },
        "spec": {
            "serviceAccountName": "app",
            "securityContext": {"fsGroup": 2000},
            "volumes": [{"name": "data", "emptyDir": {}}],
            "initContainers": [{"name": "prepare", "image": "prepare"}],
            "containers": [
                {
                    "name": "app",
                    "image": "app",
                    "ports": [{"name": "http", "containerPort": 8080}, {"containerPort": 9100}],
                    "readinessProbe": _HTTP_PROBE,
                    "livenessProbe": {"tcpSocket": {"port": 8080}},
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                },
                {"name": "helper", "image": "helper", "ports": [{"containerPort": 9200}]},
            ],
        },
    },
}
"""Pods that between them walk the branches of Istio's templates: ports, probes, init containers, owner, security
context."""


def verify(revision: Revision) -> tuple[str, ...]:
    """Inject the built-in pods.

    Returns:
        Why pods were left alone though they ask for a sidecar: not an error, and worth a line in the log.

    Raises:
        DataError: the templates do not run, or what they render is no pod.
    """
    results = {
        name: inject_pod(revision, pod, RequestFacts(namespace=NAMESPACE)) for name, pod in BUILT_IN_PODS.items()
    }
    return tuple(
        dict.fromkeys(f"{result.reason}: {result.detail}" for result in results.values() if isinstance(result, Skipped))
    )

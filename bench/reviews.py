"""AdmissionReviews as an API server sends them for the pods of ReplicaSets, for the benchmarks.

A pod has what the pods of usual services have: labels and annotations, a dozen variables, two ports, two probes, resources, a mounted
ConfigMap, the token volume, the default tolerations and the managedFields of the controller. A fifth of the workloads have a ProxyConfig
of their own, and a seventh ask for CPU of the proxy. ``tests/webhook/reviews`` has recorded reviews of this kind.
"""

from __future__ import annotations

import random
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOADS: Final = ("replicas", "unique")
WORKLOADS: Final = 20
"""ReplicaSets of the load ``replicas``."""
VARIABLES: Final = 12
CREATED_A_SECOND: Final = 10
START: Final = 1_790_000_000
"""When the first pod is created: seconds since 1970."""
SUFFIX: Final = "bcdfghjklmnpqrstvwxz2456789"
POD: Final = {"group": "", "version": "v1", "kind": "Pod"}
PODS: Final = {"group": "", "version": "v1", "resource": "pods"}
TOKENS: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
ACCOUNT: Final = "system:serviceaccounts"
KEYS: Final = {
    "containers": ("name",),
    "env": ("name",),
    "ownerReferences": ("uid",),
    "ports": ("containerPort", "protocol"),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
"""The lists in managedFields whose items have keys."""
SET_BY_SERVER: Final = ("serviceAccount", "tolerations", "priority", "preemptionPolicy")


def write_loads(folder: Path, count: int) -> None:
    """Write the reviews of each load, ``count`` lines in ``LOAD.jsonl``."""
    for load in LOADS:
        (folder / f"{load}.jsonl").write_bytes(b"".join(review + b"\n" for review in reviews(load, count)))


def reviews(load: str, count: int) -> Iterator[bytes]:
    """Yield the reviews of a load. In ``replicas`` they are of few workloads in turn, in ``unique`` each is of another one.

    Replicas of a workload differ in the uid of the review, the name of the token volume, and the time in managedFields.
    """
    dice = random.Random(load)  # noqa: S311 -- nothing secret
    for number in range(count):
        workload = number % WORKLOADS if load == "replicas" else number
        pod = pod_of(f"app-{workload}", workload, f"kube-api-access-{''.join(dice.choices(SUFFIX, k=5))}")
        pod["metadata"]["managedFields"] = [managed_fields(pod, START + number // CREATED_A_SECOND)]
        yield orjson.dumps(review_of(pod, str(uuid.UUID(int=dice.getrandbits(128), version=4))))


def pod_of(app: str, number: int, token: str) -> dict[str, Any]:
    """Return the pod of a workload, with a token volume of this name."""
    template_hash = f"{number * 7_919:010x}"
    annotations = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "8080",
        "checksum/config": f"{number:064x}",
        **({"proxy.istio.io/config": "holdApplicationUntilProxyStarts: true\n"} if number % 5 == 0 else {}),
        **({"sidecar.istio.io/proxyCPU": f"{100 + number % 400}m"} if number % 7 == 0 else {}),
    }
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"{app}-{template_hash}",
        "uid": str(uuid.UUID(int=number)),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {
        "generateName": f"{app}-{template_hash}-",
        "namespace": "shop",
        "labels": {
            "app": app,
            "app.kubernetes.io/name": app,
            "version": f"v{number % 7}",
            "pod-template-hash": template_hash,
        },
        "annotations": annotations,
        "ownerReferences": [owner],
    }
    spec = {
        "volumes": [
            {"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}},
            token_volume(token),
        ],
        "containers": [container_of(app, number, token)],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": app,
        "serviceAccount": app,
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{condition}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for condition in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {}}


def container_of(app: str, number: int, token: str) -> dict[str, Any]:
    """Return the container of a workload."""
    probe = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    variables = [{"name": f"SETTING_{index}", "value": f"{app}-{number % 97}-{index}"} for index in range(VARIABLES)]
    address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}
    return {
        "name": app,
        "image": f"registry.example.com/shop/{app}:1.{number % 50}.0",
        "imagePullPolicy": "IfNotPresent",
        "ports": [
            {"name": "http", "containerPort": 8080, "protocol": "TCP"},
            {"name": "grpc", "containerPort": 9090, "protocol": "TCP"},
        ],
        "env": [*variables, address],
        "resources": {"limits": {"cpu": "1", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
            "initialDelaySeconds": 5,
            **probe,
        },
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http", "scheme": "HTTP"}, **probe},
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/config", "readOnly": True},
            {"name": token, "readOnly": True, "mountPath": TOKENS},
        ],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "securityContext": {"runAsNonRoot": True, "allowPrivilegeEscalation": False},
    }


def token_volume(name: str) -> dict[str, Any]:
    """Return the volume that the API server adds for the token of the service account."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": name, "projected": {"sources": sources, "defaultMode": 420}}


def managed_fields(pod: dict[str, Any], seconds: int) -> dict[str, Any]:
    """Return the managedFields entry of the controller that created the pod at a time."""
    metadata = {name: value for name, value in pod["metadata"].items() if name != "namespace"}
    spec = {name: value for name, value in pod["spec"].items() if name not in SET_BY_SERVER}
    spec["volumes"] = [volume for volume in spec["volumes"] if "projected" not in volume]
    spec["containers"] = [
        {**container, "volumeMounts": [mount for mount in container["volumeMounts"] if mount["mountPath"] != TOKENS]}
        for container in spec["containers"]
    ]
    return {
        "manager": "kube-controller-manager",
        "operation": "Update",
        "apiVersion": "v1",
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)),
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": _owned(metadata), "f:spec": _owned(spec)},
    }


def _owned(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the tree that FieldsV1 has for some fields."""
    return {f"f:{name}": _tree(name, value) for name, value in fields.items()}


def _item(fields: dict[str, Any]) -> dict[str, Any]:
    return {".": {}, **_owned(fields)}


def _tree(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return _item(value) if value else {}
    if name in KEYS:
        items = {f"k:{orjson.dumps({key: item[key] for key in KEYS[name]}).decode()}": _item(item) for item in value}
        return items if name == "containers" else {".": {}, **items}
    return {}


def review_of(pod: dict[str, Any], uid: str) -> dict[str, Any]:
    """Return the review of the creation of a pod by a ReplicaSet."""
    user = {
        "username": "system:serviceaccount:kube-system:replicaset-controller",
        "uid": str(uuid.UUID(int=5)),
        "groups": [ACCOUNT, f"{ACCOUNT}:kube-system", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": [f"JTI={uuid.UUID(int=9)}"]},
    }
    request = {
        "uid": uid,
        "kind": POD,
        "resource": PODS,
        "requestKind": POD,
        "requestResource": PODS,
        "namespace": "shop",
        "operation": "CREATE",
        "userInfo": user,
        "object": pod,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}

"""Workloads as an upgrade sees them: which it can restart, and how many pods a restart takes away at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from injector.cluster.resources import DAEMON_SETS, DEPLOYMENTS, STATEFUL_SETS, Resource
from injector.kube.podsecurity import UNRESTRICTED, Policy

if TYPE_CHECKING:
    from injector.kube.pods import Created

ROLLOUT: Final = "Rollout"
ROLLOUT_GROUP: Final = "argoproj.io"
RESTARTABLE: Final[Mapping[str, Resource]] = {each.kind: each for each in (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS)}
"""The resources that are restarted by an annotation of their pod template. A Rollout has a field for it."""
_OTHERS: Final = {
    "Pod": "a bare pod: delete it and create it again",
    "Job": "a Job is not restarted: its pods keep their sidecar until it ends",
    "CronJob": "a CronJob is not restarted: its next Job gets the new sidecar",
}
_DEFAULT_SHARE: Final = "25%"


class Key(NamedTuple):
    """The name of a workload."""

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Restart:
    """The consequences of restarting a workload.

    Attributes:
        obstacle: why it cannot be restarted; empty if it can.
        disrupts: the pods that its controller takes away before their successors are available.
        labels: the labels of the workload.
    """

    obstacle: str = ""
    disrupts: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload of the cluster whose pods a webhook injects.

    Attributes:
        created: its name, and the pod that it creates.
        requested: the tag or revision of the webhook that is called for the pod; None if none is called.
        pin: the revision that its pods ask for; empty for none.
        pods: its running pods, by the revision of their sidecar; None is the revision of pods without one.
        restart: the consequences of a restart.
        policy: the Pod Security policy that its namespace enforces.
    """

    created: Created
    requested: str | None
    pin: str = ""
    pods: Counter[str | None] = field(default_factory=Counter)
    restart: Restart = field(default_factory=Restart)
    policy: Policy = UNRESTRICTED

    @property
    def key(self) -> Key:
        """Its name."""
        return Key(self.created.namespace, self.created.kind, self.created.name)


def key_of(obj: Mapping[str, Any]) -> Key:
    """Return the name of an object."""
    meta = obj["metadata"]
    return Key(str(meta.get("namespace", "")), str(obj.get("kind", "")), str(meta.get("name", "")))


def restart_of(obj: Mapping[str, Any]) -> Restart:
    """Return the consequences of restarting a workload, from the object itself."""
    spec, kind = obj.get("spec") or {}, str(obj.get("kind"))
    labels = obj["metadata"].get("labels") or {}
    return Restart(_obstacle(kind, spec), _disrupts(kind, spec, obj.get("status") or {}), labels)


def unknown_restart(kind: str) -> Restart:
    """Return the consequences of a restart for a workload that is only known by its pods."""
    return Restart(_obstacle(kind, {}))


def _obstacle(kind: str, spec: Mapping[str, Any]) -> str:
    if kind not in RESTARTABLE and kind != ROLLOUT:
        return _OTHERS.get(kind, f"{kind} is a kind whose restart is not known: restart it yourself")
    strategy = spec.get("updateStrategy") or {}
    if kind in ("StatefulSet", "DaemonSet") and strategy.get("type") == "OnDelete":
        return "its update strategy is OnDelete: delete its pods yourself"
    if kind == "StatefulSet" and (strategy.get("rollingUpdate") or {}).get("partition"):
        return "its update strategy has a partition, which keeps old pods: set it to 0"
    if kind in ("Deployment", ROLLOUT) and spec.get("paused"):
        return "its rollout is paused: resume it"
    return ""


def _disrupts(kind: str, spec: Mapping[str, Any], status: Mapping[str, Any]) -> int:
    """Return the pods that a rollout takes away at once.

    Follows Kubernetes 1.35: ``ResolveFenceposts`` in pkg/controller/deployment/util/deployment_util.go,
    ``unavailableCount`` of pkg/controller/daemon/util/daemonset_util.go, and pkg/controller/statefulset. For Argo Rollouts it follows
    rollout/restart.go (1.8), which restarts at least one pod at a time.
    """
    replicas = int(1 if spec.get("replicas") is None else spec["replicas"])
    strategy = spec.get("strategy") or spec.get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    match kind:
        case "Deployment" if strategy.get("type") == "Recreate":
            return replicas
        case "Deployment":
            surge = _share(rolling.get("maxSurge", _DEFAULT_SHARE), replicas, up=True)
            away = _share(rolling.get("maxUnavailable", _DEFAULT_SHARE), replicas, up=False)
            return min(replicas, away if surge or away else 1)
        case "StatefulSet":
            return min(replicas, max(1, _share(rolling.get("maxUnavailable", 1), replicas, up=True)))
        case "DaemonSet":
            nodes = int(status.get("desiredNumberScheduled") or 0)
            surge = _share(rolling.get("maxSurge", 0), nodes, up=True)
            return min(nodes, 0 if surge else max(1, _share(rolling.get("maxUnavailable", 1), nodes, up=True)))
        case "Rollout":
            canary = strategy.get("canary") or {}
            return min(replicas, max(1, _share(canary.get("maxUnavailable", _DEFAULT_SHARE), replicas, up=False)))
    return 0


def _share(value: Any, total: int, *, up: bool) -> int:
    """Return a number of pods, or a percentage of ``total``."""
    if isinstance(value, int):
        return value
    percent = str(value).removesuffix("%")
    if not percent.isdecimal():
        return 0
    return (int(percent) * total + (99 if up else 0)) // 100

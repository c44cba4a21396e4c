"""The pods of StatefulSets that are not ready and for which their controller waits, and the command that replaces them. It does no I/O.

Follows ``updateStatefulSet`` in pkg/controller/statefulset/stateful_set_control.go: with OrderedReady, it waits for a pod that is not ready
before it replaces that by one of another template.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from injector.kube.objects import mapping_at, mappings_at
from injector.kube.pods import has_ended
from injector.revisions.tags import workload_key
from injector.upgrade.plan import Key, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def newest_template(obj: Mapping[str, Any]) -> str:
    """Return the hash of the newest template of a StatefulSet that waits for each of its pods; empty for any other workload."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if obj.get("kind") != "StatefulSet" or spec.get("podManagementPolicy") == "Parallel":
        return ""
    return str(status.get("updateRevision") or "")


def unready_pod(pod: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name of a pod that is not ready, and the hash of its template; both are empty if it is ready."""
    conditions = mappings_at(mapping_at(pod, "status"), "conditions")
    if not any(condition.get("type") == "Ready" and condition.get("status") == "False" for condition in conditions):
        return "", ""
    meta = pod["metadata"]
    return str(meta.get("name", "")), str((meta.get("labels") or {}).get("controller-revision-hash", ""))


class UnreadyPods:
    """The pods that are not ready and for which their controllers wait, by StatefulSet."""

    def __init__(self) -> None:
        self._waiting = set[Key]()
        self._pods = defaultdict[Key, set[str]](set)

    def note(self, obj: Mapping[str, Any]) -> None:
        """Remember a workload or a pod."""
        if newest_template(obj):
            self._waiting.add(key_of(obj))
        elif obj["kind"] == "Pod" and not has_ended(obj) and (name := unready_pod(obj)[0]):
            self._pods[Key(*workload_key(obj, str(obj["metadata"].get("namespace", ""))))].add(name)

    def of(self, key: Key) -> tuple[str, ...]:
        """Return those of a workload."""
        return tuple(sorted(self._pods.get(key, ()))) if key in self._waiting else ()


def delete_command(pods: Iterable[str], namespace: str) -> str:
    """Return the command that deletes pods."""
    return f"`kubectl delete pod {' '.join(pods)} -n {namespace}`"

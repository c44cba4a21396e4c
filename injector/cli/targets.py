"""Workloads of a cluster as users name them, ``[TYPE/]NAME[.NAMESPACE]``, and as lists."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.reader import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Scope,
)
from injector.errors import UsageError
from injector.injection.drift import as_created
from injector.kube.created import Created, created_pods
from injector.kube.pods import controller_of
from injector.kube.typed import normalise
from injector.revisions.weights import workload_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.cluster.reader import Reader, Resource

TYPES: Final[Mapping[str, Resource]] = {
    **dict.fromkeys(("pod", "pods", "po"), PODS),
    **dict.fromkeys(("deployment", "deployments", "deploy"), DEPLOYMENTS),
    **dict.fromkeys(("statefulset", "statefulsets", "sts"), STATEFUL_SETS),
    **dict.fromkeys(("daemonset", "daemonsets", "ds"), DAEMON_SETS),
    **dict.fromkeys(("replicaset", "replicasets", "rs"), REPLICA_SETS),
    **dict.fromkeys(("job", "jobs"), JOBS),
    **dict.fromkeys(("cronjob", "cronjobs", "cj"), CRON_JOBS),
}
"""The words for kinds of workloads, with kubectl's short ones."""

LISTED: Final = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, CRON_JOBS, JOBS)
"""The kinds that are asked for by themselves; of every other the pods tell."""

RUNNING: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""The selector of pods that run: what has ended is not made anew."""
_OVER: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Target:
    """One workload that was named."""

    resource: Resource
    name: str
    namespace: str


def parse_target(text: str, *, namespace: str | None, default: str) -> Target:
    """Read ``[TYPE/]NAME[.NAMESPACE]``; where ``namespace`` is given the name may have dots of its own.

    Raises:
        UsageError: the type is none that has pods, or there is no name.
    """
    kind, separator, name = text.rpartition("/")
    resource = TYPES.get(kind.lower() if separator else "pod")
    if resource is None:
        known = ", ".join(dict.fromkeys(each.kind.lower() for each in TYPES.values()))
        raise UsageError(f"{kind[:80]!r} is no type of workload", where=text[:80], hint=f"known are {known}")
    if namespace is None and "." in name:
        name, _, namespace = name.rpartition(".")
    if not name:
        raise UsageError("it names no workload", where=text[:80], hint="write [TYPE/]NAME[.NAMESPACE]")
    return Target(resource, name, namespace or default)


async def read_target(reader: Reader, target: Target) -> Created:
    """Return a workload of the cluster with the pod that would be created of it now.

    Raises:
        DataError: the workload cannot be read.
        ClusterError: there is none, or the API server cannot be reached, or refuses.
    """
    found = await reader.one(target.resource, target.name, namespace=target.namespace)
    named = {"apiVersion": target.resource.api_version, "kind": target.resource.kind, **found}
    if target.resource is PODS:
        return replace(_of_pod(named), kind=PODS.kind, name=target.name)
    return next(created_pods(named, target.namespace))


async def read_targets(reader: Reader, namespace: str | None) -> list[Created]:
    """Return every workload of a namespace, or of all, once: Deployments and their like as they stand, and of what else has pods, a pod.

    Raises:
        DataError: a workload cannot be read.
        ClusterError: the API server cannot be reached, or refuses.
    """
    place = namespace or ""
    found: dict[tuple[str, ...], Created] = {}
    for resource in LISTED:
        for each in await reader.all(Scope(resource, place), _workload):
            found[each.namespace, each.kind, each.name] = each
    owned = frozenset(found)
    for each in await reader.all(Scope(PODS, place, fields=RUNNING), lambda pod: _lone(pod, owned)):
        found.setdefault(workload_key(each.pod, each.namespace), each)
    return [found[key] for key in sorted(found)]


def is_over(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod has ended, or is about to."""
    return bool(pod["metadata"].get("deletionTimestamp")) or (pod.get("status") or {}).get("phase") in _OVER


def _workload(item: dict[str, Any]) -> Created | None:
    """Return a workload that is nobody else's, as a CronJob's Jobs are, and that has not ended."""
    if controller_of(item["metadata"]) is not None or (item.get("status") or {}).get("completionTime"):
        return None
    return next(created_pods(item, str(item["metadata"].get("namespace", ""))), None)


def _lone(pod: dict[str, Any], owned: frozenset[tuple[str, ...]]) -> Created | None:
    """Return the pod as it would be created again; None where it ends, or belongs to a workload that was listed."""
    if is_over(pod):
        return None
    meta = pod["metadata"]
    place = str(meta.get("namespace", ""))
    owner = controller_of(meta) or {}
    if workload_key(pod, place) in owned or (place, owner.get("kind"), owner.get("name")) in owned:
        return None
    return _of_pod(pod)


def _of_pod(pod: dict[str, Any]) -> Created:
    read = as_created(normalise({"metadata": pod["metadata"], "spec": pod.get("spec") or {}}, "v1.Pod"))
    place = str(pod["metadata"].get("namespace", ""))
    _, kind, name = workload_key(read, place)
    return Created(kind, place, name, read)

"""A cluster as commands see it, from the API server or from files: revisions, tags, webhooks, namespaces, and workloads by their names."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from injector.cli.clusterflags import in_cluster
from injector.cli.inputs import read_manifests
from injector.cli.selection import offline_source
from injector.cluster.reader import (
    CONFIG_MAPS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    WEBHOOKS,
    ClusterReader,
    Scope,
)
from injector.errors import ManifestError, UsageError
from injector.injection.result import ENFORCE
from injector.injection.tools.drift import as_created
from injector.istio.webhooks import TAG_LABEL, live_webhooks
from injector.kube.pods import Created, controller_of, created_pods
from injector.kube.serial import load_json
from injector.kube.typed import normalise
from injector.kube.yaml import load_yaml, split_documents
from injector.revisions.build import Overrides
from injector.revisions.clustersource import build_all, listed_state, openshift_annotations
from injector.revisions.directory import TAGS_FILE
from injector.revisions.tags import workload_key

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from injector.cli.inputs import Manifest
    from injector.cluster.client import KubeClient
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.cluster.reader import Reader, Resource
    from injector.istio.webhooks import LiveWebhook
    from injector.revisions.clustersource import Built
    from injector.revisions.source import SourceState

T = TypeVar("T")


class FileReader:
    """Reads objects as ``cluster.reader`` does, from memory; selectors of fields are not judged."""

    def __init__(self, objects: Iterable[dict[str, Any]], *, where: str) -> None:
        self._objects: dict[str, list[dict[str, Any]]] = {}
        self._where = where
        for each in objects:
            self._objects.setdefault(str(each.get("kind")), []).append(each)

    async def all(self, scope: Scope, keep: Callable[[dict[str, Any]], T | None]) -> list[T]:
        """Return what ``keep`` makes of each object of a scope, without None."""
        kept = (keep(each) for each in self._of(scope.resource, scope.namespace) if _selected(each, scope.labels))
        return [each for each in kept if each is not None]

    async def one(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        """Return one object.

        Raises:
            ManifestError: the files do not have it.
        """
        found = next((each for each in self._of(resource, namespace) if each["metadata"].get("name") == name), None)
        if found is None:
            place = f"{namespace}/" if namespace else ""
            raise ManifestError(
                f"there is no {resource.kind} {place}{name}", where=self._where, hint="add it, or name another"
            )
        return found

    def _of(self, resource: Resource, namespace: str) -> Iterator[dict[str, Any]]:
        for each in self._objects.get(resource.kind, ()):
            if not namespace or each["metadata"].get("namespace") == namespace:
                yield each


def reading(
    named: Sequence[str],
    kubeconfig: Kubeconfig,
    work: Callable[[Reader], Coroutine[Any, Any, T]],
    *,
    recursive: bool = False,
) -> T:
    """Run ``work`` on the objects of the files that ``named`` means, or of the cluster where it names none; return what it returns.

    Raises:
        InjectorError: what ``work`` raises, or the files or the cluster cannot be read.
    """
    if named:
        return asyncio.run(work(read_objects(named, recursive=recursive)))

    async def on_cluster(client: KubeClient) -> T:
        return await work(ClusterReader(client))

    return in_cluster(kubeconfig, on_cluster)


def read_objects(names: Sequence[str], *, recursive: bool) -> FileReader:
    """Read the objects of the files that ``names`` mean, those in Lists too.

    Raises:
        UsageError: no file was named.
        DataError: a file cannot be read.
    """
    manifests = read_manifests(names, recursive=recursive)
    found = [each for manifest in manifests for document in _documents(manifest) for each in _objects(document)]
    if not found:
        hint = "write them with `kubectl get pods,ns,mutatingwebhookconfigurations -A -o yaml`"
        raise ManifestError("there is no object in the files", where=", ".join(names), hint=hint)
    return FileReader(found, where=", ".join(manifest.name for manifest in manifests))


def _documents(manifest: Manifest) -> Iterator[Any]:
    if manifest.text.lstrip().startswith("{"):  # much faster than as YAML, which it is too
        yield load_json(manifest.text, where=manifest.name)
        return
    for document in split_documents(manifest.text, where=manifest.name):
        # Blank lines in front make the lines that the YAML reader counts those of the file.
        yield load_yaml("\n" * (document.line - 1) + document.text, where=manifest.name)


def _objects(content: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(content, dict):
        return
    kind, items = str(content.get("kind")), content.get("items")
    if kind.endswith("List") and isinstance(items, list):
        for item in items:
            # In a PodList, which is what the API server answers, no item says that it is a Pod.
            yield from _objects({"kind": kind.removesuffix("List"), **item} if isinstance(item, dict) else item)
    elif isinstance(content.get("metadata"), dict):
        yield content


def _selected(obj: dict[str, Any], labels: str) -> bool:
    """Return whether an object has the label of a selector, ``key`` or ``key=value``; every object has none."""
    key, separator, value = labels.partition("=")
    given = obj["metadata"].get("labels") or {}
    return not key or (key in given and (not separator or given[key] == value))


NAME_LABEL: Final = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a command looks for revisions: a folder, or else Istio's namespace in the cluster.

    ``overrides`` is what flags change of them, and ``guard`` one of ``result.GUARDS``.
    """

    revisions_dir: Path | None
    istio_namespace: str
    overrides: Overrides = field(default_factory=Overrides)
    guard: str = ENFORCE


@dataclass(frozen=True, slots=True)
class Revisions:
    """The revisions and tags of a source, and how messages call the source and its tags."""

    state: SourceState
    where: str
    tags_where: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What decides which revision a pod of the cluster gets.

    ``namespaces`` has the labels of each; ``webhooks`` are those that call an injector, in the order they are called in.
    """

    revisions: Revisions
    built: Built
    webhooks: tuple[LiveWebhook, ...]
    namespaces: Mapping[str, Mapping[str, str]]


async def read_revisions(reader: Reader, sources: Sources) -> Revisions:
    """Return the revisions that a command works with.

    Raises:
        UsageError: there is none.
        DataError: the tags cannot be read.
        ClusterError: the API server cannot be reached, or refuses.
    """
    if sources.revisions_dir is None:
        state = await listed_state(reader, sources.istio_namespace)
        where = f"the {CONFIG_MAPS.plural} of namespace {sources.istio_namespace}"
        found = Revisions(state, where, f"the label {TAG_LABEL} of the {WEBHOOKS.plural}")
    else:
        source = offline_source(sources.revisions_dir)
        found = Revisions(source.read(), str(source.path), f"{source.path}/{TAGS_FILE}")
    if found.state.tags_error is not None:
        raise found.state.tags_error
    if not found.state.revisions and not found.state.failures:
        raise UsageError(
            "there is no revision of Istio's", where=found.where, hint="give --revisions-dir or --istio-namespace"
        )
    return found


async def read_surroundings(reader: Reader, sources: Sources, namespace: str | None) -> Surroundings:
    """Read what decides about pods: of one namespace, or of all.

    Raises:
        InjectorError: as ``read_revisions``; or a webhook or the namespace cannot be read.
    """
    revisions = await read_revisions(reader, sources)
    webhooks = live_webhooks(await reader.all(Scope(WEBHOOKS), lambda item: item))
    if namespace is None:
        namespaces = dict(await reader.all(Scope(NAMESPACES), _namespace))
    else:
        namespaces = dict([_namespace(await reader.one(NAMESPACES, namespace))])
    annotated = {name: kept for name, (_, kept) in namespaces.items() if kept is not None}
    built = await build_all(reader, revisions.state, annotated, sources.overrides)
    return Surroundings(revisions, built, webhooks, {name: labels for name, (labels, _) in namespaces.items()})


def _namespace(item: Mapping[str, Any]) -> tuple[str, tuple[dict[str, str], Mapping[str, Any] | None]]:
    """Return the name of a namespace with its labels, and with what OpenShift says of it."""
    name = str(item["metadata"].get("name", ""))
    # The API server gives every namespace the label of its name.
    labels = {**(item["metadata"].get("labels") or {}), NAME_LABEL: name}
    return name, (labels, openshift_annotations(item))


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

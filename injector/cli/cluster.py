"""A cluster as commands see it, from the API server or from files: revisions, tags, webhooks, namespaces and workloads."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from injector.cli.manifests import read_manifests
from injector.cli.options import (
    ISTIO_NAMESPACE_OPTION,
    NODE_VERSION,
    kubeconfig_options,
    offline_source,
    option_group,
    revisions_dir,
)
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
from injector.errors import ClusterError, ManifestError, UsageError
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

    from injector.cli.manifests import Manifest
    from injector.cluster.client import KubeClient
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.cluster.reader import Reader, Resource
    from injector.istio.webhooks import LiveWebhook
    from injector.revisions.clustersource import Built
    from injector.revisions.source import SourceState

T = TypeVar("T")


_HINTS: Final = {
    "forbidden": "get this permission, or give another --context or --kubeconfig",
    "unauthorized": "log in again, or give another --context or --kubeconfig",
    "unreachable": "check the network, or give another --context or --kubeconfig",
    "idle": "try again later, or give another --context or --kubeconfig",
    "cut": "try again",
    "conflict": "try again",
    "throttled": "try again later",
}
"""What the user can do about an error of the API server, by its reason. The hints of the client are for a server."""


@dataclass(frozen=True, slots=True)
class ClusterSession:
    """A client of the API server, and the event loop that it belongs to."""

    runner: asyncio.Runner
    client: KubeClient

    def run(self, work: Callable[[KubeClient], Coroutine[Any, Any, T]]) -> T:
        """Run ``work`` with the client and return its result.

        Raises:
            ClusterError: the API server cannot be reached or refuses. The hint is for the user of a command.
        """
        try:
            return self.runner.run(work(self.client))
        except ClusterError as error:
            hint = _HINTS.get(error.reason, error.hint)
            raise ClusterError(
                error.what, where=error.where, hint=hint, reason=error.reason, status=error.status
            ) from error


@contextmanager
def open_cluster(kubeconfig: Kubeconfig) -> Iterator[ClusterSession]:
    """Connect to the API server. A command can do other things between requests.

    Raises:
        ConfigError: the credentials are missing or not valid.
    """
    # Imported here, because it takes half a second, and --help and commands without a cluster do not need it.
    from injector.cluster.client import KubeClient  # noqa: PLC0415

    client = KubeClient(kubeconfig)
    with asyncio.Runner() as runner:
        try:
            runner.run(client.open())
            yield ClusterSession(runner, client)
        finally:
            runner.run(client.close())


def run_in_cluster(kubeconfig: Kubeconfig, work: Callable[[KubeClient], Coroutine[Any, Any, T]]) -> T:
    """Connect to the API server, run ``work`` with a client and return its result.

    Raises:
        ConfigError: the credentials are missing or not valid.
        ClusterError: the API server cannot be reached or refuses.
    """
    with open_cluster(kubeconfig) as connection:
        return connection.run(work)


class FileReader:
    """Reads objects from memory with the methods of ``cluster.reader``. It ignores field selectors."""

    def __init__(self, objects: Iterable[dict[str, Any]], *, where: str) -> None:
        self._objects: dict[str, list[dict[str, Any]]] = {}
        self._where = where
        for each in objects:
            self._objects.setdefault(str(each.get("kind")), []).append(each)

    async def all(self, scope: Scope, keep: Callable[[dict[str, Any]], T | None]) -> list[T]:
        """Call ``keep`` on each object of a scope, and return the results that are not None."""
        results = (keep(each) for each in self._of(scope.resource, scope.namespace) if _has_label(each, scope.labels))
        return [each for each in results if each is not None]

    async def one(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        """Return one object.

        Raises:
            ManifestError: the files do not have it.
        """
        for each in self._of(resource, namespace):
            if each["metadata"].get("name") == name:
                return each
        shown = f"{namespace}/{name}" if namespace else name
        raise ManifestError(
            f"{resource.kind} {shown} not found", where=self._where, hint="add it to the files, or name another"
        )

    def _of(self, resource: Resource, namespace: str) -> Iterator[dict[str, Any]]:
        for each in self._objects.get(resource.kind, ()):
            if not namespace or each["metadata"].get("namespace") == namespace:
                yield each


def _has_label(obj: dict[str, Any], selector: str) -> bool:
    """Return whether an object has the label of a selector, which is empty, ``key`` or ``key=value``."""
    key, separator, value = selector.partition("=")
    labels = obj["metadata"].get("labels") or {}
    return not key or (key in labels and (not separator or labels[key] == value))


def read_from(
    filenames: Sequence[str],
    kubeconfig: Kubeconfig,
    work: Callable[[Reader], Coroutine[Any, Any, T]],
    *,
    recursive: bool = False,
) -> T:
    """Run ``work`` on the objects of the files, or without files on those of the cluster, and return its result.

    Raises:
        InjectorError: ``work`` raises it, or the files or the cluster cannot be read.
    """
    if filenames:
        return asyncio.run(work(read_objects(filenames, recursive=recursive)))

    async def on_cluster(client: KubeClient) -> T:
        return await work(ClusterReader(client))

    return run_in_cluster(kubeconfig, on_cluster)


def read_objects(names: Sequence[str], *, recursive: bool) -> FileReader:
    """Read all objects of the files, also those in Lists.

    Raises:
        UsageError: no file is given.
        DataError: a file cannot be read.
    """
    manifests = read_manifests(names, recursive=recursive)
    objects = [each for manifest in manifests for content in _contents(manifest) for each in _objects(content)]
    if not objects:
        hint = "write them with `kubectl get pods,ns,mutatingwebhookconfigurations -A -o yaml`"
        raise ManifestError("the files have no object", where=", ".join(names), hint=hint)
    return FileReader(objects, where=", ".join(manifest.name for manifest in manifests))


def _contents(manifest: Manifest) -> Iterator[Any]:
    if manifest.text.lstrip().startswith("{"):  # JSON is also YAML, but is read much faster as JSON
        yield load_json(manifest.text, where=manifest.name)
        return
    for document in split_documents(manifest.text, where=manifest.name):
        # The blank lines make the YAML reader count the lines of the file.
        yield load_yaml("\n" * (document.line - 1) + document.text, where=manifest.name)


def _objects(content: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(content, dict):
        return
    kind, items = str(content.get("kind")), content.get("items")
    if kind.endswith("List") and isinstance(items, list):
        for item in items:
            # The items of a PodList, as the API server returns it, have no kind.
            yield from _objects({"kind": kind.removesuffix("List"), **item} if isinstance(item, dict) else item)
    elif isinstance(content.get("metadata"), dict):
        yield content


NAME_LABEL: Final = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a command finds revisions: in a directory, or else in Istio's namespace of the cluster.

    ``overrides`` are the settings of revisions that flags replace.
    """

    revisions_dir: Path | None
    istio_namespace: str
    overrides: Overrides = field(default_factory=Overrides)


def _sources(revisions_dir: Path | None, istio_namespace: str, node_version: tuple[str, ...]) -> Sources:
    return Sources(revisions_dir, istio_namespace, Overrides(node_versions=node_version))


cluster_options: Final = option_group(
    "sources",
    _sources,
    revisions_dir("the revisions in the cluster; with FILES the embedded ones"),
    ISTIO_NAMESPACE_OPTION,
    kubeconfig_options,
    NODE_VERSION,
)
"""The options to reach a cluster, and to find revisions, as the parameters ``sources`` and ``kubeconfig``."""


@dataclass(frozen=True, slots=True)
class RevisionList:
    """The revisions and tags of a source, and what messages call the source and its tags."""

    state: SourceState
    where: str
    tags_where: str


def directory_revisions(revisions_dir: Path | None) -> RevisionList:
    """Return the revisions of a directory, or without one the embedded revisions.

    Raises:
        ConfigError: the directory cannot be read.
    """
    source = offline_source(revisions_dir)
    return RevisionList(source.read(), str(source.path), f"{source.path}/{TAGS_FILE}")


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Everything that decides which revision a pod of the cluster gets.

    ``namespaces`` has the labels of each namespace. ``webhooks`` are those that call an injector, in the order of the calls.
    """

    revisions: RevisionList
    built: Built
    webhooks: tuple[LiveWebhook, ...]
    namespaces: Mapping[str, Mapping[str, str]]


async def read_revisions(reader: Reader, sources: Sources) -> RevisionList:
    """Return the revisions of a directory or of the cluster.

    Raises:
        UsageError: there is none.
        DataError: the tags cannot be read.
        ClusterError: the API server cannot be reached or refuses.
    """
    if sources.revisions_dir is None:
        state = await listed_state(reader, sources.istio_namespace)
        where = f"the {CONFIG_MAPS.plural} of namespace {sources.istio_namespace}"
        revisions = RevisionList(state, where, f"the label {TAG_LABEL} of the {WEBHOOKS.plural}")
    else:
        revisions = directory_revisions(sources.revisions_dir)
    if revisions.state.tags_error is not None:
        raise revisions.state.tags_error
    if not revisions.state.revisions and not revisions.state.failures:
        hint = "give --revisions-dir or --istio-namespace"
        raise UsageError("no Istio revision found", where=revisions.where, hint=hint)
    return revisions


async def read_view(reader: Reader, sources: Sources, namespace: str | None) -> ClusterView:
    """Read everything that decides about the pods of one namespace, or of all.

    Raises:
        InjectorError: as in ``read_revisions``, or a webhook or the namespace cannot be read.
    """
    revisions = await read_revisions(reader, sources)
    webhooks = live_webhooks(await reader.all(Scope(WEBHOOKS), lambda item: item))
    if namespace is None:
        namespaces = dict(await reader.all(Scope(NAMESPACES), _namespace))
    else:
        namespaces = dict([_namespace(await reader.one(NAMESPACES, namespace))])
    annotated = {name: facts for name, (_, facts) in namespaces.items() if facts is not None}
    built = await build_all(reader, revisions.state, annotated, sources.overrides)
    return ClusterView(revisions, built, webhooks, {name: labels for name, (labels, _) in namespaces.items()})


def _namespace(item: Mapping[str, Any]) -> tuple[str, tuple[dict[str, str], Mapping[str, Any] | None]]:
    """Return the name of a namespace with its labels and its OpenShift annotations."""
    name = str(item["metadata"].get("name", ""))
    # The API server gives every namespace the label with its name.
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
"""The types of workloads, with kubectl's short names."""

LISTED: Final = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, CRON_JOBS, JOBS)
"""The kinds that are listed themselves. Workloads of other kinds are found by their pods."""

RUNNING: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""The field selector of pods that have not ended: an ended pod is not created again."""
_ENDED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Target:
    """One workload of the cluster, as the command line names it."""

    resource: Resource
    name: str
    namespace: str


def parse_target(text: str, *, namespace: str | None, default: str) -> Target:
    """Read ``[TYPE/]NAME[.NAMESPACE]``. If ``namespace`` is given, the name may have dots of its own.

    Raises:
        UsageError: the type is unknown, or there is no name.
    """
    kind, separator, name = text.rpartition("/")
    resource = TYPES.get(kind.lower() if separator else "pod")
    if resource is None:
        known = ", ".join(dict.fromkeys(each.kind.lower() for each in TYPES.values()))
        raise UsageError(f"{kind[:80]!r} is not a type of workload", where=text[:80], hint=f"known types are {known}")
    if namespace is None and "." in name:
        name, _, namespace = name.rpartition(".")
    if not name:
        raise UsageError("no workload name", where=text[:80], hint="write [TYPE/]NAME[.NAMESPACE]")
    return Target(resource, name, namespace or default)


async def read_target(reader: Reader, target: Target) -> Created:
    """Return a workload of the cluster with the pod that it would create now.

    Raises:
        DataError: the workload cannot be read.
        ClusterError: the workload does not exist, or the API server cannot be reached or refuses.
    """
    item = await reader.one(target.resource, target.name, namespace=target.namespace)
    obj = {"apiVersion": target.resource.api_version, "kind": target.resource.kind, **item}
    if target.resource is PODS:
        return replace(_of_pod(obj), kind=PODS.kind, name=target.name)
    return next(created_pods(obj, target.namespace))


async def read_targets(reader: Reader, namespace: str | None) -> list[Created]:
    """Return every workload of a namespace, or of all, once: Deployments and the like, and one pod of every other workload.

    Raises:
        DataError: a workload cannot be read.
        ClusterError: the API server cannot be reached or refuses.
    """
    place = namespace or ""
    workloads: dict[tuple[str, ...], Created] = {}
    for resource in LISTED:
        for each in await reader.all(Scope(resource, place), _workload):
            workloads[each.namespace, each.kind, each.name] = each
    listed = frozenset(workloads)
    for each in await reader.all(Scope(PODS, place, fields=RUNNING), lambda pod: _unlisted(pod, listed)):
        workloads.setdefault(workload_key(each.pod, each.namespace), each)
    return [workloads[key] for key in sorted(workloads)]


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod has ended or is being deleted."""
    return bool(pod["metadata"].get("deletionTimestamp")) or (pod.get("status") or {}).get("phase") in _ENDED


def _workload(item: dict[str, Any]) -> Created | None:
    """Return a workload, or None if it has ended or has a controller, as the Jobs of a CronJob have."""
    if controller_of(item["metadata"]) is not None or (item.get("status") or {}).get("completionTime"):
        return None
    return next(created_pods(item, str(item["metadata"].get("namespace", ""))), None)


def _unlisted(pod: dict[str, Any], listed: frozenset[tuple[str, ...]]) -> Created | None:
    """Return the pod as it would be created again, or None if it has ended or belongs to a listed workload."""
    if has_ended(pod):
        return None
    meta = pod["metadata"]
    namespace = str(meta.get("namespace", ""))
    owner = controller_of(meta) or {}
    if workload_key(pod, namespace) in listed or (namespace, owner.get("kind"), owner.get("name")) in listed:
        return None
    return _of_pod(pod)


def _of_pod(pod: dict[str, Any]) -> Created:
    created = as_created(normalise({"metadata": pod["metadata"], "spec": pod.get("spec") or {}}, "v1.Pod"))
    namespace = str(pod["metadata"].get("namespace", ""))
    _, kind, name = workload_key(created, namespace)
    return Created(kind, namespace, name, created)

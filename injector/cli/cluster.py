"""A cluster as commands see it, from the API server or from files: revisions, tags, webhooks, namespaces and workloads."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

import click

from injector.cli.manifests import is_selected, read_manifests
from injector.cli.options import NODE_VERSION
from injector.cli.output import echo, with_progress
from injector.cli.sources import (
    IN_DIRECTORY,
    ReadRevisions,
    RevisionList,
    Sources,
    directory_revisions,
    kubeconfig_options,
    kubeconfigs_options,
    source_options,
)
from injector.cluster import resources as r
from injector.cluster.resources import LIST_ATTEMPTS, ObjectReader, Resource, Scope, TextReader
from injector.cluster.session import open_session, run_for_result
from injector.errors import ClusterError, DataError, ManifestError, UsageError, no_source
from injector.golang.json import dump_json, load_json
from injector.injection.tools.drift import as_created
from injector.istio.webhooks import INJECT_LABEL, NAME_LABEL, TAG_LABEL, LiveWebhooks, live_webhooks, read_configuration
from injector.kube.pods import (
    KNATIVE,
    OTHER_KINDS,
    Created,
    OtherKinds,
    add_place,
    controller_of,
    created_pods,
    has_ended,
    trial_pod,
)
from injector.kube.selectors import EVERYTHING, Selector
from injector.kube.typed import normalise
from injector.kube.yaml import objects_in
from injector.revisions.clustersource import BuiltRevisions, build_all, listed_state, openshift_annotations
from injector.revisions.tags import key_of_normal_pod

if TYPE_CHECKING:
    from concurrent.futures import Future

    from injector.cluster.client import KubeClient
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.istio.revision import Revision
    from injector.revisions.source import RawRevision

T = TypeVar("T")
F = TypeVar("F", bound="Callable[..., Any]")
R = TypeVar("R")
_Key: TypeAlias = "tuple[str, ...]"
"""The namespace, kind and name of a workload."""


class FileReader:
    """An ``ObjectReader`` of objects in memory, each with the place of its document. It ignores field selectors."""

    def __init__(self, objects: Iterable[tuple[str, dict[str, Any]]], *, where: str) -> None:
        self._objects: dict[str, list[dict[str, Any]]] = {}
        self._places: dict[int, str] = {}
        self._where = where
        for place, each in objects:
            self._objects.setdefault(str(each.get("kind")), []).append(each)
            self._places[id(each)] = place

    def place_of(self, obj: Mapping[str, Any]) -> str:
        """Return the file and the line of an object that was read."""
        return self._places[id(obj)]

    async def all(self, scope: Scope, keep: Callable[[dict[str, Any]], T | None]) -> list[T]:
        """Return the results of ``keep`` for all objects of a scope, without None."""
        selector = Selector.parse(scope.labels) if scope.labels else EVERYTHING
        objects = self._of(scope.resource, scope.namespace)
        results = (keep(each) for each in objects if selector.matches(each["metadata"].get("labels") or {}))
        return [each for each in results if each is not None]

    async def texts(self, scope: Scope, token: str = "") -> tuple[list[bytes], str]:
        """Return all objects of a scope as JSON; see ``TextReader``."""
        del token
        return await self.all(scope, dump_json), ""

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        """Return one object. Raises ManifestError if the files do not have it."""
        for each in self._of(resource, namespace):
            if each["metadata"].get("name") == name:
                return each
        shown = f"{namespace}/{name}" if namespace else name
        raise ManifestError(
            f"{resource.kind} {shown} not found", where=self._where, hint="add it to the files, or name another"
        )

    async def find_resource(self, kind: str, group: str) -> Resource | None:
        """Return the resource of a kind, if the files have such objects."""
        if all(str(each.get("apiVersion")).rpartition("/")[0] != group for each in self._objects.get(kind, ())):
            return None
        return Resource(f"{group}/v1", f"{kind.lower()}s", kind, namespaced=True)

    def run(self, work: Callable[[TextReader], Coroutine[Any, Any, T]]) -> T:
        """Run ``work`` with the objects and return its result; see ``ReaderSession``."""
        with asyncio.Runner() as runner:
            return run_for_result(runner, work(self))

    def _of(self, resource: Resource, namespace: str) -> Iterator[dict[str, Any]]:
        for each in self._objects.get(resource.kind, ()):
            if not namespace or each["metadata"].get("namespace") == namespace:
                yield each


class ReaderSession(Protocol):
    """Runs coroutines that read objects, one after another."""

    def run(self, work: Callable[[TextReader], Coroutine[Any, Any, T]]) -> T:
        """Run ``work`` and return its result."""


@contextmanager
def open_reader(
    filenames: Sequence[str], kubeconfig: Kubeconfig, *, recursive: bool = False
) -> Iterator[ReaderSession]:
    """Open the files, or without files the cluster. Raises InjectorError if the files cannot be read, or the credentials cannot be used."""
    if filenames:
        yield read_objects(filenames, recursive=recursive)
        return
    with open_session(kubeconfig) as session:
        yield session


def read_objects(names: Sequence[str], *, recursive: bool) -> FileReader:
    """Read all objects of the files, also those in Lists. Raises UsageError without a file, and DataError if one cannot be read."""
    manifests = read_manifests(names, recursive=recursive)
    objects = [
        (place, _as_listed(each, place))
        for manifest in manifests
        for place, each in objects_in(manifest.text, where=manifest.name)
        if isinstance(each.get("metadata"), dict)
    ]
    if not objects:
        hint = "write them with `kubectl get pods,ns,mutatingwebhookconfigurations -A -o yaml`"
        raise ManifestError("the files have no object", where=", ".join(names), hint=hint)
    return FileReader(objects, where=", ".join(manifest.name for manifest in manifests))


def _as_listed(obj: dict[str, Any], place: str) -> dict[str, Any]:
    """Return an object of a file in the form that an API server would list. Raises ManifestError if it would refuse the object.

    A ConfigMap stays as it is, because one that cannot be read is only a revision less.
    """
    if obj.get("kind") == r.CONFIG_MAPS.kind:
        return obj
    try:
        for key in ("spec", "status"):
            if not isinstance(obj.get(key) or {}, dict):
                raise ManifestError("not an object", where=key, hint="read it with `kubectl get -o yaml`")
        if obj.get("kind") == r.WEBHOOKS.kind:
            return {**obj, **read_configuration(obj)}
        return {**obj, **normalise({"metadata": obj["metadata"]}, "v1.Namespace", coerce=True)}
    except DataError as error:
        add_place(error, obj, place)
        raise


cluster_options, clusters_options = (
    source_options("the revisions in the cluster", each, NODE_VERSION)
    for each in (kubeconfig_options, kubeconfigs_options)
)
"""The options to find revisions, as ``sources``, and to reach a cluster, as ``kubeconfig``, or several, as ``kubeconfigs``."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Everything that decides which revision a pod of the cluster gets.

    ``namespaces`` has the labels of each namespace. ``webhooks`` are those of the ``configurations`` that call an injector, in the order
    of the calls.
    """

    revisions: RevisionList
    built: BuiltRevisions
    webhooks: LiveWebhooks
    namespaces: Mapping[str, Mapping[str, str]]
    configurations: Sequence[dict[str, Any]]


_PER_PROCESS: Final = 100
"""The least number of items for each of two processes: a process takes about as long to start as ten pods to inject."""
_MOST_PROCESSES: Final = 8
"""The largest number of processes. Each needs memory of its own, and the process that reads the results cannot serve many more."""
_AT_ONCE: Final = 50
"""The number of items that a process takes at once. Neighbours are in one namespace and have one revision, which take time once."""
_AHEAD: Final = 20
"""The largest number of such groups without a result. A page of pods has ten: one is worked on while the next is read."""


def in_processes(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield the result of ``function`` for each item, in order. Many items are divided among forked processes, one for each CPU.

    A process inherits the function, and receives the items and sends the results as pickles. Items are taken as they are needed, so that
    reading them and working on them happen at the same time. On systems other than Linux there is only this process.
    """
    cpus = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
    left = iter(items)
    first = list(islice(left, 2 * _PER_PROCESS)) if cpus > 1 else []
    left = chain(first, left)
    if len(first) < 2 * _PER_PROCESS:
        yield from map(function, left)
        return
    import multiprocessing  # noqa: PLC0415 -- few commands need it
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415

    context = multiprocessing.get_context("fork")
    executor = ProcessPoolExecutor(min(cpus, _MOST_PROCESSES), context, _start, (function,))
    pending: deque[Future[list[R]]] = deque()
    try:
        while group := list(islice(left, _AT_ONCE)):
            pending.append(executor.submit(_apply, group))
            if len(pending) > _AHEAD:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()
    finally:
        executor.shutdown(cancel_futures=True)


_work: Callable[[Any], Any]
"""The function of a forked process."""


def _start(function: Callable[[Any], Any]) -> None:
    global _work  # noqa: PLW0603 -- a process has one
    _work = function
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the first process reports the interrupt
    gc.freeze()  # a collection would copy the pages of all inherited objects
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the first one is killed. Otherwise it would wait for items forever."""
    from multiprocessing import parent_process  # noqa: PLC0415 -- as above

    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def _apply(items: list[Any]) -> list[Any]:
    return [_work(item) for item in items]


def results_of_texts(
    session: ReaderSession,
    scope: Scope,
    start: Callable[[], Callable[[bytes], R | None]],
    *,
    alone: bool = False,
) -> list[R]:
    """Return the results of a function for the JSON of all objects of a scope, in order and without None.

    ``start`` returns the function. If the list has to be read again, it is called again, so the function may remember what it has seen.
    Many objects are divided among processes, and a terminal shows the progress, unless this process is to work ``alone``.
    """
    for attempts_left in reversed(range(LIST_ATTEMPTS)):
        function, texts = start(), _texts(session, scope)
        results = map(function, texts) if alone else with_progress(in_processes(function, texts), str(scope))
        try:
            return [each for each in results if each is not None]
        except ClusterError as error:
            if error.reason != "gone" or not attempts_left:
                raise
    raise AssertionError


def _texts(session: ReaderSession, scope: Scope) -> Iterator[bytes]:
    token = ""
    while True:
        texts, token = session.run(partial(_texts_of, scope, token))
        yield from texts
        if not token:
            return


async def _texts_of(scope: Scope, token: str, reader: TextReader) -> tuple[list[bytes], str]:
    return await reader.texts(scope, token)


async def read_revisions(reader: ObjectReader, sources: Sources) -> RevisionList:
    """Return the revisions of a directory, or else of the reader: the cluster, or files that stand for it.

    Raises:
        NotConfiguredError: the files have no revision.
        UsageError: the directory or the cluster has none.
        DataError: the tags cannot be read.
    """
    if sources.revisions_dir is None:
        state = await listed_state(reader, sources.istio_namespace)
        where = f"the {r.CONFIG_MAPS.plural} of namespace {sources.istio_namespace}"
        revisions = RevisionList(state, where, f"the label {TAG_LABEL} of the {r.WEBHOOKS.plural}")
    else:
        revisions = directory_revisions(sources.revisions_dir)
    if revisions.state.tags_error is not None:
        raise revisions.state.tags_error
    if not revisions.state.revisions and not revisions.state.failures:
        if sources.revisions_dir is None and isinstance(reader, FileReader):
            raise no_source("Istio's ConfigMaps in FILES", IN_DIRECTORY)
        hint = "give --revisions-dir or --istio-namespace"
        raise UsageError("no Istio revision found", where=revisions.where, hint=hint)
    return revisions


@contextmanager
def cluster_revisions(sources: Sources, kubeconfig: Kubeconfig, read: ReadRevisions | None) -> Iterator[RevisionList]:
    """Choose the revisions that ``read``, or else ``read_revisions``, finds in the cluster.

    They are built with the cluster's facts about nodes and namespaces.

    Raises:
        InjectorError: reading them raises it, or the credentials cannot be used.
    """
    with open_session(kubeconfig) as session:
        listed = session.run(lambda reader: (read or read_revisions)(reader, sources))

        def build_listed(raw: RawRevision) -> Revision:
            alone = replace(listed.state, revisions=(raw,), failures={})
            built = session.run(lambda reader: build_all(reader, alone, None, sources.overrides))
            for note in built.notes:
                echo(f"note: {note}", err=True)
            return built.revision(raw)

        yield replace(listed, build=build_listed)


async def read_view(
    reader: ObjectReader, sources: Sources, namespace: str | None, names: Sequence[str] = ()
) -> ClusterView:
    """Read everything that decides about the pods of one namespace, or of all.

    If ``names`` of revisions or tags are given, only these are built: hundreds of others would take seconds and 100 MB.

    Raises:
        InjectorError: as in ``read_revisions``, a name is unknown, or a webhook or the namespace cannot be read.
    """
    revisions = await read_revisions(reader, sources)
    state = revisions.state
    if names:
        wanted = {raw.name: raw for raw in map(revisions.find, names)}
        state = replace(state, revisions=tuple(wanted.values()), failures={})
    configurations = await reader.all(Scope(r.WEBHOOKS), lambda item: item)
    webhooks = live_webhooks(configurations)
    if namespace is None:
        namespaces = dict(await reader.all(Scope(r.NAMESPACES), _namespace))
    else:
        namespaces = dict([_namespace(await reader.get(r.NAMESPACES, namespace))])
    annotated = {name: facts for name, (_, facts) in namespaces.items() if facts is not None}
    built = await build_all(reader, state, annotated, sources.overrides)
    labels = {name: labels for name, (labels, _) in namespaces.items()}
    return ClusterView(revisions, built, webhooks, labels, configurations)


def skipped_namespaces(names: Iterable[str]) -> list[str]:
    """Return a note for each namespace whose labels are not known. The name is empty for objects of a file without one."""
    return [
        f"skipped namespace {name}: its labels are not known" if name else "skipped objects without a namespace"
        for name in sorted(names)
    ]


def _namespace(item: Mapping[str, Any]) -> tuple[str, tuple[dict[str, str], Mapping[str, Any] | None]]:
    """Return the name of a namespace with its labels and its OpenShift annotations."""
    name = str(item["metadata"].get("name", ""))
    labels = {**(item["metadata"].get("labels") or {}), NAME_LABEL: name}
    return name, (labels, openshift_annotations(item))


TYPES: Final[Mapping[str, Resource | tuple[str, str]]] = {
    **dict.fromkeys(("pod", "pods", "po"), r.PODS),
    **dict.fromkeys(("deployment", "deployments", "deploy"), r.DEPLOYMENTS),
    **dict.fromkeys(("statefulset", "statefulsets", "sts"), r.STATEFUL_SETS),
    **dict.fromkeys(("daemonset", "daemonsets", "ds"), r.DAEMON_SETS),
    **dict.fromkeys(("replicaset", "replicasets", "rs"), r.REPLICA_SETS),
    **dict.fromkeys(("job", "jobs"), r.JOBS),
    **dict.fromkeys(("cronjob", "cronjobs", "cj"), r.CRON_JOBS),
    **dict.fromkeys(("rollout", "rollouts", "ro"), ("Rollout", "argoproj.io")),
    **dict.fromkeys(("ksvc", "kservice"), ("Service", KNATIVE)),
    **dict.fromkeys(("cloneset", "clonesets", "clone"), ("CloneSet", "apps.kruise.io")),
}
"""The types of workloads, with kubectl's short names. A kind that Istio does not know is a key of ``OTHER_KINDS``."""

LISTED: Final = (r.DEPLOYMENTS, r.STATEFUL_SETS, r.DAEMON_SETS, r.CRON_JOBS, r.JOBS)
"""The kinds that are listed themselves. Workloads of other kinds are found by their pods."""

_MANAGER: Final = "injector-diff"


@dataclass(frozen=True, slots=True)
class WorkloadName:
    """One workload of the cluster, as the command line names it."""

    resource: Resource | tuple[str, str]
    name: str
    namespace: str


def parse_target(text: str, *, namespace: str | None, default: str, others: OtherKinds = OTHER_KINDS) -> WorkloadName:
    """Read ``[TYPE/]NAME[.NAMESPACE]``. With ``namespace``, NAME may have dots. Raises UsageError for an unknown type or a missing name."""
    kind, separator, name = text.rpartition("/")
    types = {**TYPES, **{each[0].lower(): each for each in others if each not in OTHER_KINDS}}
    resource = types.get(kind.lower() if separator else "pod")
    if resource is None:
        first_names = {each: name for name, each in reversed(types.items())}
        known = ", ".join(reversed(first_names.values()))
        raise UsageError(f"{kind[:80]!r} is not a type of workload", where=text[:80], hint=f"known types are {known}")
    if namespace is None and "." in name:
        name, _, namespace = name.rpartition(".")
    if not name:
        raise UsageError("no workload name", where=text[:80], hint="write [TYPE/]NAME[.NAMESPACE]")
    return WorkloadName(resource, name, namespace or default)


async def read_target(reader: ObjectReader, target: WorkloadName, others: OtherKinds = OTHER_KINDS) -> Created:
    """Return a workload of the cluster with the pod that it would create now. Raises DataError if it cannot be read."""
    resource = target.resource
    if not isinstance(resource, Resource):
        kind, group = resource
        found = await reader.find_resource(kind, group)
        if found is None:
            hint = "check the name and the group of the kind"
            raise ClusterError(f"the API server has no kind {kind} of {group}", hint=hint, reason="missing")
        resource = found
    item = await reader.get(resource, target.name, namespace=target.namespace)
    obj = {"apiVersion": resource.api_version, "kind": resource.kind, **item}
    if resource is r.PODS:
        pod = as_created(read_running(obj))
        return Created(r.PODS.kind, str(obj["metadata"].get("namespace", "")), target.name, pod)
    created = next(created_pods(obj, target.namespace, others), None)
    if created is None:
        hint = "explain the Deployment of its workloadRef"
        raise ManifestError(f"{resource.kind} {target.name} has no pod template", hint=hint)
    return created


def read_targets(
    session: ReaderSession,
    namespace: str | None,
    others: OtherKinds,
    function: Callable[[Created], R],
    note: Callable[[dict[str, Any]], None] | None = None,
    selector: Selector = EVERYTHING,
) -> list[R]:
    """Return the result of ``function`` for every workload of a namespace, or of all: Deployments and the like, and the pod of every other.

    The ``selector`` is that of their pods.

    A Knative Service counts as a workload by its pods, because Knative adds a container to its pod template. Of several pods of one
    workload the first one counts. Many workloads are divided among processes, each of which reads its part and calls ``function``.

    ``note`` is called with every object that is read: first the workloads, then all pods. If a list has to be read again, it is called
    again. It can remember what it is called with, so all work is then done in this process.

    Raises:
        DataError: a workload cannot be read.
    """

    def read_scope(scope: Scope, read: Callable[[dict[str, Any]], Created | None]) -> list[tuple[_Key, R]]:
        def start() -> Callable[[bytes], tuple[_Key, R] | None]:
            seen: set[_Key] = set()

            def result(text: bytes) -> tuple[_Key, R] | None:
                item = {"apiVersion": scope.resource.api_version, "kind": scope.resource.kind, **load_json(text)}
                try:
                    found = read(item)
                    if note is not None:
                        note(item)
                except DataError as error:
                    meta = item["metadata"]
                    name = f"{item['kind']} {meta.get('namespace', '')}/{meta.get('name', '')}"
                    error.where = f"{name}: {error.where}".removesuffix(": ")
                    raise
                if found is None or not is_selected(selector, found):
                    return None
                key = found.namespace, found.kind, found.name
                if key in seen:
                    return None
                seen.add(key)
                return key, function(found)

            return result

        return results_of_texts(session, scope, start, alone=note is not None)

    workloads: dict[_Key, R] = {}
    for resource in session.run(lambda reader: _listed_resources(reader, others)):
        workloads |= read_scope(Scope(resource, namespace or ""), lambda item: _workload(item, others))
    listed = frozenset(workloads)
    for key, each in read_scope(Scope(r.PODS, namespace or "", fields=r.RUNNING), lambda pod: _unlisted(pod, listed)):
        workloads.setdefault(key, each)
    return [workloads[key] for key in sorted(workloads)]


async def _listed_resources(reader: ObjectReader, others: OtherKinds) -> tuple[Resource, ...]:
    found = [await reader.find_resource(*each) for each in others if each[1] != KNATIVE]
    return *LISTED, *filter(None, found)


_NOT_PERMITTED: Final = 'cannot create resource "pods"'


async def refusal(client: KubeClient, pod: Mapping[str, Any], namespace: str) -> str | None:
    """Return why the API server would not create an injected pod, by a dry run; None if it would.

    No webhook of Istio's is called for it, because the pod gets the label that refuses injection.

    Raises:
        ClusterError: the API server cannot be reached, or does not permit the dry run.
    """
    tried = trial_pod(pod, namespace, labels={INJECT_LABEL: "false"})
    try:
        await client.create(r.PODS, tried, manager=_MANAGER, dry_run=True)
    except ClusterError as error:
        if not error.refuses_object or _NOT_PERMITTED in error.what:
            raise
        return error.what
    return None


CONFIRMED: Final = 3
"""The number of workloads whose injected pods the API server checks by default."""


def confirm_option(condition: str) -> Callable[[F], F]:
    """Return the option ``--confirm``. ``condition`` says when it has an effect."""
    return click.option(
        "--confirm",
        type=click.IntRange(min=0),
        default=CONFIRMED,
        show_default=True,
        metavar="N",
        help=f"{condition}, let the API server check the injected pods of N workloads that differ, by a dry run.",
    )


def confirmed(
    items: Sequence[T],
    group_of: Callable[[T], tuple[str, ...] | None],
    check: Callable[[KubeClient, T], Coroutine[Any, Any, T]],
    kubeconfig: Kubeconfig,
    count: int,
) -> tuple[list[T], tuple[str, ...]]:
    """Let the API server check ``count`` of the items, one of each group before others.

    ``group_of`` returns the group of an item, or None if there is nothing to check. ``check`` checks an item, and returns what it becomes.

    Returns:
        The items, those that were checked replaced, and a note if the API server cannot be asked.
    """
    ranks = Counter[tuple[str, ...]]()
    ranked = []
    for index, each in enumerate(items):
        group = group_of(each)
        if group is not None:
            ranked.append((ranks[group], index))
            ranks[group] += 1
    sample = [index for _, index in sorted(ranked)[:count]]

    async def work(client: KubeClient) -> dict[int, T]:
        return {index: await check(client, items[index]) for index in sample}

    if not sample:
        return list(items), ()
    try:
        with open_session(kubeconfig) as session:
            found = session.run(work)
    except ClusterError as error:
        return list(items), (f"the API server did not check the injected pods: {error}",)
    return [found.get(index, each) for index, each in enumerate(items)], ()


def _workload(item: dict[str, Any], others: OtherKinds) -> Created | None:
    """Return a workload, or None if it has ended or has a controller, as the Jobs of a CronJob have."""
    if controller_of(item["metadata"]) is not None or (item.get("status") or {}).get("completionTime"):
        return None
    return next(created_pods(item, str(item["metadata"].get("namespace", "")), others), None)


def _unlisted(pod: dict[str, Any], listed: AbstractSet[_Key]) -> Created | None:
    """Return the pod as it would be created again, or None if it has ended or belongs to a workload that is listed."""
    if has_ended(pod):
        return None
    meta = pod["metadata"]
    namespace = str(meta.get("namespace", ""))
    read = _metadata_of_running(pod)
    key, owner = key_of_normal_pod(read, namespace), controller_of(meta) or {}
    if key in listed or (namespace, owner.get("kind"), owner.get("name")) in listed:
        return None
    _, kind, name = key
    return Created(kind, namespace, name, as_created({**read, **_spec_of_running(pod)}))


def read_running(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod of the API server in normal form, without its status and managed fields. Raises ManifestError if it cannot be read."""
    return {**_metadata_of_running(pod), **_spec_of_running(pod)}


def _metadata_of_running(pod: Mapping[str, Any]) -> dict[str, Any]:
    meta = {key: value for key, value in pod["metadata"].items() if key != "managedFields"}
    read: dict[str, Any] = normalise({"metadata": meta}, "v1.Pod")
    return read


def _spec_of_running(pod: Mapping[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = normalise({"spec": pod.get("spec") or {}}, "v1.Pod")
    return read

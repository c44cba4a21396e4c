"""The workloads of a cluster, each with the pod that it would create now: one by its name, or all of a namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from injector.cluster import resources as r
from injector.cluster.resources import LIST_ATTEMPTS, ObjectReader, Resource, Scope, TextReader
from injector.errors import ClusterError, DataError, ManifestError, UsageError, for_each
from injector.fleet.manifests import is_selected
from injector.fleet.offload import Offload, inline
from injector.fleet.processes import in_processes
from injector.fleet.progress import Progress, no_progress
from injector.golang.json import load_json
from injector.injection import containers as c
from injector.injection.tools.drift import as_created, injected_revision
from injector.istio.labels import INJECT_LABEL
from injector.kube.objects import add_place
from injector.kube.pods import controller_of, has_ended
from injector.kube.podtemplates import KNATIVE, OTHER_KINDS, Created, OtherKinds, created_pods, creates_pods
from injector.kube.selectors import EVERYTHING, Selector
from injector.kube.typed import normalise
from injector.revisions.tags import key_of_normal_pod

if TYPE_CHECKING:
    from injector.fleet.files import FileReader, ReaderSession

R = TypeVar("R")

_Key: TypeAlias = "tuple[str, ...]"
"""The namespace, kind and name of a workload, and a word for each kind of its pods."""
_KeyOf: TypeAlias = "Callable[[dict[str, Any], Created], _Key]"
"""Returns the key of an object and its workload."""
_Read: TypeAlias = "Callable[[dict[str, Any]], list[Created]]"
"""Returns the workload of an object, once for each of its pod templates."""
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


@dataclass(frozen=True, slots=True)
class WorkloadName:
    """One workload of the cluster, as the command line names it."""

    resource: Resource | tuple[str, str]
    name: str
    namespace: str


def parse_target(text: str, *, namespace: str | None, default: str, others: OtherKinds = OTHER_KINDS) -> WorkloadName:
    """Read ``[TYPE/]NAME[.NAMESPACE]``. With ``namespace``, NAME may have dots. Raises UsageError for an unknown type or a missing name."""
    kind, separator, name = text.rpartition("/")
    types = {**TYPES, **{other[0].lower(): other for other in others if other not in OTHER_KINDS}}
    resource = types.get(kind.lower() if separator else "pod")
    if resource is None:
        first_names = {kind: name for name, kind in reversed(types.items())}
        known = ", ".join(reversed(first_names.values()))
        raise UsageError(f"{kind[:80]!r} is not a type of workload", where=text[:80], hint=f"known types are {known}")
    if namespace is None and "." in name:
        name, _, namespace = name.rpartition(".")
    if not name:
        raise UsageError("no workload name", where=text[:80], hint="write [TYPE/]NAME[.NAMESPACE]")
    return WorkloadName(resource, name, namespace or default)


async def read_target(reader: ObjectReader, target: WorkloadName, others: OtherKinds = OTHER_KINDS) -> list[Created]:
    """Return a workload of the cluster with the pod that each of its pod templates would create now.

    Raises DataError if it cannot be read.
    """
    resource = target.resource
    if not isinstance(resource, Resource):
        kind, group = resource
        served = await reader.find_resource(kind, group)
        if served is None:
            hint = "check the name and the group of the kind"
            raise ClusterError(f"the API server has no kind {kind} of {group}", hint=hint, reason="missing")
        resource = served
    item = await reader.get(resource, target.name, namespace=target.namespace)
    obj = {"apiVersion": resource.api_version, "kind": resource.kind, **item}
    if resource is r.PODS:
        pod = as_created(read_running(obj))
        return [Created(r.PODS.kind, str(obj["metadata"].get("namespace", "")), target.name, pod)]
    created = list(created_pods(obj, target.namespace, others))
    if not created:
        hint = "explain the Deployment of its workloadRef"
        raise ManifestError(f"{resource.kind} {target.name} has no pod template", hint=hint)
    return created


def read_targets(
    session: ReaderSession,
    namespace: str | None,
    others: OtherKinds,
    function: Callable[[Created], R],
    selector: Selector = EVERYTHING,
    *,
    progress: Progress = no_progress,
) -> list[R]:
    """Return the result of ``function`` for every workload of a namespace, or of all: Deployments and the like, and the pod of every other.

    The ``selector`` is that of their pods.

    A Knative Service counts as a workload by its pods, because Knative adds a container to its pod template. Of several equal pods of
    one workload the first one counts. Many workloads are divided among processes, each of which reads its part and calls ``function``.

    Raises:
        DataError: a workload cannot be read.
    """

    def read_scope(scope: Scope, read: _Read, key_of: _KeyOf = _key_of) -> list[tuple[_Key, R]]:
        start = partial(_first_of_each, scope, read, key_of, function, selector)
        return [pair for pairs in results_of_texts(session, scope, start, progress) for pair in pairs]

    workloads: dict[_Key, R] = {}
    for resource in session.run(lambda reader: _resources_to_list(reader, others)):
        workloads |= read_scope(Scope(resource, namespace or ""), lambda item: _workload(item, others))
    listed, pods = frozenset(key[:3] for key in workloads), Scope(r.PODS, namespace or "", fields=r.RUNNING)
    for key, result in read_scope(pods, lambda pod: _reduce_unlisted(pod, listed), _key_with_role):
        workloads.setdefault(key, result)
    return [workloads[key] for key in sorted(workloads)]


async def list_workloads(
    reader: TextReader, note: Callable[[dict[str, Any]], None], offload: Offload = inline
) -> list[Created]:
    """Return every workload of a cluster, as ``read_targets``, on the event loop of the reader and in this process.

    Of the pods of one workload, the first one with a sidecar counts: the head of a Ray cluster, for example, may have declined it.
    ``note`` is called with every object that is read: first the workloads, then all pods. If a list has to be read again, it is called
    again.
    """

    async def read_scope(scope: Scope, read: _Read, key_of: _KeyOf = _key_of) -> list[tuple[_Key, Created]]:
        def read_and_note(item: dict[str, Any]) -> list[Created]:
            workloads = read(item)
            note(item)
            return workloads

        start = partial(_first_of_each, scope, read_and_note, key_of, _itself)
        return [pair for pairs in await _results_of_pages(reader, scope, start, offload) for pair in pairs]

    workloads: dict[_Key, Created] = {}
    for resource in await _resources_to_list(reader, OTHER_KINDS):
        workloads |= await read_scope(Scope(resource), lambda item: _workload(item, OTHER_KINDS))
    listed, pods = frozenset(key[:3] for key in workloads), Scope(r.PODS, fields=r.RUNNING)
    running = await read_scope(pods, lambda pod: _reduce_unlisted(pod, listed), _key_with_sidecar)
    for (*key, _), pod in sorted(running, key=lambda pair: pair[0]):
        workloads.setdefault(tuple(key), pod)
    return [workloads[key] for key in sorted(workloads)]


def _key_of(_item: dict[str, Any], workload: Created) -> _Key:
    part = (workload.part,) if workload.part else ()
    return *workload.key, *part


def _key_with_sidecar(pod: dict[str, Any], workload: Created) -> _Key:
    """Return the key of a pod, with which the pods that have a sidecar are sorted before others."""
    return *workload.key, "without" if injected_revision(pod) is None else "injected"


def _key_with_role(pod: dict[str, Any], workload: Created) -> _Key:
    """Return the key of a pod, which differs for the kinds of pods that a controller of another group than Kubernetes' creates."""
    controller = controller_of(pod["metadata"]) or {}
    if "." not in str(controller.get("apiVersion")).partition("/")[0]:
        return workload.key
    decision = c.labels_of(workload.pod).get(INJECT_LABEL, "")
    return *workload.key, decision, *(item.get("name", "") for item in c.containers_of(workload.pod))


def file_workloads(reader: FileReader, others: OtherKinds, progress: Progress = no_progress) -> tuple[Created, ...]:
    """Return every workload of files, as ``read_targets`` of a cluster with the same objects, in the order of the files.

    Here all kinds with a pod template are listed, since files may leave out the pods of a workload. Raises DataError if a workload cannot
    be read. The errors of all workloads are raised together, see ``for_each``.
    """

    def key_of(obj: Mapping[str, Any]) -> _Key:
        meta = obj["metadata"]
        return str(meta.get("namespace", "")), str(obj.get("kind")), str(meta.get("name", ""))

    def is_listed(obj: dict[str, Any]) -> bool:
        owner = controller_of(obj["metadata"]) or {}
        owner_key = str(obj["metadata"].get("namespace", "")), str(owner.get("kind")), str(owner.get("name"))
        return creates_pods(obj, others) and owner_key not in templated and not _has_completed(obj)

    def read(placed: tuple[str, dict[str, Any]]) -> list[tuple[dict[str, Any], Created]]:
        place, obj = placed
        if obj.get("kind") != r.PODS.kind and not is_listed(obj):
            return []
        file, _, line = place.rpartition(":")
        try:
            created = list(created_pods(obj, "", others))
            if obj.get("kind") == r.PODS.kind:
                created = _reduce_unlisted({**obj, **created[0].pod}, listed)
        except DataError as error:
            add_place(error, obj, place)
            raise
        return [(obj, replace(workload, file=file, line=int(line or 0))) for workload in created]

    templated = {key_of(obj) for _, obj in reader.objects if creates_pods(obj, others)}
    listed = frozenset(key_of(obj) for _, obj in reader.objects if is_listed(obj))
    workloads: dict[_Key, Created] = {}
    objects = progress(reader.objects, "documents", length=len(reader.objects))
    for created in for_each(objects, read):
        for obj, workload in created:
            part = "" if obj["kind"] == r.PODS.kind else workload.part
            workloads.setdefault((*_key_with_role(obj, workload), part), workload)
    return tuple(workloads.values())


def _itself(workload: Created) -> Created:
    return workload


def _first_of_each(
    scope: Scope, read: _Read, key_of: _KeyOf, function: Callable[[Created], R], selector: Selector = EVERYTHING
) -> Callable[[bytes], list[tuple[_Key, R]]]:
    """Return a function of the JSON of an object, which returns the keys of its workloads with the results of ``function``.

    It leaves out a workload whose key was there before.
    """
    keys: set[_Key] = set()

    def results(text: bytes) -> list[tuple[_Key, R]]:
        item = {"apiVersion": scope.resource.api_version, "kind": scope.resource.kind, **load_json(text)}
        try:
            workloads = read(item)
        except DataError as error:
            meta = item["metadata"]
            name = f"{item['kind']} {meta.get('namespace', '')}/{meta.get('name', '')}"
            error.where = f"{name}: {error.where}".removesuffix(": ")
            raise
        new = {key_of(item, workload): workload for workload in workloads if is_selected(selector, workload)}
        pairs = [(key, function(workload)) for key, workload in new.items() if key not in keys]
        keys.update(new)
        return pairs

    return results


async def _resources_to_list(reader: ObjectReader, others: OtherKinds) -> tuple[Resource, ...]:
    known = [await reader.find_resource(kind, group) for kind, group in others if group != KNATIVE]
    return *LISTED, *filter(None, known)


def results_of_texts(
    session: ReaderSession,
    scope: Scope,
    start: Callable[[], Callable[[bytes], R | None]],
    progress: Progress = no_progress,
) -> list[R]:
    """Return the results of a function for the JSON of all objects of a scope, in order and without None.

    ``start`` returns the function. If the list has to be read again, it is called again, so the function may remember what it was called
    with. Many objects are divided among processes.
    """
    for attempts_left in reversed(range(LIST_ATTEMPTS)):
        results = progress(in_processes(start(), _texts(session, scope)), str(scope))
        try:
            return [result for result in results if result is not None]
        except ClusterError as error:
            if error.reason != "gone" or not attempts_left:
                raise
    raise AssertionError


async def _results_of_pages(
    reader: TextReader, scope: Scope, start: Callable[[], Callable[[bytes], R | None]], offload: Offload
) -> list[R]:
    """Return the same in this process. The function is called by ``offload``, one page after another."""

    def results_of(function: Callable[[bytes], R | None], texts: list[bytes]) -> list[R]:
        return [result for text in texts if (result := function(text)) is not None]

    for attempts_left in reversed(range(LIST_ATTEMPTS)):
        function, results, token = start(), list[R](), ""
        try:
            while True:
                texts, token = await reader.texts(scope, token)
                results += await offload(results_of, function, texts)
                if not token:
                    return results
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


def _workload(item: dict[str, Any], others: OtherKinds) -> list[Created]:
    """Return a workload, or nothing if it has ended, or if another one controls it, as the Jobs of a CronJob."""
    owner = controller_of(item["metadata"]) or {}
    is_controlled = creates_pods({"apiVersion": owner.get("apiVersion"), "kind": owner.get("kind")}, others)
    if is_controlled or _has_completed(item):
        return []
    return list(created_pods(item, str(item["metadata"].get("namespace", "")), others))


def _has_completed(item: Mapping[str, Any]) -> bool:
    return bool((item.get("status") or {}).get("completionTime"))


def _reduce_unlisted(pod: dict[str, Any], listed: AbstractSet[_Key]) -> list[Created]:
    """Return the pod as it would be created again, or nothing if it has ended or belongs to a workload that is listed."""
    if has_ended(pod):
        return []
    meta = pod["metadata"]
    namespace = str(meta.get("namespace", ""))
    read = _metadata_of_running(pod)
    key, owner = key_of_normal_pod(read, namespace), controller_of(meta) or {}
    if key in listed or (namespace, owner.get("kind"), owner.get("name")) in listed:
        return []
    _, kind, name = key
    created = as_created({**read, **_spec_of_running(pod)})
    part = created["metadata"].get("name", "") if kind != r.PODS.kind else ""
    return [Created(kind, namespace, name, created, part)]


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

"""Objects of manifests in place of a cluster: a reader of files with the interface of the client of the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from injector.cluster.kubeconfig import DEFAULT_NAMESPACE
from injector.cluster.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    NODES,
    VALIDATORS,
    WEBHOOKS,
    Resource,
    Scope,
    TextReader,
)
from injector.cluster.session import ClusterSession, open_session, run_for_result
from injector.errors import DataError, ManifestError, NotConfiguredError, for_each
from injector.fleet.manifests import check_lone, read_manifests
from injector.golang.json import dump_json
from injector.istio.webhooks.reading import read_configuration
from injector.kube.objects import add_place, mapping_at
from injector.kube.podtemplates import OTHER_KINDS, OtherKinds, unread_templates
from injector.kube.selectors import EVERYTHING, Selector
from injector.kube.typed import kind_type, normalise
from injector.kube.yaml import objects_of, split_documents

if TYPE_CHECKING:
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.fleet.progress import Report
    from injector.kube.yaml import Document

T = TypeVar("T")


class FileReader:
    """An ``ObjectReader`` of objects in memory, each with the place of its document. It ignores field selectors.

    The objects are those that a cluster would have after `kubectl apply` of the files: an object without a namespace is in ``namespace``,
    and of several objects with one name the last counts. Objects without a name, which has to be generated, are all different.
    """

    def __init__(
        self, objects: Iterable[tuple[str, dict[str, Any]]], *, where: str, namespace: str = DEFAULT_NAMESPACE
    ) -> None:
        self._objects: dict[str, list[dict[str, Any]]] = {}
        self._places: dict[int, str] = {}
        self._where = where
        named: dict[object, tuple[str, dict[str, Any]]] = {}
        for place, obj in objects:
            placed = _with_namespace(obj, namespace)
            named[_identity(placed) or id(placed)] = place, placed
        self.objects = tuple(named.values())
        """All objects in the order of the files, each after its place."""
        for place, obj in self.objects:
            self._objects.setdefault(str(obj.get("kind")), []).append(obj)
            self._places[id(obj)] = place

    @property
    def is_complete(self) -> bool:
        """False: files may leave out objects."""
        return False

    def place_of(self, obj: Mapping[str, Any]) -> str:
        """Return the file and the line of an object that was read."""
        return self._places[id(obj)]

    def has(self, resource: Resource) -> bool:
        """Return whether the files have an object of a resource."""
        return any(self._of(resource, ""))

    async def all(self, scope: Scope, keep: Callable[[dict[str, Any]], T | None]) -> list[T]:
        """Return the results of ``keep`` for all objects of a scope, without None."""
        selector = Selector.parse(scope.labels) if scope.labels else EVERYTHING
        objects = self._of(scope.resource, scope.namespace)
        if scope.name:
            objects = (obj for obj in objects if obj["metadata"]["name"] == scope.name)
        results = (keep(obj) for obj in objects if selector.matches(mapping_at(obj, "metadata", "labels")))
        return [result for result in results if result is not None]

    async def texts(self, scope: Scope, token: str = "") -> tuple[list[bytes], str]:
        """Return all objects of a scope as JSON; see ``TextReader``."""
        del token
        return await self.all(scope, dump_json), ""

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        """Return one object. Raises ManifestError if the files do not have it."""
        for obj in self._of(resource, namespace):
            if obj["metadata"].get("name") == name:
                return obj
        place = f"{namespace}/{name}" if namespace else name
        raise ManifestError(
            f"{resource.kind} {place} not found", where=self._where, hint="add it to the files, or name another"
        )

    async def find_resource(self, kind: str, group: str) -> Resource | None:
        """Return the resource of a kind, if the files have such objects."""
        if all(str(obj.get("apiVersion")).rpartition("/")[0] != group for obj in self._objects.get(kind, ())):
            return None
        return Resource(f"{group}/v1", f"{kind.lower()}s", kind, namespaced=True)

    def run(self, work: Callable[[TextReader], Coroutine[Any, Any, T]]) -> T:
        """Run ``work`` with the objects and return its result; see ``ReaderSession``."""
        with asyncio.Runner() as runner:
            return run_for_result(runner, work(self))

    def _of(self, resource: Resource, namespace: str) -> Iterator[dict[str, Any]]:
        is_workload = kind_type(resource.kind) is not None  # of any group, as for kube-inject
        groups = {"", _group({"apiVersion": resource.api_version})}
        for obj in self._objects.get(resource.kind, ()):
            in_group = is_workload or _group(obj) in groups
            if in_group and (not namespace or obj["metadata"].get("namespace") == namespace):
                yield obj


class ReaderSession(Protocol):
    """Runs coroutines that read objects, one after another."""

    def run(self, work: Callable[[TextReader], Coroutine[Any, Any, T]]) -> T:
        """Run ``work`` and return its result."""


@contextmanager
def open_reader(
    filenames: Sequence[str], kubeconfig: Kubeconfig, *, recursive: bool = False, namespace: str = DEFAULT_NAMESPACE
) -> Iterator[ReaderSession]:
    """Open the files, or without files the cluster. ``namespace`` is that of objects of files that name none.

    Raises InjectorError if the files cannot be read, or the credentials cannot be used.
    """
    if filenames:
        yield read_objects(filenames, recursive=recursive, namespace=namespace)
        return
    with open_cluster(kubeconfig) as session:
        yield session


@contextmanager
def open_cluster(kubeconfig: Kubeconfig) -> Iterator[ClusterSession]:
    """Open the cluster, for a command that can read files instead. Raises InjectorError if the credentials cannot be used."""
    try:
        with open_session(kubeconfig) as session:
            yield session
    except NotConfiguredError as error:
        error.hint += ", or -f FILE to read files"
        raise


CLUSTER_SCOPED: Final = frozenset({
    *(NAMESPACES.kind, NODES.kind, WEBHOOKS.kind, VALIDATORS.kind, "CustomResourceDefinition"),
    *("ClusterRole", "ClusterRoleBinding", "GatewayClass", "PersistentVolume", "StorageClass", "PriorityClass", "Upgrade"),
})  # fmt: skip
"""The kinds that have no namespace."""


def _with_namespace(obj: dict[str, Any], namespace: str) -> dict[str, Any]:
    meta = obj["metadata"]
    if meta.get("namespace") or obj.get("kind") in CLUSTER_SCOPED:
        return obj
    return {**obj, "metadata": {**meta, "namespace": namespace}}


def _group(obj: Mapping[str, Any]) -> str:
    return str(obj.get("apiVersion", "")).rpartition("/")[0]


def _identity(obj: Mapping[str, Any]) -> tuple[str, ...] | None:
    meta = obj["metadata"]
    if not meta.get("name"):
        return None
    return _group(obj), str(obj.get("kind")), str(meta.get("namespace", "")), str(meta["name"])


def read_objects(
    names: Sequence[str],
    *,
    recursive: bool,
    namespace: str = DEFAULT_NAMESPACE,
    others: OtherKinds = OTHER_KINDS,
    warn: Report | None = None,
) -> FileReader:
    """Read all objects of the files, also those in lists. ``namespace`` is that of objects that name none.

    ``warn`` is called for each pod template of a kind that is neither Istio's nor one of ``others``.

    Raises:
        UsageError: no file is given.
        DataError: a file or an object cannot be read. The errors of all documents are raised together, see ``for_each``.
    """
    manifests = read_manifests(names, recursive=recursive)
    documents = [
        (document, manifest.name)
        for manifest in manifests
        for document in split_documents(manifest.text, where=manifest.name)
    ]
    objects = [
        placed for in_document in for_each(documents, lambda named: _objects_of(*named)) for placed in in_document
    ]
    if not objects:
        hint = "write them with `kubectl get pods,ns,mutatingwebhookconfigurations -A -o yaml`"
        raise ManifestError("the files have no object", where=", ".join(names), hint=hint)
    if warn is not None:
        for place, obj in objects:
            for message in unread_templates(obj, others):
                warn(f"{place}: {message}")
    return FileReader(objects, where=", ".join(manifest.name for manifest in manifests), namespace=namespace)


def _objects_of(document: Document, name: str) -> list[tuple[str, dict[str, Any]]]:
    try:
        objects = objects_of(document, where=name)
    except DataError:
        check_lone(document, name)
        raise
    return [(place, _as_listed(obj, place)) for place, obj in objects if "kind" in obj]


def _as_listed(obj: dict[str, Any], place: str) -> dict[str, Any]:
    """Return an object of a file in the form that an API server would list. Raises ManifestError if it would refuse the object.

    A ConfigMap stays as it is, because one that cannot be read is only a revision less.
    """
    if obj.get("kind") == CONFIG_MAPS.kind:
        return {**obj, "metadata": mapping_at(obj, "metadata")}
    try:
        for key in ("spec", "status"):
            if not isinstance(obj.get(key) or {}, dict):
                raise ManifestError("not an object", where=key, hint="read it with `kubectl get -o yaml`")
        if obj.get("kind") == WEBHOOKS.kind:
            return {**obj, **read_configuration(obj)}
        read = normalise({"metadata": obj.get("metadata")}, "v1.Namespace", coerce=True)
        return {**obj, "metadata": read.get("metadata") or {}}
    except DataError as error:
        add_place(error, obj, place)
        raise

"""Objects of manifests in place of a cluster: a reader of files with the interface of the client of the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from injector.cluster.resources import CONFIG_MAPS, WEBHOOKS, Resource, Scope, TextReader
from injector.cluster.session import open_session, run_for_result
from injector.errors import DataError, ManifestError
from injector.fleet.manifests import read_manifests
from injector.golang.json import dump_json
from injector.istio.webhooks.reading import read_configuration
from injector.kube.pods import add_place
from injector.kube.selectors import EVERYTHING, Selector
from injector.kube.typed import normalise
from injector.kube.yaml import objects_in

if TYPE_CHECKING:
    from injector.cluster.kubeconfig import Kubeconfig

T = TypeVar("T")


class FileReader:
    """An ``ObjectReader`` of objects in memory, each with the place of its document. It ignores field selectors."""

    def __init__(self, objects: Iterable[tuple[str, dict[str, Any]]], *, where: str) -> None:
        self._objects: dict[str, list[dict[str, Any]]] = {}
        self._places: dict[int, str] = {}
        self._where = where
        for place, obj in objects:
            self._objects.setdefault(str(obj.get("kind")), []).append(obj)
            self._places[id(obj)] = place

    def place_of(self, obj: Mapping[str, Any]) -> str:
        """Return the file and the line of an object that was read."""
        return self._places[id(obj)]

    async def all(self, scope: Scope, keep: Callable[[dict[str, Any]], T | None]) -> list[T]:
        """Return the results of ``keep`` for all objects of a scope, without None."""
        selector = Selector.parse(scope.labels) if scope.labels else EVERYTHING
        objects = self._of(scope.resource, scope.namespace)
        results = (keep(obj) for obj in objects if selector.matches(obj["metadata"].get("labels") or {}))
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
        for obj in self._objects.get(resource.kind, ()):
            if not namespace or obj["metadata"].get("namespace") == namespace:
                yield obj


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
        (place, _as_listed(obj, place))
        for manifest in manifests
        for place, obj in objects_in(manifest.text, where=manifest.name)
        if isinstance(obj.get("metadata"), dict)
    ]
    if not objects:
        hint = "write them with `kubectl get pods,ns,mutatingwebhookconfigurations -A -o yaml`"
        raise ManifestError("the files have no object", where=", ".join(names), hint=hint)
    return FileReader(objects, where=", ".join(manifest.name for manifest in manifests))


def _as_listed(obj: dict[str, Any], place: str) -> dict[str, Any]:
    """Return an object of a file in the form that an API server would list. Raises ManifestError if it would refuse the object.

    A ConfigMap stays as it is, because one that cannot be read is only a revision less.
    """
    if obj.get("kind") == CONFIG_MAPS.kind:
        return obj
    try:
        for key in ("spec", "status"):
            if not isinstance(obj.get(key) or {}, dict):
                raise ManifestError("not an object", where=key, hint="read it with `kubectl get -o yaml`")
        if obj.get("kind") == WEBHOOKS.kind:
            return {**obj, **read_configuration(obj)}
        return {**obj, **normalise({"metadata": obj["metadata"]}, "v1.Namespace", coerce=True)}
    except DataError as error:
        add_place(error, obj, place)
        raise

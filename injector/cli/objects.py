"""Objects of a cluster that were written to files, as ``kubectl get -o yaml`` and ``-o json`` do, read as a cluster is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from injector.cli.clusterflags import in_cluster
from injector.cli.inputs import read_manifests
from injector.cluster.reader import ClusterReader
from injector.errors import ManifestError
from injector.kube.serial import load_json, load_yaml, split_documents

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence

    from injector.cli.inputs import Manifest
    from injector.cluster.client import KubeClient
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.cluster.reader import Reader, Resource, Scope

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

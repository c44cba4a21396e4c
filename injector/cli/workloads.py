"""The workloads of manifests, as the pods that would be created of them, and what the manifests say of namespaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.cli.documents import changed_documents
from injector.cli.inputs import read_manifests
from injector.errors import ManifestError
from injector.kube.created import created_pods
from injector.kube.typed import normalise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from injector.kube.created import Created

NAMESPACE: Final = "default"
"""Where a workload is created that names no namespace, as kubectl has it."""


@dataclass(frozen=True, slots=True)
class Workloads:
    """What was read: the workloads in order, and the labels of each Namespace among the documents."""

    created: tuple[Created, ...]
    namespace_labels: Mapping[str, Mapping[str, str]]

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces of the workloads."""
        return tuple(dict.fromkeys(each.namespace for each in self.created))


def read_workloads(names: Sequence[str], *, recursive: bool, namespace: str | None) -> Workloads:
    """Read every workload of the files that ``names`` mean; ``namespace`` is that of workloads that name none.

    Raises:
        UsageError: no file was named.
        DataError: a file or a workload cannot be read, or there is no workload at all.
    """
    created: list[Created] = []
    labels: dict[str, Mapping[str, str]] = {}

    def take(obj: dict[str, Any]) -> None:
        created.extend(created_pods(obj, namespace or NAMESPACE))
        if obj.get("kind") == "Namespace":
            meta = normalise(obj, "v1.Namespace", coerce=True).get("metadata") or {}
            labels[meta.get("name", "")] = meta.get("labels") or {}

    changed_documents(read_manifests(names, recursive=recursive), take)
    if not created:
        raise ManifestError(
            "there is no workload in the files",
            where=", ".join(names),
            hint="name a manifest with a Pod, a Deployment or another kind that has pods",
        )
    return Workloads(tuple(created), labels)

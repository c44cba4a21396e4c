"""Finding and moving containers by name, as Istio's injector does. No function changes its arguments.

Follows ``FindContainer``, ``moveContainer`` and ``modifyContainers`` in pkg/kube/inject (1.30.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

Container: TypeAlias = dict[str, Any]
Pod: TypeAlias = dict[str, Any]

PROXY: Final = "istio-proxy"
INIT: Final = "istio-init"
VALIDATION: Final = "istio-validation"
ENABLE_CORE_DUMP: Final = "enable-core-dump"
ISTIOS: Final = frozenset({PROXY, INIT, VALIDATION, ENABLE_CORE_DUMP})
"""The containers that Istio's templates add."""


def containers_of(pod: Mapping[str, Any], kind: str = "containers") -> list[Container]:
    """Return the pod's list ``containers`` or ``initContainers``, empty if it has none."""
    return (pod.get("spec") or {}).get(kind) or []


def find(name: str, containers: Iterable[Container]) -> Container | None:
    """Return the first container of that name."""
    for item in containers:
        if item.get("name") == name:
            return item
    return None


def find_in_pod(name: str, pod: Mapping[str, Any]) -> Container | None:
    """Return the first container of that name: application containers before init containers."""
    return find(name, containers_of(pod)) or find(name, containers_of(pod, "initContainers"))


def without(name: str, containers: Iterable[Container]) -> list[Container]:
    """Return the containers without those of that name."""
    return [item for item in containers if item.get("name") != name]


def move_first(name: str, containers: Sequence[Container]) -> list[Container]:
    """Return the containers with the one of that name first; of several equal names the last stays, as in Istio."""
    return [*_last_of(name, containers), *without(name, containers)]


def move_last(name: str, containers: Sequence[Container]) -> list[Container]:
    """Return the containers with the one of that name last; of several equal names the last stays, as in Istio."""
    return [*without(name, containers), *_last_of(name, containers)]


def _last_of(name: str, containers: Sequence[Container]) -> list[Container]:
    return [item for item in containers if item.get("name") == name][-1:]


def with_spec(pod: Pod, **changes: Any) -> Pod:
    """Return the pod with keys of its spec replaced; None, or an empty list, leaves the key out as Go's omitempty does.

    ``containers`` has no omitempty: it stays, empty.
    """
    spec = {**(pod.get("spec") or {}), **changes}
    for key, value in changes.items():
        if value is None or (value == [] and key != "containers"):
            del spec[key]
    return {**pod, "spec": spec}


def with_container(pod: Pod, changed: Container) -> Pod:
    """Return the pod with the container that ``find_in_pod`` finds under the same name replaced by ``changed``."""
    for kind in ("containers", "initContainers"):
        items = containers_of(pod, kind)
        for index, item in enumerate(items):
            if item.get("name") == changed.get("name"):
                return with_spec(pod, **{kind: [*items[:index], changed, *items[index + 1 :]]})
    return pod


def with_metadata(pod: Pod, **changes: Any) -> Pod:
    """Return the pod with keys of its metadata replaced; an empty map leaves the key out."""
    metadata = {**(pod.get("metadata") or {}), **changes}
    for key, value in changes.items():
        if not value:
            del metadata[key]
    return {**pod, "metadata": metadata}


def annotations_of(pod: Mapping[str, Any]) -> dict[str, str]:
    """Return the pod's annotations, empty if it has none."""
    return (pod.get("metadata") or {}).get("annotations") or {}


def labels_of(obj: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of a pod or of any other object, empty if it has none."""
    return (obj.get("metadata") or {}).get("labels") or {}


def env_appended(container: Container, name: str, value: str) -> Container:
    """Return the container with an env variable added at the end."""
    return {**container, "env": [*(container.get("env") or ()), {"name": name, "value": value}]}


def replace_env(container: Container, values: Mapping[str, str]) -> Container:
    """Return the container with these env variables at the end, in place of its own; Go leaves an empty value out of the JSON."""
    others = [item for item in container.get("env") or () if item.get("name") not in values]
    added = [{"name": name, "value": value} if value else {"name": name} for name, value in values.items()]
    return {**container, "env": others + added}

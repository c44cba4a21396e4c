"""The annotation ``sidecar.istio.io/status``, which lists the additions of an injection, and their removal.

Follows ``SidecarInjectionStatus``, ``getInjectionStatus``, ``parseStatus`` and ``stripPod`` in pkg/kube/inject (1.30.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from injector.errors import DataError
from injector.golang.json import go_json, load_json
from injector.injection import containers as c
from injector.memo import Memo

STATUS: Final = "sidecar.istio.io/status"
_LISTS: Final = ("initContainers", "containers", "volumes", "imagePullSecrets")


@dataclass(frozen=True, slots=True)
class InjectionStatus:
    """The names of the additions of an earlier injection."""

    init_containers: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    image_pull_secrets: tuple[str, ...] = ()

    def by_list(self) -> dict[str, tuple[str, ...]]:
        """Return the names by the list of the pod's spec that they are in."""
        return dict(
            zip(_LISTS, (self.init_containers, self.containers, self.volumes, self.image_pull_secrets), strict=True)
        )

    def any(self) -> bool:
        """Return whether it names anything."""
        return any(self.by_list().values())


def read_status(pod: Mapping[str, Any]) -> InjectionStatus | None:
    """Return the status of an earlier injection; None if there is none or, as Istio ignores it then, it is not valid.

    As for Go, keys match in any case.
    """
    text = c.annotations_of(pod).get(STATUS)
    return None if text is None else _READ.get(text, _read).status


def revision_in(text: str) -> str:
    """Return the revision that the annotation's value names; empty if it names none."""
    return _READ.get(text, _read).revision


class _Read(NamedTuple):
    """What ``read_status`` and ``revision_in`` return."""

    status: InjectionStatus | None
    revision: str


def _read(text: str) -> _Read:
    raw = _json_object(text)
    revision = None if raw is None else raw.get("revision")
    return _Read(_status_in(raw), revision if isinstance(revision, str) else "")


_READ: Final[Memo[str, _Read]] = Memo(64, 64 << 10, len)
"""Pods of one revision have the same annotation, and commands read it several times for each pod."""


def _status_in(raw: dict[str, Any] | None) -> InjectionStatus | None:
    if raw is None:
        return None
    by_name = {key.lower(): value for key, value in raw.items()}
    if not isinstance(by_name.get("revision"), str | None):
        return None
    names = [_names(by_name.get(key.lower())) for key in _LISTS]
    known = [item for item in names if item is not None]
    return InjectionStatus(*known) if len(known) == len(names) else None


def injected_names(pod: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the names of injected containers by list, as ``parseStatus`` reads them: in the exact case, whatever else is not valid.

    A list of something else than names is empty; Istio (1.30.3) drops the connection of such a request.
    """
    text = c.annotations_of(pod).get(STATUS)
    raw = (None if text is None else _json_object(text)) or {}
    return {kind: _names(raw.get(kind)) or () for kind in ("containers", "initContainers")}


def _json_object(text: str) -> dict[str, Any] | None:
    """Return the object in a text, empty for ``null``; None if there is no object."""
    try:
        raw = load_json(text)
    except DataError:
        return None
    return {} if raw is None else raw if isinstance(raw, dict) else None


def _names(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return ()
    if isinstance(value, list) and all(isinstance(item, str | None) for item in value):
        return tuple(item or "" for item in value)
    return None


def status_annotation(template_spec: Mapping[str, Any], revision: str | None) -> str:
    """Return the annotation's value for ``template_spec``, the spec of the rendered overlay.

    Absent lists are null. ``revision`` is None for minors that do not name it.
    """
    listed = {key: [item.get("name", "") for item in template_spec.get(key) or ()] or None for key in _LISTS}
    return go_json(listed if revision is None else {**listed, "revision": revision})


def stripped(pod: c.Pod, status: InjectionStatus | None) -> c.Pod:
    """Return the pod without the containers and the annotation of an earlier injection."""
    if status is None:
        return pod
    app = [item for item in c.containers_of(pod) if item.get("name") not in status.containers]
    init = [item for item in c.containers_of(pod, "initContainers") if item.get("name") not in status.init_containers]
    annotations = {key: value for key, value in c.annotations_of(pod).items() if key != STATUS}
    return c.with_metadata(c.with_spec(pod, containers=app, initContainers=init), annotations=annotations)

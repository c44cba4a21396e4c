"""The annotation ``sidecar.istio.io/status``, which lists the additions of an injection, and their removal.

Follows ``SidecarInjectionStatus``, ``getInjectionStatus``, ``parseStatus`` and ``stripPod`` in pkg/kube/inject (1.30.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from injector.errors import DataError
from injector.golang.json import go_json, load_json
from injector.injection import containers as c

STATUS: Final = "sidecar.istio.io/status"
LISTS: Final = ("initContainers", "containers", "volumes", "imagePullSecrets")
InjectionStatus: TypeAlias = Mapping[str, frozenset[str]]
"""The names of the additions of an earlier injection, by the list of the pod's spec that they are in, which are those of ``LISTS``."""


def read_status(pod: Mapping[str, Any]) -> InjectionStatus | None:
    """Return the status of an earlier injection; None if there is none or, as Istio ignores it then, it is not valid.

    As for Go, keys match in any case.
    """
    raw = _json_object(pod)
    by_name = {} if raw is None else {key.lower(): value for key, value in raw.items()}
    if raw is None or not isinstance(by_name.get("revision"), str | None):
        return None
    names = {key: _names(by_name.get(key.lower())) for key in LISTS}
    known = {key: listed for key, listed in names.items() if listed is not None}
    return known if len(known) == len(names) else None


def revision_in_status(pod: Mapping[str, Any]) -> str:
    """Return the revision that the annotation names; empty without an annotation or a name."""
    revision = (_json_object(pod) or {}).get("revision")
    return revision if isinstance(revision, str) else ""


def injected_names(pod: Mapping[str, Any]) -> InjectionStatus:
    """Return the names of injected containers by list, as ``parseStatus`` reads them: in the exact case, whatever else is not valid.

    A list of something else than names is empty; Istio (1.30.3) drops the connection of such a request.
    """
    raw = _json_object(pod) or {}
    return {kind: _names(raw.get(kind)) or frozenset() for kind in ("containers", "initContainers")}


def _json_object(pod: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the object in the annotation, empty for ``null``; None if there is no object."""
    text = c.annotations_of(pod).get(STATUS)
    try:
        raw = "" if text is None else load_json(text)
    except DataError:
        return None
    return {} if raw is None else raw if isinstance(raw, dict) else None


def _names(value: Any) -> frozenset[str] | None:
    if value is None:
        return frozenset()
    if isinstance(value, list) and all(isinstance(item, str | None) for item in value):
        return frozenset(item or "" for item in value)
    return None


def status_annotation(template: c.Pod, revision: str | None) -> str:
    """Return the annotation's value for ``template``, the rendered overlay; ``revision`` is None for minors that do not name it."""
    listed = added_names(template)
    return go_json(listed if revision is None else {**listed, "revision": revision})


def added_names(template: c.Pod) -> dict[str, list[str] | None]:
    """Return the names in the lists that a template adds; None for a list that it does not add to."""
    return {key: [item.get("name", "") for item in c.containers_of(template, key)] or None for key in LISTS}


def strip_injected(pod: c.Pod, status: InjectionStatus | None) -> c.Pod:
    """Return the pod without the containers and the annotation of an earlier injection."""
    if status is None:
        return pod
    remaining = {
        kind: [item for item in c.containers_of(pod, kind) if item.get("name") not in status[kind]]
        for kind in ("containers", "initContainers")
    }
    annotations = {key: value for key, value in c.annotations_of(pod).items() if key != STATUS}
    return c.with_metadata(c.with_spec(pod, **remaining), annotations=annotations)

"""The API server's defaults for containers and volumes.

Follows the functions ``SetDefaults_*`` of Kubernetes' pkg/apis/core/v1/defaults.go (1.35).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    Object = dict[str, Any]

_CONTAINER: Final = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_PROBE: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_HTTP: Final = {"path": "/", "scheme": "HTTP"}
_GRPC: Final = {"service": ""}
_PORT: Final = {"protocol": "TCP"}
_FIELD: Final = {"apiVersion": "v1"}
_MODE: Final = {"defaultMode": 0o644}
_TOKEN: Final = {"expirationSeconds": 3600}
_HOST_PATH: Final = {"type": ""}
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_LATEST: Final = "latest"


def defaulted_container(container: Mapping[str, Any]) -> Object:
    """Return a normalised container as the API server keeps it: with its defaults."""
    found = {**_CONTAINER, "imagePullPolicy": _pull_policy(str(container.get("image", ""))), **container}
    found = _each(found, "ports", lambda port: {**_PORT, **port})
    found = _each(found, "env", lambda item: _at(item, "valueFrom", _with_field))
    for key in _PROBES:
        found = _at(found, key, lambda probe: {**_PROBE, **_handler(probe)})
    found = _at(found, "lifecycle", _lifecycle)
    resources = _resources(container.get("resources") or {})
    rest = {key: value for key, value in found.items() if key != "resources"}
    return {**rest, "resources": resources} if resources else rest


def defaulted_volume(volume: Mapping[str, Any]) -> Object:
    """Return a normalised volume as the API server keeps it: with its defaults."""
    found = dict(volume)
    if set(found) <= {"name"}:
        return {**found, "emptyDir": {}}
    for key in ("secret", "configMap", "downwardAPI", "projected"):
        found = _at(found, key, lambda source: {**_MODE, **source})
    found = _at(found, "hostPath", lambda source: {**_HOST_PATH, **source})
    found = _at(found, "downwardAPI", _files)
    return _at(found, "projected", lambda source: _each(source, "sources", _projection))


def _pull_policy(image: str) -> str:
    """Return the pull policy of an image: ``Always`` if its tag may move."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", _LATEST) else "IfNotPresent"


def _handler(probe: Object) -> Object:
    probe = _at(probe, "httpGet", lambda action: {**_HTTP, **action})
    return _at(probe, "grpc", lambda action: {**_GRPC, **action})


def _lifecycle(lifecycle: Object) -> Object:
    for key in ("postStart", "preStop"):
        lifecycle = _at(lifecycle, key, _handler)
    return lifecycle


def _resources(resources: Object) -> Object:
    """Return resources with their limits as the requests that they do not have."""
    limits = resources.get("limits") or {}
    return {**resources, "requests": {**limits, **(resources.get("requests") or {})}} if limits else resources


def _projection(source: Object) -> Object:
    return _at(_at(source, "serviceAccountToken", lambda token: {**_TOKEN, **token}), "downwardAPI", _files)


def _files(source: Object) -> Object:
    return _each(source, "items", _with_field)


def _with_field(source: Object) -> Object:
    return _at(source, "fieldRef", lambda field: {**_FIELD, **field})


def _at(holder: Object, key: str, change: Callable[[Object], Object]) -> Object:
    """Return ``holder`` with the value at ``key``, if there is one, changed."""
    return {**holder, key: change(holder[key])} if holder.get(key) is not None else holder


def _each(holder: Object, key: str, change: Callable[[Object], Object]) -> Object:
    return {**holder, key: [change(item) for item in holder[key]]} if holder.get(key) else holder

"""Drift: whether a running pod has the sidecar that its revision would inject now.

A pod keeps its sidecar until it is recreated. Its annotations name the revision, but not the template. Therefore the pod is uninjected and
injected again, and the additions of the two injections are compared. Changes that the API server, its admission plugins or other
webhooks may have made after the injection are not drift. The defaults of the API server follow the functions ``SetDefaults_*`` of
Kubernetes' pkg/apis/core/v1/defaults.go (1.35).
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from injector.errors import DataError
from injector.injection import containers as c
from injector.injection.result import Answer, Injected
from injector.injection.steps import prometheus
from injector.injection.steps.probes import APP_PROBERS
from injector.injection.steps.status import STATUS, read_status, revision_in_status
from injector.injection.tools.podchanges import ABSENT, KINDS, Change, pod_changes
from injector.injection.tools.uninject import ANNOTATIONS_ENV, LABELS_ENV, uninject_pod
from injector.istio.labels import REVISION_LABEL

if TYPE_CHECKING:
    Object = dict[str, Any]

CURRENT: Final = "current"
OLDER_REVISION: Final = "older revision"
OLDER_TEMPLATE: Final = "older template"
MISSING: Final = "missing sidecar"
UNEXPECTED: Final = "unexpected sidecar"
UNKNOWN_REVISION: Final = "unknown revision"
NOW_REFUSED: Final = "refused"
STATES: Final = (CURRENT, OLDER_REVISION, OLDER_TEMPLATE, MISSING, UNEXPECTED, UNKNOWN_REVISION, NOW_REFUSED)
"""The states of a pod; all but the first are drift. A ``refuse`` pod could not be created again as it is."""

_OF_ADMISSION: Final = ("name", "generateName", "namespace", "labels", "annotations", "ownerReferences")
"""The metadata that a webhook sees when a pod is created."""
_LATER: Final = ("nodeName", "ephemeralContainers")
"""Fields of a pod's spec that are set after it is created."""
_LISTS: Final = ("initContainers", "containers")
_ABOUT_THE_POD: Final = frozenset(
    {APP_PROBERS, ANNOTATIONS_ENV, LABELS_ENV, prometheus.ENV, "ISTIO_META_APP_CONTAINERS", "ISTIO_META_POD_PORTS"}
)
"""Variables that repeat the pod itself, with the changes that other webhooks made after the injection."""
# The annotation of a pod that the plugin LimitRanger gave resources (plugin/pkg/admission/limitranger).
_LIMIT_RANGER: Final = "kubernetes.io/limit-ranger"
# The plugin AlwaysPullImages sets it for every container.
_ALWAYS: Final = "Always"


@dataclass(frozen=True, slots=True)
class Drift:
    """The state of a pod, one of ``STATES``, and with an older template the kinds of differences."""

    state: str
    kinds: tuple[str, ...] = ()


def injected_revision(pod: Mapping[str, Any]) -> str | None:
    """Return the name that the revision wrote into a pod, empty if it wrote none; None if the pod was not injected.

    Every minor writes the annotation ``sidecar.istio.io/status``. A proxy without it is not injected, but belongs to its deployment, as
    in a gateway or waypoint. The status names the revision from 1.11 on; 1.6 to 1.10 wrote it elsewhere.
    """
    annotations = c.annotations_of(pod)
    if STATUS not in annotations:
        return None
    named = revision_in_status(pod) or annotations.get(REVISION_LABEL) or c.labels_of(pod).get(REVISION_LABEL)
    return named or ""


def of_replica(pod: c.Pod) -> c.Pod:
    """Return the part of a running pod that the replicas of its workload share: a webhook saw it, or added it."""
    meta = pod.get("metadata") or {}
    metadata = {key: meta[key] for key in _OF_ADMISSION if meta.get(key)}
    if "generateName" in metadata:
        metadata.pop("name", None)  # the API server makes it up after the webhooks
    spec = pod.get("spec") or {}
    if isinstance(spec, dict):
        spec = {key: value for key, value in spec.items() if key not in _LATER}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def as_created(pod: c.Pod) -> c.Pod:
    """Return a running pod as its webhook would get it if the pod were recreated. A proxy of a pod that was not injected is its own.

    Its label ``istio.io/rev`` stays if the status names the revision: then it is the user's, except that the label of a gateway's template
    looks the same. Raises ManifestError if an annotation or a variable of the injector's own was changed by hand, and cannot be read.
    """
    if injected_revision(pod) is None:
        return of_replica(pod)
    created = uninject_pod(of_replica(pod))
    label = own_revision_label(pod)
    return (
        created if label is None else c.with_metadata(created, labels={**c.labels_of(created), REVISION_LABEL: label})
    )


def own_revision_label(pod: Mapping[str, Any]) -> str | None:
    """Return the label ``istio.io/rev`` of a running pod; None if it has none, or if the injection wrote it."""
    return c.labels_of(pod).get(REVISION_LABEL) if revision_in_status(pod) else None


def drift_of(pod: c.Pod, answer: Answer | None) -> Drift:
    """Return the drift of a running pod by the answer of its revision to the pod ``as_created``; None if no webhook is called for it."""
    has = injected_revision(pod)
    if isinstance(answer, DataError):
        return Drift(NOW_REFUSED)
    if not isinstance(answer, Injected):
        return Drift(CURRENT if has is None else UNEXPECTED)
    if has is None:
        return Drift(MISSING)
    if has != injected_revision(answer.shared_pod):
        return Drift(OLDER_REVISION)
    kinds = {change.kind for change in template_changes(pod, answer.shared_pod)}
    return Drift(OLDER_TEMPLATE, tuple(kind for kind in KINDS if kind in kinds)) if kinds else Drift(CURRENT)


def template_changes(pod: c.Pod, fresh: c.Pod) -> tuple[Change, ...]:
    """Return the changes from the containers and volumes that injection added to ``pod`` to those that it adds to ``fresh`` now."""
    names = [_added_names(side) for side in (pod, fresh)]
    containers, volumes = (frozenset().union(*(of_pod[index] for of_pod in names)) for index in (0, 1))
    # The API server has already given most running pods the defaults, and they stay the same when they are given again.
    old, new = ({"spec": _lists_with_defaults(side, containers, volumes)} for side in (pod, fresh))
    ranged = _LIMIT_RANGER in c.annotations_of(pod)
    return tuple(change for change in pod_changes(old, new, {}) if not _of_others(change, ranged=ranged))


def _of_others(change: Change, *, ranged: bool) -> bool:
    """Return whether a change may have another cause than the injection."""
    if change.kind == "order":
        return True
    if change.new is ABSENT:
        field = change.path.partition("].")[2]
        return field.startswith(("env[", "volumeMounts")) or (ranged and change.kind == "resources")
    if change.kind == "env":
        return any(f".env[{name}]" in change.path for name in _ABOUT_THE_POD)
    if change.path.endswith(".image"):
        return str(change.old).startswith(f"{change.new}@")  # a policy has appended the digest
    return change.path.endswith(".imagePullPolicy") and change.old == _ALWAYS


def _added_names(pod: c.Pod) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the containers and of the volumes that an injection added to a pod."""
    status = read_status(pod) or {}
    containers = (name for kind in _LISTS for name in status.get(kind, ()))
    return frozenset(containers), frozenset(status.get("volumes", ()))


def _lists_with_defaults(
    pod: c.Pod, containers: AbstractSet[Any], volumes: AbstractSet[Any]
) -> dict[str, list[Object]]:
    """Return the lists of a pod with only these containers and volumes, and with the API server's defaults."""
    lists = {
        kind: [with_container_defaults(item) for item in c.containers_of(pod, kind) if item.get("name") in containers]
        for kind in _LISTS
    }
    listed = c.containers_of(pod, "volumes")
    return {**lists, "volumes": [with_volume_defaults(item) for item in listed if item.get("name") in volumes]}


class _Defaults(NamedTuple):
    """The API server's defaults of an object: of its own fields, and of the objects in its fields or in the lists there."""

    own: Mapping[str, Any] = {}
    inner: Mapping[str, _Defaults] = {}

    def applies(self, value: Object) -> bool:
        """Return whether an object may get a default. Most env variables do not."""
        return bool(self.own) or not self.inner.keys().isdisjoint(value)

    def of(self, value: Mapping[str, Any]) -> Object:
        """Return an object with its defaults."""
        own, inner = self
        complete = {**own, **value}
        for key in inner:
            if key in value:
                part, defaults = value[key], inner[key]
                if isinstance(part, list):
                    complete[key] = [defaults.of(item) if defaults.applies(item) else item for item in part]
                elif part is not None:
                    complete[key] = defaults.of(part)
        return complete


_MODE: Final = {"defaultMode": 0o644}
_WITH_FIELD: Final = _Defaults(inner={"fieldRef": _Defaults({"apiVersion": "v1"})})
_FILES: Final = {"items": _WITH_FIELD}
_HANDLER: Final = {"httpGet": _Defaults({"path": "/", "scheme": "HTTP"}), "grpc": _Defaults({"service": ""})}
_HOOK: Final = _Defaults(inner=_HANDLER)
_PROBE: Final = _Defaults(
    {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}, _HANDLER
)
_CONTAINER: Final = _Defaults(
    {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"},
    {
        "ports": _Defaults({"protocol": "TCP"}),
        "env": _Defaults(inner={"valueFrom": _WITH_FIELD}),
        **dict.fromkeys(("livenessProbe", "readinessProbe", "startupProbe"), _PROBE),
        "lifecycle": _Defaults(inner={"postStart": _HOOK, "preStop": _HOOK}),
    },
)
_PROJECTION: Final = {
    "serviceAccountToken": _Defaults({"expirationSeconds": 3600}),
    "downwardAPI": _Defaults(inner=_FILES),
}
_VOLUME: Final = _Defaults(
    inner={
        "secret": _Defaults(_MODE),
        "configMap": _Defaults(_MODE),
        "downwardAPI": _Defaults(_MODE, _FILES),
        "projected": _Defaults(_MODE, {"sources": _Defaults(inner=_PROJECTION)}),
        "hostPath": _Defaults({"type": ""}),
    }
)


def with_container_defaults(container: Mapping[str, Any]) -> Object:
    """Return a normalised container as the API server keeps it: with its defaults."""
    complete = _CONTAINER.of({"imagePullPolicy": _pull_policy(str(container.get("image", ""))), **container})
    resources = complete.pop("resources", None) or {}
    limits = resources.get("limits") or {}
    if limits:
        # The limits are the requests that it does not have.
        resources = {**resources, "requests": {**limits, **(resources.get("requests") or {})}}
    return {**complete, "resources": resources} if resources else complete


def with_volume_defaults(volume: Mapping[str, Any]) -> Object:
    """Return a normalised volume as the API server keeps it: with its defaults."""
    return {**volume, "emptyDir": {}} if set(volume) <= {"name"} else _VOLUME.of(volume)


def _pull_policy(image: str) -> str:
    """Return the pull policy of an image: ``Always`` if its tag may move."""
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") and "@" not in image else "IfNotPresent"

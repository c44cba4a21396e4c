"""Render pods with a revision before it is served: built-in pods, and recently injected ones.

Istio accepts a template if it parses. Here it must also run for some pod: a template that can inject no pod is refused. One that fails only
on some pods, such as a template for pods with a certain container, label or annotation, is served with a warning.

A pod must not keep a new configuration out for good: an error of the pod itself is only a note, a pod that the current revision fails on
too does not count, and a pod is forgotten after ``KEEP`` seconds, when a refused revision is tried again.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from injector.errors import (
    AnnotationError,
    DataError,
    InvalidPodError,
    ManifestError,
    RecentPodError,
    ReviewError,
    TemplateRenderError,
)
from injector.gotemplate.errors import ExecError
from injector.injection.pipeline import inject_pod
from injector.injection.result import OFF, Injected, RequestFacts, Skipped
from injector.istio.behaviours import NEWEST
from injector.istio.config import newer_istio
from injector.kube import admission
from injector.kube.pods import identity_of
from injector.revisions.everypod import fails_for_every_pod
from injector.revisions.remarks import remarks

if TYPE_CHECKING:
    from injector.istio.revision import Revision

MAX_PODS: Final = 4
"""The maximum number of pods of a revision, each of another workload."""

MAX_REVIEW: Final = 64 * 1024
"""The maximum size of a stored review in bytes; with ``MAX_PODS``, a quarter of a megabyte for each revision."""

KEEP: Final = 3600.0
"""Seconds until a pod is forgotten after the last admission of its workload."""

# A name in Kubernetes has at most 253 characters, and a message has two names.
_MAX_TEXT: Final = 600


@dataclass(frozen=True, slots=True)
class RecentPod:
    """One admitted pod: its review as bytes, the pairs of its path, its namespace and owner, and the monotonic time of its admission."""

    review: bytes
    envs: Mapping[str, str]
    namespace: str
    owner: str
    at: float = 0.0

    def __str__(self) -> str:
        return _printable(f"{self.owner} in namespace {self.namespace or 'unknown'}")


class RecentPods:
    """The pods that were injected last, by revision. Only the event loop's thread may use it."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pods: dict[str, OrderedDict[tuple[str, str], RecentPod]] = {}

    def keep(
        self, revision: str, review: bytes, *, pod: Mapping[str, Any], namespace: str, envs: Mapping[str, str]
    ) -> None:
        """Store the review of ``pod``, which ``revision`` injected, in place of an older pod of its workload."""
        if len(review) > MAX_REVIEW:
            return
        owner = _owner(pod)
        recent = self._pods.setdefault(revision, OrderedDict())
        recent[namespace, owner] = RecentPod(review, envs, namespace, owner, self._clock())
        recent.move_to_end((namespace, owner))
        if len(recent) > MAX_PODS:
            recent.popitem(last=False)

    def snapshot(self) -> dict[str, tuple[RecentPod, ...]]:
        """Return the pods of every revision that are not forgotten, the oldest first, as an immutable copy."""
        since = self._clock() - KEEP
        return {
            revision: tuple(pod for pod in recent.values() if pod.at > since) for revision, recent in self._pods.items()
        }

    def forget_others(self, revisions: Collection[str]) -> None:
        """Drop the pods of every revision that is not one of ``revisions``."""
        self._pods = {name: recent for name, recent in self._pods.items() if name in revisions}


def _owner(pod: Mapping[str, Any]) -> str:
    """Return the kind and name of a pod's workload, or of the pod if it has none."""
    try:
        workload = identity_of(pod)
    except (AttributeError, TypeError):  # the owner is malformed, but the pod was admitted
        return "a pod without a name"
    return f"{workload.kind} {workload.name or 'without a name'}"


def _printable(text: str) -> str:
    """Return a text that is safe for a log line, because names come from a request."""
    return "".join(char if char.isprintable() else "?" for char in text[:_MAX_TEXT])


NAMESPACE: Final = "injector-verify"

# Since about Istio 1.10 the label decides, and before that the annotation. Both together work with every minor.
_INJECT: Final = {
    "labels": {"sidecar.istio.io/inject": "true", "app": "verify"},
    "annotations": {"sidecar.istio.io/inject": "true"},
}
_HTTP_PROBE: Final = {"httpGet": {"path": "/ready", "port": "http"}}

BUILT_IN_PODS: Final[dict[str, dict[str, Any]]] = {
    "plain": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "plain", **_INJECT},
        "spec": {"containers": [{"name": "app", "image": "app"}]},
    },
    "probes": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "probes-7f9c-",
            "labels": {**_INJECT["labels"], "pod-template-hash": "7f9c"},
            "annotations": {**_INJECT["annotations"], "prometheus.io/scrape": "true", "prometheus.io/port": "9100"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "probes-7f9c", "uid": "", "controller": True}
            ],
        },
        "spec": {
            "serviceAccountName": "app",
            "securityContext": {"fsGroup": 2000},
            "volumes": [{"name": "data", "emptyDir": {}}],
            "initContainers": [{"name": "prepare", "image": "prepare"}],
            "containers": [
                {
                    "name": "app",
                    "image": "app",
                    "ports": [{"name": "http", "containerPort": 8080}, {"containerPort": 9100}],
                    "readinessProbe": _HTTP_PROBE,
                    "livenessProbe": {"tcpSocket": {"port": 8080}},
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                },
                {"name": "helper", "image": "helper", "ports": [{"containerPort": 9200}]},
            ],
        },
    },
}
"""Pods that together reach the branches of Istio's templates: ports, probes, init containers, owner, security context."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The remarks about a revision that can be served.

    ``failed`` has the errors on built-in pods by pod, as texts: other pods may be injected. ``notes`` are all other remarks.
    """

    notes: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)


def verify(revision: Revision) -> Verified:
    """Inject the built-in pods.

    Returns:
        The pods on which the templates fail, while other pods may be injected. As notes: that the revision's Istio is newer than any
        supported one, why pods were not injected although they ask for a sidecar, and what ``remarks`` finds.

    Raises:
        DataError: the templates fail on every pod.
    """
    results = {name: _try_built_in(revision, pod) for name, pod in BUILT_IN_PODS.items()}
    lacking = [result for result in results.values() if isinstance(result, InvalidPodError) and result.lacks_volumes]
    errors = {
        name: result for name, result in results.items() if isinstance(result, DataError) and result not in lacking
    }
    if len(errors) == len(results) and fails_for_every_pod(revision, tuple(errors.values())):
        raise next(iter(errors.values()))
    newer = newer_istio(revision.values)
    stage = " in development" if revision.minor > NEWEST else ""
    notes = [f"{newer}: pods are injected as by Istio {revision.istio_version}{stage}"] if newer else []
    notes += [f"{result.reason}: {result.detail}" for result in results.values() if isinstance(result, Skipped)]
    notes += [f"other pods must have volumes that built-in pods lack: {error}" for error in lacking]
    notes += remarks(revision, (result for result in results.values() if isinstance(result, Injected)))
    return Verified(tuple(dict.fromkeys(notes)), {name: str(error) for name, error in errors.items()})


def _try_built_in(revision: Revision, pod: dict[str, Any]) -> Injected | Skipped | DataError:
    """Inject a built-in pod, or return why it is refused."""
    try:
        return inject_pod(revision, pod, RequestFacts(namespace=NAMESPACE))
    except DataError as error:
        return error


def verify_recent(revision: Revision, served: Revision, pods: Sequence[RecentPod]) -> tuple[str, ...]:
    """Inject ``pods``, which ``served`` injected, with the revision that will replace it.

    Returns:
        Notes about pods that it would not inject, or would refuse because of their content. This may be intended: a newer Istio
        validates more annotations.

    Raises:
        RecentPodError: its template fails on a pod that ``served`` injects. The text names the pod but does not quote it.
    """
    notes = []
    for pod in pods:
        try:
            result = _try_recent(revision, pod)
        except _POD_ERRORS as error:
            if _injects(served, pod):
                notes.append(f"it refuses the pod of {pod}, which was injected before: {type(error).__name__}")
            continue
        except Exception as error:  # noqa: BLE001 -- any error would fail the pod
            if _injects(served, pod):
                raise _refusal(revision, pod, error) from None
            continue
        if isinstance(result, Skipped) and _injects(served, pod):
            notes.append(f"it leaves the pod of {pod} alone, which was injected before: {result.reason}")
    return tuple(notes)


_POD_ERRORS: Final = (AnnotationError, ManifestError, ReviewError)
"""Errors in the pod itself."""


def _try_recent(revision: Revision, pod: RecentPod) -> Injected | Skipped:
    review = admission.decode(pod.review)
    # Without the guard: a revision must not be refused because of the content of a pod.
    facts = RequestFacts(review.namespace, pod.envs, revision.namespaces.get(review.namespace), OFF)
    return inject_pod(revision, review.object, facts)


def _injects(revision: Revision, pod: RecentPod) -> bool:
    try:
        return isinstance(_try_recent(revision, pod), Injected)
    except Exception:  # noqa: BLE001 -- requests for such pods already fail
        return False


def _refusal(revision: Revision, pod: RecentPod, error: Exception) -> RecentPodError:
    """Return the error for a refused revision, with the cause's class and place in the template; its text may quote the pod."""
    at = ""
    if isinstance(error, ExecError):
        at = f" at line {error.line} of template {error.template}"
    elif isinstance(error, TemplateRenderError | InvalidPodError) and error.place:
        at = f" at {error.place}"
    return RecentPodError(
        f"it fails on the pod of {pod}, which the current revision injects ({type(error).__name__}{at})",
        where=revision.origin,
        hint=f"correct the template or its values, or delete the workload; pods are forgotten after {KEEP / 60:g} min",
    )

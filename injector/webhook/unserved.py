"""The webhook for names that nobody serves: it is asked about every pod whose labels name a revision or tag.

A pod whose name is served is none of its business: that name's own webhook injects it. Of the others it says so, or
refuses them. Which name counts is in the path, as the selectors of the configuration have it (``istio.webhooks``): the
pod's, which the review has, or the namespace's, which it has not and which is known where namespaces are watched
(``revisions.unservednames``). Whatever cannot be judged is let through, and counted: above all everything before revisions
and tags are read, when nothing is served yet.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from injector.injection.steps.status import STATUS
from injector.istio.servednames import MAX_VALUE, listed, meant
from injector.istio.webhooks import REVISION_LABEL, UNSERVED_ACTIONS, UNSERVED_KINDS
from injector.kube import admission
from injector.webhook.lifecycle import Phase
from injector.webhook.reading import JSON, Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.metrics import Metrics
    from injector.revisions.registry import Registry
    from injector.revisions.unservednames import UnservedNames
    from injector.webhook.lifecycle import Lifecycle
    from injector.webhook.reading import Reader

_log = logging.getLogger(__name__)

ROUTE: Final = f"/unserved/{{action:{'|'.join(UNSERVED_ACTIONS)}}}/{{kind:{'|'.join(UNSERVED_KINDS)}}}"
POD: Final = "pod"
DENY: Final = "deny"

SERVED: Final = "served"
WARNED: Final = "warned"
DENIED: Final = "denied"
EXEMPT: Final = "exempt"
UNWATCHED: Final = "unwatched"
UNKNOWN: Final = "unknown"
FAILED: Final = "failed"
"""How a review ends: the name is served; it is not, and that is said, or the pod is refused; no name brings the pod a
sidecar, or it has one; the name is the namespace's, and no namespaces are watched; the name is not known, or not yet whether
it is served; or the request is no review."""

# A refusal may list more of the names that are served than a warning, which Kubernetes cuts.
_LONGEST: Final = 1024
_LEAST: Final = len("1000 names")
_FORBIDDEN: Final = web.HTTPForbidden.status_code


@dataclass(frozen=True, slots=True)
class UnservedHandler:
    """Answers ``POST /unserved/<action>/<kind>``.

    Args:
        reader: what reads requests, under the limits of all that this port is sent.
        registry: what is served here.
        metrics: where reviews are counted; as requests of the injection they do not count.
        lifecycle: how far the server is.
        names: the watch of namespaces, where there is one.
        elsewhere: names that another injector serves.
    """

    reader: Reader
    registry: Registry
    metrics: Metrics
    lifecycle: Lifecycle
    names: UnservedNames | None = None
    elsewhere: frozenset[str] = frozenset()

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one review, and count it."""
        action, kind = request.match_info["action"], request.match_info["kind"]
        try:
            async with self.reader.body(request) as body:
                review = _review(body)
        except Refusal as refusal:
            self.metrics.unserved_review(kind, FAILED)
            return self.reader.refused(refusal)
        response, outcome = self._answer(review, action, kind)
        self.metrics.unserved_review(kind, outcome)
        return self.reader.closing(web.Response(body=response.encode(review), content_type=JSON))

    def _answer(self, review: admission.Request, action: str, kind: str) -> tuple[admission.Response, str]:
        name, served = self._name(review, kind), self.registry.snapshot.names | self.elsewhere
        passed = self._passed(review, kind, name, served)
        if name is None or passed:
            return admission.allowed(), passed
        whose = "the pod" if kind == POD else f"namespace {review.namespace[:MAX_VALUE]}"
        if action == DENY:
            _log.warning("denied: uid=%.64r nobody serves %.63r, the name of %.80r", review.uid, name, whose)
            return admission.errored(message(name, whose, served, longest=_LONGEST), code=_FORBIDDEN), DENIED
        warning = message(name, whose, served, longest=admission.MAX_WARNING)
        return admission.allowed(warnings=(warning,)), WARNED

    def _passed(self, review: admission.Request, kind: str, name: str | None, served: frozenset[str]) -> str:
        """Return the outcome of a pod that is let through; nothing where its name is served by nobody."""
        if kind != POD and self.names is None:
            return UNWATCHED
        if name is None or self.lifecycle.phase is Phase.STARTING or not self.registry.snapshot.revisions:
            return UNKNOWN
        if name in served:
            return SERVED
        return EXEMPT if _needs_none(review.object) else ""

    def _name(self, review: admission.Request, kind: str) -> str | None:
        if kind == POD:
            return _label(review.object)
        return None if self.names is None else self.names.named_by(review.namespace)


def message(name: str, whose: str, served: frozenset[str], *, longest: int) -> str:
    """Return why a pod gets no sidecar, what to do, and as many of the names that are served as ``longest`` leaves room."""
    what = f"no sidecar: {REVISION_LABEL}={name[:MAX_VALUE]!r} of {whose} is served by nobody"
    todo = "; correct the label or set the tag; served: "
    hint = meant(name, served)
    if len(what) + len(hint) + len(todo) + _LEAST > longest:
        hint = ""
    return f"{what}{hint}{todo}{listed(served, room=longest - len(what) - len(hint) - len(todo))}"


def _review(body: bytes) -> admission.Request:
    """Return the review of a body.

    Raises:
        Refusal: it is none.
    """
    try:
        return admission.decode(body)
    except admission.BrokenReviewError as error:
        raise Refusal(400, "undecodable", error.what) from error


def _label(pod: Mapping[str, Any]) -> str | None:
    name = _mapping(_mapping(pod.get("metadata")).get("labels")).get(REVISION_LABEL)
    return name if isinstance(name, str) else None


def _needs_none(pod: Mapping[str, Any]) -> bool:
    """Tell whether a pod would get no sidecar from anyone, since it uses the host's network, or has one already."""
    has_one = STATUS in _mapping(_mapping(pod.get("metadata")).get("annotations"))
    return has_one or _mapping(pod.get("spec")).get("hostNetwork") is True


def _mapping(found: Any) -> Mapping[str, Any]:
    """Return what should be a mapping; what is sent here may be anything."""
    return found if isinstance(found, dict) else {}

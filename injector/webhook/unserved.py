"""The webhook for unknown names: it warns about, or denies, pods whose labels name an unknown revision or tag.

Pods with a known name are admitted: the webhook of that name injects them. The path says whose label counts, matching the selectors of
the configuration (``istio.webhooks.configurations``): the pod's, which is in the review, or the namespace's, which is known if namespaces
are watched (``revisions.unservednames``). Every other pod is admitted and counted, in particular before the revisions and tags are read.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from injector.hints import did_you_mean, fitting_names
from injector.injection.steps.status import STATUS
from injector.istio.labels import MAX_LABEL_VALUE, REVISION_LABEL
from injector.istio.webhooks.configurations import UNSERVED_ACTIONS, UNSERVED_KINDS
from injector.kube import admission
from injector.kube.objects import mapping_at
from injector.webhook.lifecycle import Phase
from injector.webhook.queue import Refusal
from injector.webhook.reading import JSON, Reader

if TYPE_CHECKING:
    from injector.metrics import Metrics
    from injector.revisions.registry import Registry
    from injector.revisions.unservednames import UnservedNames

_log = logging.getLogger(__name__)

_PATH: Final = re.compile(rf"/unserved/({'|'.join(UNSERVED_ACTIONS)})/({'|'.join(UNSERVED_KINDS)})")
POD: Final = "pod"
DENY: Final = "deny"

SERVED: Final = "served"
WARNED: Final = "warned"
DENIED: Final = "denied"
EXEMPT: Final = "exempt"
UNWATCHED: Final = "unwatched"
UNDECIDED: Final = "unknown"
FAILED: Final = "failed"
"""Outcomes of a review. EXEMPT pods never get a sidecar, or have one. UNWATCHED: namespaces are not watched. UNDECIDED: the name or the
served revisions are not known yet. FAILED requests are not reviews."""

# A denial may list more names than a warning, which Kubernetes cuts.
_MAX_DENIAL: Final = 1024
_MIN_LIST: Final = len("1000 names")
_FORBIDDEN: Final = web.HTTPForbidden.status_code


def unserved_path(path: str) -> tuple[str, str] | None:
    """Return the action and the kind in the path of a request; None if it is another path."""
    match = _PATH.fullmatch(path)
    return (match[1], match[2]) if match is not None else None


@dataclass(frozen=True, slots=True)
class UnservedHandler:
    """Answers ``POST /unserved/<action>/<kind>``, and counts these reviews apart from requests for injection.

    ``names`` is the watch of namespaces, if it is enabled. ``elsewhere`` has names that another injector serves.
    """

    reader: Reader
    registry: Registry
    metrics: Metrics
    names: UnservedNames | None = None
    elsewhere: frozenset[str] = frozenset()

    async def handle(self, request: web.BaseRequest, action: str, kind: str) -> web.Response:
        """Answer one review, and count it. ``unserved_path`` gives the action and the kind."""
        try:
            body = await self.reader.read(request)
            try:
                review = _review(body)
            finally:
                self.reader.release(body)
        except Refusal as refusal:
            self.metrics.unserved_reviews.labels(kind, FAILED).inc()
            return self.reader.refuse(refusal)
        response, outcome = self._answer(review, action, kind)
        self.metrics.unserved_reviews.labels(kind, outcome).inc()
        return self.reader.close_unless_serving(web.Response(body=response.encode(review), content_type=JSON))

    def _answer(self, review: admission.Request, action: str, kind: str) -> tuple[admission.Response, str]:
        name, served = self._name(review, kind), self.registry.snapshot.names | self.elsewhere
        admitted = self._outcome_without_warning(review, kind, name, served)
        if name is None or admitted:
            return admission.allowed(), admitted
        whose = "the pod" if kind == POD else f"namespace {review.namespace[:MAX_LABEL_VALUE]}"
        if action == DENY:
            _log.warning("denied: uid=%.64r unknown revision or tag %.63r of %.80r", review.uid, name, whose)
            return admission.errored(message(name, whose, served, longest=_MAX_DENIAL), code=_FORBIDDEN), DENIED
        warning = message(name, whose, served, longest=admission.MAX_WARNING)
        return admission.allowed(warnings=(warning,)), WARNED

    def _outcome_without_warning(
        self, review: admission.Request, kind: str, name: str | None, served: frozenset[str]
    ) -> str:
        """Return the outcome of a pod that is admitted without a warning; empty if its name is unknown."""
        if kind != POD and self.names is None:
            return UNWATCHED
        if name is None or self.reader.lifecycle.phase is Phase.STARTING or not self.registry.snapshot.revisions:
            return UNDECIDED
        if name in served:
            return SERVED
        return EXEMPT if _is_exempt(review.object) else ""

    def _name(self, review: admission.Request, kind: str) -> str | None:
        if kind == POD:
            return _label(review.object)
        return None if self.names is None else self.names.named_by(review.namespace)


def message(name: str, whose: str, served: frozenset[str], *, longest: int) -> str:
    """Return why a pod gets no sidecar, what to do, and as many of the served names as fit into ``longest`` letters."""
    what = f"no sidecar: {REVISION_LABEL}={name[:MAX_LABEL_VALUE]!r} of {whose} is not a served revision or tag"
    todo = "; correct the label or set the tag; served: "
    hint = did_you_mean(name, served)
    if len(what) + len(hint) + len(todo) + _MIN_LIST > longest:
        hint = ""
    return f"{what}{hint}{todo}{fitting_names(served, room=longest - len(what) - len(hint) - len(todo))}"


def _review(body: bytes) -> admission.Request:
    """Decode a review and its object. Raises Refusal if the body is not a review."""
    try:
        review = admission.decode(body)
        _ = review.object
    except admission.BrokenReviewError as error:
        raise Refusal(400, "undecodable", error.what) from error
    return review


def _label(pod: Mapping[str, Any]) -> str | None:
    name = mapping_at(pod, "metadata", "labels").get(REVISION_LABEL)
    return name if isinstance(name, str) else None


def _is_exempt(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod never gets a sidecar since it uses the host's network, or has one already."""
    has_sidecar = STATUS in mapping_at(pod, "metadata", "annotations")
    return has_sidecar or mapping_at(pod, "spec").get("hostNetwork") is True

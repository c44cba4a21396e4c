"""One request, from bytes to bytes: read, decode, resolve the path to a revision, inject, answer, count.

Whatever happens, the answer carries the uid of the review as soon as that is known, and the request is counted once.
What a pod holds is never logged: a log line has names, the reason and the place of an error; its text goes to the API
server alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from aiohttp import web

from injector.errors import (
    AnnotationError,
    ConfigError,
    InjectorError,
    ManifestError,
    OverlayError,
    ReviewError,
    TemplateRenderError,
    UnknownRevisionError,
    whereabouts,
)
from injector.injection.pipeline import inject_pod
from injector.injection.planner import Planner
from injector.injection.result import Planned, RequestFacts, Skipped
from injector.kube import admission
from injector.metrics import Answered, Outcome
from injector.revisions.weights import sampled, workload_key
from injector.webhook.history import History
from injector.webhook.path import parse_path
from injector.webhook.repeats import Made, Repeats, masked
from injector.webhook.shadow import Admission
from injector.webhook.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.injection.result import Injected
    from injector.metrics import Metrics
    from injector.revisions.recent import RecentPods
    from injector.revisions.registry import Registry, Resolved, Snapshot
    from injector.webhook.explained import Explained
    from injector.webhook.lifecycle import Lifecycle
    from injector.webhook.repeats import Masked
    from injector.webhook.shadow import Outcome as Injection
    from injector.webhook.shadow import Shadows

_log = logging.getLogger(__name__)

JSON: Final = "application/json"
# The API server waits 10 s by default, and sends a body at once: who takes longer is no API server.
READ_TIMEOUT: Final = 10.0
RETRY_AFTER: Final = "1"

FAILURE_REASONS: Final[tuple[tuple[type[InjectorError], str], ...]] = (
    (UnknownRevisionError, "unknown_revision"),
    (ReviewError, "review"),
    (AnnotationError, "annotation"),
    (TemplateRenderError, "template"),
    (OverlayError, "overlay"),
    (ConfigError, "config"),
    (ManifestError, "pod"),
)
"""The ``reason`` of a failure, for metrics and logs; the first class that fits decides."""
OTHER_REASON: Final = "other"
INTERNAL_REASON: Final = "internal"


class Refusal(Exception):  # noqa: N818 -- not an error of the injector: an answer to a request that is no review
    """A request that is answered by its HTTP status alone, since it has no uid."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back, what is counted, and what a shadow is to look at afterwards."""

    body: bytes
    outcome: Outcome
    reason: str = ""
    resolved: Resolved | None = None
    shadowed: Admission | None = None


class InjectHandler:
    """Answers ``POST /inject``."""

    def __init__(
        self,
        registry: Registry,
        metrics: Metrics,
        lifecycle: Lifecycle,
        *,
        shadows: Shadows | None = None,
        recent: RecentPods | None = None,
        history: History | None = None,
    ) -> None:
        self._registry = registry
        self._metrics = metrics
        self._lifecycle = lifecycle
        self._shadows = shadows
        self._recent = recent
        self._history = history or History()
        self._planner = Planner()
        self._repeats = Repeats()
        self.explained: Explained | None = None
        """What puts the decision into answers, where that is wanted."""

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one review, and count it."""
        watch = Stopwatch(time.perf_counter)
        try:
            body = await self.read(request)
            watch.lap("read")
            answer = self.answer(request.rel_url.raw_path, body, watch)
        except Refusal as refusal:
            self._metrics.answered(Answered(Outcome.FAILURE, watch.total(), refusal.reason))
            return self.closing(refused(refusal))
        self._metrics.answered(_counted(answer, watch))
        response = self.closing(web.Response(body=answer.body, content_type=JSON))
        if answer.shadowed is not None and self._shadows is not None:
            await _sent(response, request)
            self._shadows.offer(answer.shadowed)
        if self._planner.eager:
            await _sent(response, request)
            self._learn()
        return response

    def _learn(self) -> None:
        """Make a plan for the requests to come; whatever goes wrong with that, this one is answered."""
        try:
            self._planner.learn()
        except Exception as error:  # noqa: BLE001 -- the edge of a task: pods go on to be injected without the plan
            _log.error("no plan: %s", whereabouts(error))
            self._metrics.unplanned()

    def answer(self, raw_path: str, body: bytes, watch: Stopwatch) -> Answer:
        """Return the answer to the review in ``body``.

        Raises:
            Refusal: the body is no review that could be answered.
        """
        snapshot = self._registry.snapshot
        wanted = masked(raw_path, body)
        repeat = None if wanted is None else self._repeats.find(wanted, snapshot)
        if wanted is not None and repeat is not None:
            by = repeat.resolved
            self._history.again(by.tag or "", by.revision.name, repeat.workload)
            return Answer(repeat.body(wanted.uid), Outcome.SUCCESS, resolved=by)
        return self._reviewed(raw_path, body, watch, snapshot, wanted)

    def _reviewed(
        self, raw_path: str, body: bytes, watch: Stopwatch, snapshot: Snapshot, wanted: Masked | None
    ) -> Answer:
        """Answer a review that is none that came before.

        Raises:
            Refusal: the body is no review that could be answered.
        """
        try:
            review = admission.decode(body)
        except admission.BrokenReviewError as error:
            if not error.broken.uid:
                raise Refusal(400, "undecodable", error.what) from error
            return _failed(error.broken, error, None, self.explained)
        watch.lap("decode")
        resolved: Resolved | None = None
        envs: Mapping[str, str] = {}
        try:
            path = parse_path(raw_path)
            envs = path.envs
            workload = partial(workload_key, review.object, review.namespace)
            resolved = snapshot.resolve(path.name, workload)
            seen = self._history.seen(resolved.tag or "", resolved.revision.name, review.namespace, review.object)
            facts = RequestFacts(review.namespace, envs, resolved.revision.namespaces.get(review.namespace))
            inject = self._planner.inject if resolved.candidate is None else inject_pod
            result = inject(resolved.revision, review.object, facts)
            watch.lap("inject")
            answer = _answered(review, result, resolved, self.explained)
            watch.lap("encode")
        except Exception as error:  # noqa: BLE001 -- the request edge: a fault of ours is answered and counted too
            failed = _failed(review, error, resolved, self.explained)
            return replace(failed, shadowed=_shadowed(review, envs, resolved, error, len(body)))
        if self._recent is not None and not isinstance(result, Skipped):
            name = resolved.revision.name
            self._recent.keep(name, body, pod=review.object, namespace=review.namespace, envs=envs)
        if isinstance(result, Planned):
            if wanted is not None:
                self._repeats.keep(wanted, review, result.patch, Made(answer.body, resolved, seen))
            return answer
        shadowed = _shadowed(review, envs, resolved, result, len(body))
        return answer if shadowed is None else replace(answer, shadowed=shadowed)

    async def read(self, request: web.Request) -> bytes:
        """Return the body of a request that can be a review.

        Raises:
            Refusal: it cannot.
        """
        if not self._lifecycle.answers:
            raise Refusal(503, "draining", "this injector is shutting down: try again, another one answers")
        if request.content_type != JSON or "Content-Encoding" in request.headers:
            raise Refusal(415, "content_type", f"the content type must be {JSON}, without an encoding")
        limit = request.client_max_size
        if request.content_length is not None and request.content_length > limit:
            raise Refusal(413, "too_large", f"the body is larger than {limit} bytes")
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                body = await request.read()
        except web.HTTPRequestEntityTooLarge as error:
            raise Refusal(413, "too_large", f"the body is larger than {limit} bytes") from error
        except TimeoutError as error:
            raise Refusal(408, "timeout", f"the body did not come within {READ_TIMEOUT:g} s") from error
        if not body:
            raise Refusal(400, "empty_body", "no body found: send an AdmissionReview")
        return body

    def closing(self, response: web.Response) -> web.Response:
        """Return a response that ends its connection where others are to be used from now on."""
        if not self._lifecycle.keeps_connections:
            response.force_close()
        return response


def _answered(
    review: admission.Request, result: Injected | Planned | Skipped, resolved: Resolved, explained: Explained | None
) -> Answer:
    if isinstance(result, Skipped):
        response = admission.allowed(review, warnings=result.warnings)
        if explained is not None:
            response = explained.skipped(response, result, resolved)
        return Answer(response.encode(), Outcome.SKIP, result.reason, resolved)
    response = admission.patched(review, result.patch, warnings=result.warnings)
    if explained is not None:
        response = explained.injected(response, result, resolved)
    return Answer(response.encode(), Outcome.SUCCESS, resolved=resolved)


def _shadowed(
    review: admission.Request, envs: Mapping[str, str], resolved: Resolved | None, outcome: Injection, size: int
) -> Admission | None:
    """Return what the shadow of the tag that was asked for is to try, if it has one and this request is of its sample."""
    if resolved is None or resolved.candidate is None or resolved.tag is None:
        return None
    candidate = resolved.candidate.revision
    if candidate is resolved.revision or not sampled(review.uid, resolved.candidate.sample):
        return None
    facts = RequestFacts(review.namespace, envs, candidate.namespaces.get(review.namespace))
    return Admission(resolved.tag, resolved.revision, candidate, review.object, facts, outcome, size)


async def _sent(response: web.Response, request: web.Request) -> None:
    """Send a response now, not when the handler returns."""
    # Whose connection is gone: aiohttp finds out again, and ends it, when it gets the response.
    with suppress(ConnectionError):
        await response.prepare(request)
        await response.write_eof()


def _failed(
    review: admission.Request | admission.Broken,
    error: Exception,
    resolved: Resolved | None,
    explained: Explained | None,
) -> Answer:
    if isinstance(error, InjectorError):
        reason = reason_of(error)
        message = str(error)
        _log.warning(
            "denied: uid=%.64r revision=%s reason=%s at=%.200r", review.uid, _name(resolved), reason, error.where
        )
    else:
        reason = INTERNAL_REASON
        message = f"internal error ({type(error).__name__}); the injector's log has the uid {review.uid}"
        _log.error("failed: uid=%.64r revision=%s %s", review.uid, _name(resolved), whereabouts(error))
    response = admission.errored(review, message)
    if explained is not None:
        response = explained.refused(response, reason, resolved)
    return Answer(response.encode(), Outcome.FAILURE, reason, resolved)


def reason_of(error: InjectorError) -> str:
    """Return the stable word for what kind of error it is."""
    return next((reason for kind, reason in FAILURE_REASONS if isinstance(error, kind)), OTHER_REASON)


def _name(resolved: Resolved | None) -> str:
    return "unknown" if resolved is None else resolved.revision.name


def refused(refusal: Refusal) -> web.Response:
    """Return the response to a request that is no review."""
    response = web.Response(text=refusal.message, status=refusal.status)
    if refusal.status == web.HTTPServiceUnavailable.status_code:
        response.headers["Retry-After"] = RETRY_AFTER
    if refusal.status in (web.HTTPRequestEntityTooLarge.status_code, web.HTTPRequestTimeout.status_code):
        response.force_close()
    return response


def _counted(answer: Answer, watch: Stopwatch) -> Answered:
    if answer.resolved is None:
        return Answered(answer.outcome, watch.total(), answer.reason)
    revision, tag = answer.resolved.revision.name, answer.resolved.tag or ""
    return Answered(answer.outcome, watch.total(), answer.reason, revision, tag)

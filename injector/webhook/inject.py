"""One request, from bytes to bytes: read, decode, resolve the path to a revision, inject, answer, count.

Whatever happens, the answer carries the uid of the review as soon as that is known, and the request is counted once.
What a pod holds is never logged: a log line has names, the reason and the place of an error; its text goes to the API
server alone.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
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
from injector.injection.result import Injected, RequestFacts
from injector.kube import admission
from injector.metrics import Answered, Outcome
from injector.revisions.weights import sampled, workload_key
from injector.webhook.admittance import DEADLINE, OVERLOAD, Admittance
from injector.webhook.body import Body, NoRoomError, TooLargeError
from injector.webhook.deadline import timeout_of
from injector.webhook.decisions import FAULT, Decision, Decisions
from injector.webhook.path import parse_path
from injector.webhook.shadow import Admission
from injector.webhook.stopwatch import TOTAL, Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from injector.injection.result import Skipped
    from injector.metrics import Metrics
    from injector.revisions.recent import RecentPods
    from injector.revisions.registry import Registry, Resolved
    from injector.webhook.lifecycle import Lifecycle
    from injector.webhook.shadow import Outcome as Injection
    from injector.webhook.shadow import Shadows

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

TURNED_AWAY: Final[Mapping[str, tuple[int, str]]] = {
    OVERLOAD: (429, "too many requests wait here: try again"),
    DEADLINE: (503, "too many requests wait here to answer this one in its time: try again"),
}
"""What is told to those who should not wait, by the reason."""


class Refusal(Exception):  # noqa: N818 -- not an error of the injector: an answer to a request that is no review
    """A request that is answered by its HTTP status alone, since it has no uid; ``again`` says that a retry may help."""

    def __init__(self, status: int, reason: str, message: str, *, again: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.again = again


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back, what is counted and logged, and what a shadow is to look at afterwards."""

    body: bytes
    outcome: Outcome
    reason: str = ""
    resolved: Resolved | None = None
    shadowed: Admission | None = None
    review: admission.Request | admission.Broken | None = None
    where: str = ""


@dataclass(frozen=True, slots=True)
class Desk:
    """What stands between a connection and an answer: the queue, the log of decisions, and the clock of both."""

    admittance: Admittance = field(default_factory=Admittance)
    decisions: Decisions = field(default_factory=Decisions)
    clock: Callable[[], float] = time.perf_counter


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
        desk: Desk | None = None,
    ) -> None:
        self._registry = registry
        self._metrics = metrics
        self._lifecycle = lifecycle
        self._shadows = shadows
        self._recent = recent
        desk = desk or Desk()
        self._admittance, self._decisions, self._clock = desk.admittance, desk.decisions, desk.clock

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one review, and count it."""
        watch = Stopwatch(self._clock)
        try:
            answer = await self._answer_in_turn(request, watch)
        except Refusal as refusal:
            self._metrics.answered(Answered(Outcome.FAILURE, watch.total(), refusal.reason))
            self._decisions.turned_away(refusal.reason, refusal.status)
            return self._closing(_refused(refusal))
        counted = _counted(answer, watch)
        self._metrics.answered(counted)
        if answer.review is not None and self._decisions.wants(answer.outcome, answer.reason):
            self._decisions.tell(_decision(answer, answer.review), counted.seconds[TOTAL])
        response = self._closing(web.Response(body=answer.body, content_type=JSON))
        if answer.shadowed is not None and self._shadows is not None:
            await _sent(response, request)
            self._shadows.offer(answer.shadowed)
        return response

    async def _answer_in_turn(self, request: web.Request, watch: Stopwatch) -> Answer:
        """Read a review, wait for its turn and answer it, as long as its caller waits.

        Raises:
            Refusal: it could not be read, or should not wait, or its time is up.
        """
        due = self._clock() + timeout_of(request.rel_url.raw_query_string)
        self._check(request)
        with Body(request.content, self._admittance) as held:
            body = await self._read(held, request.client_max_size)
            watch.lap("read")
            if reason := self._admittance.refusal(due - self._clock()):
                raise _turned_away(reason)
            await self._admittance.turn()
            watch.lap("wait")
            began = self._clock()
            if began >= due:
                raise Refusal(503, DEADLINE, "the time that the caller gave is up")
            answer = self.answer(request.rel_url.raw_path, body, watch)
            self._admittance.took(self._clock() - began)
            return answer

    def answer(self, raw_path: str, body: bytes, watch: Stopwatch) -> Answer:
        """Return the answer to the review in ``body``.

        Raises:
            Refusal: the body is no review that could be answered.
        """
        try:
            review = admission.decode(body)
        except admission.BrokenReviewError as error:
            if not error.broken.uid:
                raise Refusal(400, "undecodable", error.what) from error
            return _failed(error.broken, error, None)
        watch.lap("decode")
        resolved: Resolved | None = None
        envs: Mapping[str, str] = {}
        try:
            path = parse_path(raw_path)
            envs = path.envs
            workload = partial(workload_key, review.object, review.namespace)
            resolved = self._registry.snapshot.resolve(path.name, workload)
            facts = RequestFacts(review.namespace, envs, resolved.revision.namespaces.get(review.namespace))
            result = inject_pod(resolved.revision, review.object, facts)
            watch.lap("inject")
            answer = _answered(review, result, resolved)
            watch.lap("encode")
        except Exception as error:  # noqa: BLE001 -- the request edge: a fault of ours is answered and counted too
            failed = _failed(review, error, resolved)
            return replace(failed, shadowed=_shadowed(review, envs, resolved, error, len(body)))
        if self._recent is not None and isinstance(result, Injected) and not review.dry_run:
            name = resolved.revision.name
            self._recent.keep(name, body, pod=result.pod, namespace=review.namespace, envs=path.envs)
        shadowed = _shadowed(review, envs, resolved, result, len(body))
        return answer if shadowed is None else replace(answer, shadowed=shadowed)

    def _check(self, request: web.Request) -> None:
        """Look at what comes before the body.

        Raises:
            Refusal: it cannot be a review.
        """
        if not self._lifecycle.answers:
            raise Refusal(503, "draining", "this injector is shutting down: try again, another one answers", again=True)
        if request.content_type != JSON or "Content-Encoding" in request.headers:
            raise Refusal(415, "content_type", f"the content type must be {JSON}, without an encoding")
        if request.content_length is not None and request.content_length > request.client_max_size:
            raise _too_large(request.client_max_size)

    @staticmethod
    async def _read(held: Body, limit: int) -> bytes:
        """Return the body of a request that can be a review.

        Raises:
            Refusal: it cannot.
        """
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                body = await held.read(limit)
        except TooLargeError as error:
            raise _too_large(limit) from error
        except NoRoomError as error:
            raise _turned_away(OVERLOAD) from error
        except ConnectionError as error:
            raise Refusal(400, "disconnected", "the caller is gone") from error
        except web.RequestPayloadError as error:
            raise Refusal(400, "undecodable", "the body is not sent as HTTP has it") from error
        except TimeoutError as error:
            raise Refusal(408, "timeout", f"the body did not come within {READ_TIMEOUT:g} s") from error
        if not body:
            raise Refusal(400, "empty_body", "no body found: send an AdmissionReview")
        return body

    def _closing(self, response: web.Response) -> web.Response:
        if not self._lifecycle.keeps_connections:
            response.force_close()
        return response


def _too_large(limit: int) -> Refusal:
    return Refusal(413, "too_large", f"the body is larger than {limit} bytes")


def _turned_away(reason: str) -> Refusal:
    status, message = TURNED_AWAY[reason]
    return Refusal(status, reason, message, again=True)


def _answered(review: admission.Request, result: Injected | Skipped, resolved: Resolved) -> Answer:
    if isinstance(result, Injected):
        response = admission.patched(review, result.patch, warnings=result.warnings)
        return Answer(response.encode(), Outcome.SUCCESS, resolved=resolved, review=review)
    response = admission.allowed(review, warnings=result.warnings)
    return Answer(response.encode(), Outcome.SKIP, result.reason, resolved, review=review)


def _shadowed(
    review: admission.Request, envs: Mapping[str, str], resolved: Resolved | None, outcome: Injection, size: int
) -> Admission | None:
    """Return what the shadow of the tag that was asked for is to try, if it has one and this request is of its sample."""
    if resolved is None or resolved.candidate is None or resolved.tag is None or review.dry_run:
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


def _failed(review: admission.Request | admission.Broken, error: Exception, resolved: Resolved | None) -> Answer:
    if isinstance(error, InjectorError):
        reason, message, where = reason_of(error), str(error), error.where
    else:
        reason, where = FAULT, whereabouts(error)
        message = f"internal error ({type(error).__name__}); the injector's log has the uid {review.uid}"
    body = admission.errored(review, message).encode()
    return Answer(body, Outcome.FAILURE, reason, resolved, review=review, where=where)


def reason_of(error: InjectorError) -> str:
    """Return the stable word for what kind of error it is."""
    return next((reason for kind, reason in FAILURE_REASONS if isinstance(error, kind)), OTHER_REASON)


def _refused(refusal: Refusal) -> web.Response:
    response = web.Response(text=refusal.message, status=refusal.status)
    if refusal.again:
        response.headers["Retry-After"] = RETRY_AFTER
    if refusal.status in (web.HTTPRequestEntityTooLarge.status_code, web.HTTPRequestTimeout.status_code):
        response.force_close()
    return response


def _counted(answer: Answer, watch: Stopwatch) -> Answered:
    if answer.resolved is None:
        return Answered(answer.outcome, watch.total(), answer.reason)
    revision, tag = answer.resolved.revision.name, answer.resolved.tag or ""
    return Answered(answer.outcome, watch.total(), answer.reason, revision, tag)


def _decision(answer: Answer, review: admission.Request | admission.Broken) -> Decision:
    if answer.resolved is None:
        return Decision(review, answer.outcome, answer.reason, where=answer.where)
    revision, tag = answer.resolved.revision.name, answer.resolved.tag or ""
    return Decision(review, answer.outcome, answer.reason, revision, tag, answer.where)

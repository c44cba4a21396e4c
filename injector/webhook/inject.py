"""One request, from bytes to bytes: read, decode, look into the answer cache, resolve the path to a revision, inject, respond, count.

Every response has the uid of its review once that is known, and every request is counted exactly once. Nothing that a pod holds is logged:
a log line has names, the reason and the place of an error. The text of an error goes to the API server only.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from aiohttp import web

from injector.errors import (
    AnnotationError,
    BreakOutError,
    ConfigError,
    InjectorError,
    ManifestError,
    OverlayError,
    PausedError,
    ReviewError,
    TemplateRenderError,
    UnknownRevisionError,
    whereabouts,
)
from injector.injection.pipeline import inject_pod
from injector.injection.result import ENFORCE, Injected, RequestFacts, Skipped
from injector.kube import admission
from injector.metrics import REFUSED, TOTAL, WARNED, Answered, Outcome, Stopwatch
from injector.revisions.tags import sampled, workload_key
from injector.webhook.cache import AnswerCache, CachedAnswer, Key
from injector.webhook.decisions import FAULT, Decision, Decisions
from injector.webhook.path import parse_path
from injector.webhook.queue import AdmissionQueue, Rejected
from injector.webhook.reading import JSON, Reader, Refusal, rejection, timeout_of
from injector.webhook.shadow import Admission
from injector.webhook.slow import SlowPool

if TYPE_CHECKING:
    from collections.abc import Callable

    from injector.metrics import Metrics
    from injector.revisions.registry import Registry, Resolved, Snapshot
    from injector.revisions.verify import RecentPods
    from injector.webhook.decisions import Explained
    from injector.webhook.lifecycle import Lifecycle
    from injector.webhook.shadow import Shadows

_log = logging.getLogger(__name__)

GUARD_REASON: Final = "guard"
FAILURE_REASONS: Final[tuple[tuple[type[InjectorError], str], ...]] = (
    (UnknownRevisionError, "unknown_revision"),
    (ReviewError, "review"),
    (AnnotationError, "annotation"),
    (BreakOutError, GUARD_REASON),
    (PausedError, "paused"),
    (TemplateRenderError, "template"),
    (OverlayError, "overlay"),
    (ConfigError, "config"),
    (ManifestError, "pod"),
)
"""The ``reason`` of a failure, for metrics and logs; the first class that matches decides."""
OTHER_REASON: Final = "other"

Result: TypeAlias = Injected | Skipped | Exception
"""How one injection ended."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one review.

    Attributes:
        body: the AdmissionReview that is sent.
        outcome: what is counted.
        reason: why a pod was skipped or refused.
        review: the review, as far as it could be decoded.
        resolved: the revision, and the tag that led to it.
        where: the place of an error, for the log.
        findings: what a guard that only warns found.
        shadowed: the admission that the shadow of the tag is to try as well.
        cached: whether the answer cache had it.
    """

    body: bytes
    outcome: Outcome
    reason: str = ""
    review: admission.Request | admission.Broken | None = None
    resolved: Resolved | None = None
    where: str = ""
    findings: tuple[str, ...] = ()
    shadowed: Admission | None = None
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Injection:
    """A review whose pod has to be injected: the snapshot, the revision that injects, and the facts of the request.

    ``sampled`` says that the shadow of the tag tries the pod too.
    """

    body: bytes
    review: admission.Request
    key: Key
    snapshot: Snapshot
    resolved: Resolved
    facts: RequestFacts
    sampled: bool

    def run(self) -> Injected | Skipped:
        """Inject the pod.

        Raises:
            DataError: as ``inject_pod``.
        """
        return inject_pod(self.resolved.revision, self.review.object, self.facts)


@dataclass(frozen=True, slots=True)
class Desk:
    """The options of the handler, and the queue that it shares with the server.

    Attributes:
        queue: the requests that wait for their turn.
        decisions: the log of decisions.
        clock: returns seconds from any start; deadlines are in its time.
        explained: adds the decision to responses, if that is wanted.
        guard: one of ``result.GUARDS``: what happens to a pod whose values break out of the template.
    """

    queue: AdmissionQueue = field(default_factory=AdmissionQueue)
    decisions: Decisions = field(default_factory=Decisions)
    clock: Callable[[], float] = time.perf_counter
    explained: Explained | None = None
    guard: str = ENFORCE


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
        self._shadows = shadows
        self._recent = recent
        self._desk = desk = desk or Desk()
        self._clock = desk.clock
        self.queue = desk.queue
        self.slow = SlowPool(clock=desk.clock)
        self.cache = AnswerCache()
        self.reader = Reader(lifecycle, desk.queue)

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one request, and count it."""
        watch = Stopwatch(self._clock)
        self.slow.note_request()
        try:
            answer = await self._read_and_answer(request, watch)
        except Refusal as refusal:
            self._metrics.answered(Answered(Outcome.FAILURE, watch.total(), refusal.reason))
            self._desk.decisions.turned_away(refusal.reason, refusal.status)
            return self.reader.refused(refusal)
        self._count(answer, watch)
        if answer.shadowed is not None and self._shadows is not None:
            # In the next pass of the event loop, so that the answer is sent first.
            asyncio.get_running_loop().call_soon(self._shadows.offer, answer.shadowed)
        return self.reader.closing(web.Response(body=answer.body, content_type=JSON))

    async def _read_and_answer(self, request: web.Request, watch: Stopwatch) -> Answer:
        """Read the review and answer it before its caller stops waiting.

        Raises:
            Refusal: it could not be read, or it must not wait.
        """
        deadline = self.queue.clock() + timeout_of(request.rel_url.raw_query_string)
        body = await self.reader.read(request)
        try:
            watch.lap("read")
            begun = self._begin(request.rel_url.raw_path, body, watch)
            return begun if isinstance(begun, Answer) else await self._inject(begun, deadline, watch)
        except Rejected as rejected:
            raise rejection(rejected.reason) from None
        finally:
            self.reader.done(body)

    async def _inject(self, injection: Injection, deadline: float, watch: Stopwatch) -> Answer:
        """Inject a pod when it is its turn: on the event loop, or in the worker thread if it is predicted to be slow.

        Raises:
            Rejected: the queue is full, or the deadline cannot be met.
        """
        revision, namespace, size = injection.resolved.revision, injection.review.namespace, len(injection.body)
        result: Result
        try:
            if self.slow.should_offload(revision, namespace, size):
                result = await self.slow.run_in_thread(revision, namespace, size, deadline, injection.run)
                return self._finish(injection, result, watch)
            async with self.queue.turn(namespace, size, deadline):
                watch.lap("wait")
                # An equal request may have been answered while this one waited.
                if (answer := self._cached(injection.snapshot, injection.key, injection.review)) is not None:
                    return answer
                return self._finish(injection, self._run_inline(injection), watch)
        except Rejected:
            raise
        except Exception as error:  # noqa: BLE001 -- the edge of the request: internal errors are answered and counted too
            return self._finish(injection, error, watch)

    def _run_inline(self, injection: Injection) -> Result:
        try:
            return self.slow.run_inline(injection.resolved.revision, injection.review.namespace, injection.run)
        except Exception as error:  # noqa: BLE001 -- the edge of the request: internal errors are answered and counted too
            return error

    def answer(self, raw_path: str, body: bytes, watch: Stopwatch) -> Answer:
        """Return the answer to the review ``body``, sent to ``raw_path``, without waiting for a turn.

        Raises:
            Refusal: the body is not a review that could be answered.
        """
        begun = self._begin(raw_path, body, watch)
        return begun if isinstance(begun, Answer) else self._finish(begun, self._run_inline(begun), watch)

    def _begin(self, raw_path: str, body: bytes, watch: Stopwatch) -> Answer | Injection:
        """Decode a review; return the injection it needs, or the answer if it needs none.

        Raises:
            Refusal: the body is not a review that could be answered.
        """
        try:
            review = admission.decode(body)
        except admission.BrokenReviewError as error:
            if not error.broken.uid:
                raise Refusal(400, "undecodable", error.what) from error
            return self._failed(error.broken, error, None)
        watch.lap("decode")
        snapshot, key = self._registry.snapshot, Key.of(raw_path, review)
        if (answer := self._cached(snapshot, key, review)) is not None:
            return answer
        resolved: Resolved | None = None
        try:
            path = parse_path(raw_path)
            resolved = snapshot.resolve(path.name, partial(workload_key, review.object, review.namespace))
        except Exception as error:  # noqa: BLE001 -- the edge of the request: internal errors are answered and counted too
            return self._failed(review, error, resolved)
        revision = resolved.revision
        facts = RequestFacts(review.namespace, path.envs, revision.namespaces.get(review.namespace), self._desk.guard)
        return Injection(body, review, key, snapshot, resolved, facts, _is_sampled(review, resolved))

    def _cached(self, snapshot: Snapshot, key: Key, review: admission.Request) -> Answer | None:
        """Return the answer to an equal request; None if there is none, or if the shadow of the tag tries this request."""
        found = self.cache.get(snapshot, key)
        if found is None or _is_sampled(review, found.resolved):
            return None
        body = admission.encode_review(review, found.content_for(review))
        return Answer(body, found.outcome, found.reason, review, found.resolved, cached=True)

    def _finish(self, injection: Injection, result: Result, watch: Stopwatch) -> Answer:
        """Return the answer to a review whose injection ended with ``result``; keep it in the cache if it always holds."""
        review, resolved = injection.review, injection.resolved
        watch.lap("inject")
        if isinstance(result, Exception):
            answer = self._failed(review, result, resolved)
        else:
            try:
                answer = self._succeeded(injection, result)
            except Exception as error:  # noqa: BLE001 -- the edge of the request: internal errors are answered and counted too
                answer = self._failed(review, error, resolved)
            watch.lap("encode")
        if not injection.sampled or resolved.candidate is None or resolved.tag is None:
            return answer
        candidate, facts = resolved.candidate.revision, injection.facts
        facts = replace(facts, namespace_meta=candidate.namespaces.get(review.namespace))
        admitted = Admission(
            resolved.tag, resolved.revision, candidate, review.object, facts, result, len(injection.body)
        )
        return replace(answer, shadowed=admitted)

    def _succeeded(self, injection: Injection, result: Injected | Skipped) -> Answer:
        review, resolved, explained = injection.review, injection.resolved, self._desk.explained
        if isinstance(result, Skipped):
            outcome, reason, findings = Outcome.SKIP, result.reason, tuple[str, ...]()
            response = admission.allowed(warnings=result.warnings)
            if explained is not None:
                response = explained.skipped(response, result, resolved)
        else:
            outcome, reason, findings = Outcome.SUCCESS, "", result.findings
            response = admission.patched(result.patch_json, warnings=result.warnings)
            if explained is not None:
                response = explained.injected(response, result, resolved)
            if self._recent is not None and not review.dry_run:
                name, envs = resolved.revision.name, injection.facts.proxy_envs
                self._recent.keep(name, injection.body, pod=review.object, namespace=review.namespace, envs=envs)
        cached = CachedAnswer.of(response, outcome, reason, resolved)
        # What the guard found is counted for every pod.
        if resolved.revision.hermetic and not findings:
            self.cache.put(injection.snapshot, injection.key, cached)
        for finding in findings[:1]:
            _log.warning("guard: uid=%.64r revision=%s %.500r", review.uid, resolved.revision.name, finding)
        body = admission.encode_review(review, cached.content_for(review))
        return Answer(body, outcome, reason, review, resolved, findings=findings)

    def _failed(
        self, review: admission.Request | admission.Broken, error: Exception, resolved: Resolved | None
    ) -> Answer:
        if isinstance(error, InjectorError):
            reason, message, where = reason_of(error), str(error), error.where
        else:
            reason, where = FAULT, whereabouts(error)
            message = f"internal error ({type(error).__name__}); the injector's log has the uid {review.uid}"
        response = admission.errored(message)
        if self._desk.explained is not None:
            response = self._desk.explained.refused(response, reason, resolved)
        return Answer(response.encode(review), Outcome.FAILURE, reason, review, resolved, where)

    def _count(self, answer: Answer, watch: Stopwatch) -> None:
        """Count an answer, and log the decision if it is wanted."""
        seconds, resolved = watch.total(), answer.resolved
        if resolved is None:
            self._metrics.answered(Answered(answer.outcome, seconds, answer.reason))
        else:
            revision, tag = resolved.revision.name, resolved.tag or ""
            self._metrics.answered(Answered(answer.outcome, seconds, answer.reason, revision, tag))
            if answer.cached:
                self._metrics.cache_hit(revision)
            if answer.findings or answer.reason == GUARD_REASON:
                self._metrics.guarded(revision, WARNED if answer.findings else REFUSED)
        if answer.review is not None and self._desk.decisions.wants(answer.outcome, answer.reason):
            self._desk.decisions.tell(_decision(answer, answer.review), seconds[TOTAL])


def _is_sampled(review: admission.Request, resolved: Resolved) -> bool:
    """Return whether the tag has a shadow and the request is part of its sample."""
    candidate = resolved.candidate
    if candidate is None or candidate.revision is resolved.revision or review.dry_run:
        return False
    return sampled(review.uid, candidate.sample)


def reason_of(error: InjectorError) -> str:
    """Return the stable word for the kind of an error."""
    return next((reason for kind, reason in FAILURE_REASONS if isinstance(error, kind)), OTHER_REASON)


def _decision(answer: Answer, review: admission.Request | admission.Broken) -> Decision:
    if answer.resolved is None:
        return Decision(review, answer.outcome, answer.reason, where=answer.where)
    revision, tag = answer.resolved.revision.name, answer.resolved.tag or ""
    return Decision(review, answer.outcome, answer.reason, revision, tag, answer.where)

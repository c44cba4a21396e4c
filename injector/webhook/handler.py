"""The handler of ``POST /inject``: read, decode, answer from the cache, or resolve the path to a revision and inject.

Every request is counted exactly once, and every response has the uid of its review if that is known. The text of an error goes only to the
API server. Log lines have names, reasons and the place of an error, but nothing else of a pod.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from aiohttp import web

from injector.errors import (
    AnnotationError,
    BreakOutError,
    ConfigError,
    InjectorError,
    InvalidPodError,
    ManifestError,
    OverlayError,
    ReviewError,
    TemplateRenderError,
    UnknownRevisionError,
    whereabouts,
)
from injector.injection.pipeline import ignores_text, inject_pod
from injector.injection.result import Injected, RequestFacts, Skipped
from injector.kube import admission
from injector.metrics import GUARD_REFUSED, GUARD_WARNED, TOTAL, Metrics, Outcome, Stopwatch
from injector.revisions.names import parse_path
from injector.revisions.tags import is_sampled, workload_of_pod
from injector.settings import DEFAULTS, DENY
from injector.webhook.answer import ReviewAnswer
from injector.webhook.cache import AnswerCache, CachedAnswer, CacheKey
from injector.webhook.decisions import FAULT, DecisionNotes, Decisions
from injector.webhook.limits import MAX_BODIES
from injector.webhook.queue import AdmissionQueue, Refusal, Tenant
from injector.webhook.reading import JSON, Bodies, Reader, timeout_of
from injector.webhook.shadow import Admission, InjectionOutcome, Shadows

if TYPE_CHECKING:
    from collections.abc import Callable

    from injector.revisions.registry import Registry, Resolved, Snapshot
    from injector.revisions.verify import RecentPods
    from injector.webhook.lifecycle import Lifecycle
    from injector.webhook.tracing import Tracing

_log = logging.getLogger(__name__)

GUARD_REASON: Final = "guard"
FAILURE_REASONS: Final[tuple[tuple[type[InjectorError], str], ...]] = (
    (UnknownRevisionError, "unknown_revision"),
    (ReviewError, "review"),
    (AnnotationError, "annotation"),
    (BreakOutError, GUARD_REASON),
    (InvalidPodError, "invalid_pod"),
    (TemplateRenderError, "template"),
    (OverlayError, "overlay"),
    (ConfigError, "config"),
    (ManifestError, "pod"),
)
"""The ``reason`` of a failure in metrics and logs. The first class that matches counts."""
OTHER_REASON: Final = "other"
WAIT: Final = "wait"
"""The stage of a request that waits for its turn, or for the other requests of its turn."""


class PendingInjection(NamedTuple):
    """A review whose pod has to be injected. ``sampled`` is whether the shadow of the tag compares it."""

    body: bytes
    review: admission.Request
    key: CacheKey
    snapshot: Snapshot
    resolved: Resolved
    facts: RequestFacts
    sampled: bool

    def run(self, watch: Stopwatch, *, is_second: bool) -> tuple[InjectionOutcome, bool]:
        """Inject the pod. Return the result or the error, see ``inject_pod``, and whether the name of its token volume does not matter.

        That is found out for the second pod of a workload (``AnswerCache.is_second``).
        """
        watch.lap(WAIT)
        revision, name = self.resolved.revision, self.review.token_volume
        try:
            pod = self.review.object
            result = inject_pod(revision, pod, self.facts)
            return result, is_second and ignores_text(revision, pod, self.facts, name)
        except Exception as error:  # noqa: BLE001 -- every error is answered and counted
            return error, False
        finally:
            watch.lap("inject")


@dataclass
class InjectHandler:
    """Answers ``POST /inject``.

    Attributes:
        recent: keeps recent pods, on which new revisions are verified.
        notes: adds the decision to responses; None does not.
        tracing: makes the spans of requests; None does not.
        guard: one of ``result.GUARDS``.
        deny_invalid: deny a pod that the injection makes invalid for the API server.
        max_bodies: maximum bytes of all bodies in memory.
    """

    registry: Registry
    metrics: Metrics
    lifecycle: Lifecycle
    queue: AdmissionQueue = field(default_factory=AdmissionQueue)
    decisions: Decisions = field(default_factory=Decisions)
    recent: RecentPods | None = None
    notes: DecisionNotes | None = None
    tracing: Tracing | None = None
    guard: str = DEFAULTS.guard
    deny_invalid: bool = DEFAULTS.invalid_pods == DENY
    max_bodies: int = MAX_BODIES

    def __post_init__(self) -> None:
        self.cache = AnswerCache(self.registry)
        self.reader = Reader(self.lifecycle, Bodies(self.max_bodies))
        self.shadows = Shadows(self.metrics)

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Answer one request, and count it."""
        watch = Stopwatch()
        deadline = self.queue.clock() + timeout_of(request.rel_url.raw_query_string)
        try:
            body = await self.reader.read(request)
            try:
                watch.lap("read")
                answer = self._begin(request.rel_url.raw_path, body, watch)
                if isinstance(answer, PendingInjection):
                    answer = await self._inject(answer, deadline, watch)
            finally:
                self.reader.release(body)
        except Refusal as refusal:
            self.metrics.requests.count(Outcome.FAILURE, watch.total(), refusal.reason)
            self.decisions.log_refusal(refusal.reason, refusal.status)
            self._trace(request, refusal, watch)
            return self.reader.refuse(refusal)
        self._count(answer, watch)
        self._trace(request, answer, watch)
        if answer.shadowed is not None:
            # In the next pass of the event loop, so that the answer is sent first.
            asyncio.get_running_loop().call_soon(self.shadows.offer, answer.shadowed)
        return self.reader.close_unless_serving(web.Response(body=answer.body, content_type=JSON))

    def answer(self, raw_path: str, body: bytes, watch: Stopwatch) -> ReviewAnswer:
        """Answer a review without the queue. Raises Refusal if ``body`` is not an AdmissionReview."""
        answer = self._begin(raw_path, body, watch)
        if isinstance(answer, ReviewAnswer):
            return answer
        return self._finish(answer, *answer.run(watch, is_second=self._is_second(answer)), watch)

    def _is_second(self, injection: PendingInjection) -> bool:
        return self.cache.is_second(injection.snapshot, injection.key, injection.review.token_volume)

    def _begin(self, raw_path: str, body: bytes, watch: Stopwatch) -> ReviewAnswer | PendingInjection:
        """Return the answer to a review if it is cached or an error, else the injection. Raises Refusal if it is not a review."""
        try:
            review = admission.decode(body)
        except admission.BrokenReviewError as error:
            if not error.broken.uid:
                raise Refusal(400, "undecodable", error.what) from error
            return self._answer_error(error.broken, error, None)
        watch.lap("decode")
        snapshot, key = self.registry.snapshot, CacheKey(raw_path, review.namespace, review.object_json)
        if (answer := self._find_cached(snapshot, key, review)) is not None:
            return answer
        try:
            path = parse_path(raw_path)
            resolved = snapshot.resolve(path.name, lambda: workload_of_pod(review.object, review.namespace))
        except Exception as error:  # noqa: BLE001 -- every error is answered and counted
            answer = self._answer_error(review, error, None)
            return answer._replace(where=answer.where or f"path {raw_path}")
        metadata = resolved.revision.namespaces.get(review.namespace)
        facts = RequestFacts(review.namespace, path.envs, metadata, self.guard, self.deny_invalid)
        return PendingInjection(body, review, key, snapshot, resolved, facts, _is_sampled(review, resolved))

    def _find_cached(self, snapshot: Snapshot, key: CacheKey, review: admission.Request) -> ReviewAnswer | None:
        """Return the cached answer to an equal request; None if it is not cached, or if a shadow compares this request."""
        cached = self.cache.get(snapshot, key, review.token_volume)
        if cached is None or _is_sampled(review, cached.resolved):
            return None
        body = admission.encode_review(review, cached.content_for(review))
        return ReviewAnswer(body, cached.outcome, cached.reason, review, cached.resolved, cached=True)

    async def _inject(self, injection: PendingInjection, deadline: float, watch: Stopwatch) -> ReviewAnswer:
        """Inject a pod in its turn, in a thread. Raises Refusal if the queue rejects it."""
        tenant = Tenant(injection.resolved.revision.name, injection.review.namespace)
        known: list[ReviewAnswer] = []

        def begin() -> Callable[[], tuple[InjectionOutcome, bool]] | None:
            # An equal request may have been answered while this one waited.
            answer = self._find_cached(injection.snapshot, injection.key, injection.review)
            if answer is None:
                return partial(injection.run, watch, is_second=self._is_second(injection))
            known.append(answer)
            return None

        try:
            outcome = await self.queue.run(tenant, len(injection.body), begin, deadline)
            watch.lap(WAIT)
            if outcome is None:
                return known[0]
            return self._finish(injection, *outcome, watch)
        except Refusal:
            raise
        except Exception as error:  # noqa: BLE001 -- every error is answered and counted
            return self._finish(injection, error, False, watch)  # noqa: FBT003 -- a result

    def _finish(
        self,
        injection: PendingInjection,
        result: InjectionOutcome,
        ignores_name: bool,  # noqa: FBT001 -- with the result, what ``PendingInjection.run`` returns
        watch: Stopwatch,
    ) -> ReviewAnswer:
        review, resolved = injection.review, injection.resolved
        if isinstance(result, Exception):
            answer = self._answer_error(review, result, resolved)
        else:
            try:
                answer = self._answer_result(injection, result, ignores_name=ignores_name)
            except Exception as error:  # noqa: BLE001 -- every error is answered and counted
                answer = self._answer_error(review, error, resolved)
            watch.lap("encode")
        if not injection.sampled or resolved.candidate is None or resolved.tag is None:
            return answer
        if isinstance(result, admission.BrokenReviewError):  # there is no pod to compare
            return answer
        candidate = resolved.candidate.revision
        facts = replace(injection.facts, namespace_meta=candidate.namespaces.get(review.namespace))
        size = len(injection.body)
        admitted = Admission(resolved.tag, resolved.revision, candidate, review.object, facts, result, size)
        return answer._replace(shadowed=admitted)

    def _answer_result(
        self, injection: PendingInjection, result: Injected | Skipped, *, ignores_name: bool
    ) -> ReviewAnswer:
        review, resolved, notes = injection.review, injection.resolved, self.notes
        outcome, reason, findings = Outcome.SUCCESS, "", tuple[str, ...]()
        if isinstance(result, Skipped):
            outcome, reason = Outcome.SKIP, result.reason
            response = admission.allowed(warnings=result.warnings)
            if notes is not None:
                response = notes.note_skipped(response, result, resolved)
        else:
            findings = result.findings
            response = admission.patched(result.patch_json, warnings=result.warnings)
            if notes is not None:
                response = notes.note_injected(response, result, resolved)
            if self.recent is not None and not review.dry_run:
                name, envs = resolved.revision.name, injection.facts.proxy_envs
                self.recent.keep(name, injection.body, pod=review.object, namespace=review.namespace, envs=envs)
        cached = CachedAnswer.of(response, outcome, reason, resolved, review.token_volume)
        # Findings of the guard are counted for each pod.
        if resolved.revision.hermetic and not findings:
            self.cache.put(injection.snapshot, injection.key, cached, ignores_name=ignores_name)
        for finding in findings[:1]:
            _log.warning("guard: uid=%.64r revision=%s %.500r", review.uid, resolved.revision.name, finding)
        body = admission.encode_review(review, cached.content_for(review))
        return ReviewAnswer(body, outcome, reason, review, resolved, findings=findings)

    def _answer_error(
        self, review: admission.Request | admission.Broken, error: Exception, resolved: Resolved | None
    ) -> ReviewAnswer:
        if isinstance(error, admission.BrokenReviewError):
            review, resolved = error.broken, None
        if isinstance(error, InjectorError):
            reason, message, where = reason_of(error), str(error), error.place
            if isinstance(error, AnnotationError) and not where:
                where = ", ".join(f"metadata.annotations[{name}]" for name in sorted(error.names))
        else:
            reason, where = FAULT, whereabouts(error)
            message = f"internal error ({type(error).__name__}); the injector's log has the uid {review.uid}"
        response = admission.errored(message)
        if self.notes is not None:
            response = self.notes.note_refused(response, reason, resolved)
        return ReviewAnswer(response.encode(review), Outcome.FAILURE, reason, review, resolved, where)

    def _count(self, answer: ReviewAnswer, watch: Stopwatch) -> None:
        seconds, revision = watch.total(), answer.revision
        if answer.cached:
            self.metrics.requests.cache_hits[revision] += 1
        if answer.findings or answer.reason == GUARD_REASON:
            self.metrics.guard_findings.labels(revision, GUARD_WARNED if answer.findings else GUARD_REFUSED).inc()
        self.metrics.requests.count(answer.outcome, seconds, answer.reason, revision, answer.tag)
        if self.decisions.wants(answer.outcome):
            self.decisions.log(answer, seconds[TOTAL])

    def _trace(self, request: web.BaseRequest, answer: ReviewAnswer | Refusal, watch: Stopwatch) -> None:
        """Make the spans of a request if there is tracing, after its answer is sent."""
        tracing = self.tracing
        if tracing is not None:
            end_time, seconds = time.time_ns(), watch.total()
            asyncio.get_running_loop().call_soon(tracing.record, end_time, request.headers, seconds, answer)


def _is_sampled(review: admission.Request, resolved: Resolved) -> bool:
    """Return whether the tag has a shadow and the request is part of its sample."""
    candidate = resolved.candidate
    if candidate is None or candidate.revision is resolved.revision or review.dry_run:
        return False
    return is_sampled(review.uid, candidate.sample)


def reason_of(error: InjectorError) -> str:
    """Return the ``reason`` of an error in metrics and logs."""
    return next((reason for kind, reason in FAILURE_REASONS if isinstance(error, kind)), OTHER_REASON)

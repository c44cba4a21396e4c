"""One request, from bytes to bytes: read, decode, resolve the path to a revision, inject, answer, count.

Whatever happens, the answer carries the uid of the review as soon as that is known, and the request is counted once.
What a pod holds is never logged: a log line has names, the reason and the place of an error; its text goes to the API
server alone.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

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
from injector.injection.planner import Planner
from injector.injection.result import ENFORCE, Injected, Planned, RequestFacts, Skipped
from injector.kube import admission
from injector.metrics import REFUSED, TOTAL, WARNED, Answered, Outcome
from injector.revisions.weights import sampled, workload_key
from injector.webhook.admittance import DEADLINE, Admittance
from injector.webhook.connections import Connection
from injector.webhook.deadline import timeout_of
from injector.webhook.decisions import FAULT, Decision, Decisions
from injector.webhook.lane import Job, Lane
from injector.webhook.path import parse_path
from injector.webhook.reading import JSON, Reader, Refusal, turned_away
from injector.webhook.repeats import Made, Repeats, masked
from injector.webhook.shadow import Admission
from injector.webhook.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from injector.istio.revision import Revision
    from injector.metrics import Metrics
    from injector.revisions.recent import RecentPods
    from injector.revisions.registry import Registry, Resolved, Snapshot
    from injector.webhook.explained import Explained
    from injector.webhook.lane import Ended
    from injector.webhook.lifecycle import Lifecycle
    from injector.webhook.repeats import Masked
    from injector.webhook.shadow import Outcome as Injection
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
"""The ``reason`` of a failure, for metrics and logs; the first class that fits decides."""
OTHER_REASON: Final = "other"


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back, what is counted and logged, what a shadow is to look at afterwards, and what a guard that only warns found."""

    body: bytes
    outcome: Outcome
    reason: str = ""
    resolved: Resolved | None = None
    shadowed: Admission | None = None
    review: admission.Request | admission.Broken | None = None
    where: str = ""
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Opened:
    """A review whose pod is to be injected: how, by whom, the hash of its workload, and the request without what repeats differ in."""

    job: Job
    resolved: Resolved
    wanted: Masked | None

    @property
    def review(self) -> admission.Request:
        """The review."""
        return self.job.review

    @property
    def envs(self) -> Mapping[str, str]:
        """The pairs of the path."""
        return self.job.facts.proxy_envs


@dataclass(frozen=True, slots=True)
class Desk:
    """What stands around an answer: the queue, the log of decisions, the clock.

    ``explained`` puts the decision into answers, where that is wanted. ``guard`` is one of ``result.GUARDS``: what happens to a pod
    whose values break out of the template.
    """

    admittance: Admittance = field(default_factory=Admittance)
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
        self._admittance, self._decisions, self._clock = desk.admittance, desk.decisions, desk.clock
        self._planner, self._planner_aside = Planner(), Planner()
        self.lane = Lane(partial(self._learn, self._planner_aside), self._clock)
        # A line for each pod that is injected needs the review, which a repeat is spared.
        self._repeats = None if desk.decisions.wants(Outcome.SUCCESS, "") else Repeats()
        self.reader = Reader(lifecycle, desk.admittance)

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one review, and count it."""
        watch = Stopwatch(self._clock)
        try:
            answer = await self._answer_in_turn(request, watch)
        except Refusal as refusal:
            self._metrics.answered(Answered(Outcome.FAILURE, watch.total(), refusal.reason))
            self._decisions.turned_away(refusal.reason, refusal.status)
            return self.reader.refused(refusal)
        counted = _counted(answer, watch)
        self._metrics.answered(counted)
        if answer.resolved is not None and (answer.findings or answer.reason == GUARD_REASON):
            self._metrics.guarded(answer.resolved.revision.name, WARNED if answer.findings else REFUSED)
        if answer.review is not None and self._decisions.wants(answer.outcome, answer.reason):
            self._decisions.tell(_decision(answer, answer.review), counted.seconds[TOTAL])
        response = self.reader.closing(web.Response(body=answer.body, content_type=JSON))
        if answer.shadowed is not None and self._shadows is not None:
            await _sent(response, request)
            self._shadows.offer(answer.shadowed)
        # A plan is made by who injects, which is the lane while it has anything to do.
        if self._planner.eager and not self.lane.waiting():
            await _sent(response, request)
            self._learn(self._planner)
        return response

    async def _answer_in_turn(self, request: web.Request, watch: Stopwatch) -> Answer:
        """Read a review, wait for its turn and answer it, as long as its caller waits.

        Raises:
            Refusal: it could not be read, or should not wait, or its time is up.
        """
        due = self._clock() + timeout_of(request.rel_url.raw_query_string)
        with self.reader.held(request) as held:
            body = await self.reader.read(held, request.client_max_size)
            watch.lap("read")
            newcomer = isinstance(request.protocol, Connection) and request.protocol.newcomer
            if reason := self._admittance.refusal(due - self._clock(), newcomer=newcomer):
                raise turned_away(reason)
            await self._admittance.turn(newcomer=newcomer)
            watch.lap("wait")
            began = self._clock()
            if began >= due:
                raise Refusal(503, DEADLINE, "the time that the caller gave is up")
            answer = self._answered_here(request.rel_url.raw_path, body, watch)
            self._admittance.took(self._clock() - began)
            if isinstance(answer, Opened):
                return self._closed(answer, await self.lane.aside(answer.job, due), watch)
            return answer

    def _learn(self, planner: Planner) -> None:
        """Make a plan for the requests to come, if it is time; whatever goes wrong with that, this one is answered."""
        try:
            if planner.eager:
                planner.learn()
        except Exception as error:  # noqa: BLE001 -- the edge of a task: pods go on to be injected without the plan
            _log.error("no plan: %s", whereabouts(error))
            self._metrics.unplanned()

    def answer(self, raw_path: str, body: bytes, watch: Stopwatch) -> Answer:
        """Return the answer to the review in ``body``, made on the thread that asks.

        Raises:
            Refusal: the body is no review that could be answered.
        """
        opened = self._opened(raw_path, body, watch)
        return opened if isinstance(opened, Answer) else self._closed(opened, self.lane.here(opened.job), watch)

    def _answered_here(self, raw_path: str, body: bytes, watch: Stopwatch) -> Answer | Opened:
        """Answer as ``answer`` does, but for a review that is to be injected aside."""
        opened = self._opened(raw_path, body, watch)
        if isinstance(opened, Answer):
            return opened
        if not self.lane.takes(opened.resolved.revision, len(body)):
            return self._closed(opened, self.lane.here(opened.job), watch)
        inject = inject_pod if _is_tried(opened.review, opened.resolved) else self._planner_aside.inject
        # Other revisions may be served once it comes back, so it is not remembered.
        return replace(opened, job=replace(opened.job, inject=inject), wanted=None)

    def _opened(self, raw_path: str, body: bytes, watch: Stopwatch) -> Answer | Opened:
        """Return what a review asks to be injected, or the answer to one that needs no injection.

        Raises:
            Refusal: the body is no review that could be answered.
        """
        snapshot = self._registry.snapshot
        wanted = masked(raw_path, body)
        repeat = None if wanted is None or self._repeats is None else self._repeats.find(wanted, snapshot)
        if wanted is not None and repeat is not None:
            return Answer(repeat.body(wanted.uid), Outcome.SUCCESS, resolved=repeat.resolved)
        try:
            review = admission.decode(body)
        except admission.BrokenReviewError as error:
            if not error.broken.uid:
                raise Refusal(400, "undecodable", error.what) from error
            return _failed(error.broken, error, None, self._desk.explained)
        watch.lap("decode")
        return self._resolved(raw_path, review, snapshot, wanted, body)

    def _resolved(
        self, raw_path: str, review: admission.Request, snapshot: Snapshot, wanted: Masked | None, body: bytes
    ) -> Answer | Opened:
        """Return by whom a pod is to be injected, or the answer where nobody can."""
        resolved: Resolved | None = None
        envs: Mapping[str, str] = {}
        try:
            path = parse_path(raw_path)
            envs = path.envs
            workload = partial(workload_key, review.object, review.namespace)
            resolved = snapshot.resolve(path.name, workload)
        except Exception as error:  # noqa: BLE001 -- the request edge: a fault of ours is answered and counted too
            failed = _failed(review, error, resolved, self._desk.explained)
            return replace(failed, shadowed=self._shadowed(review, envs, resolved, error, len(body)))
        facts = self._facts(resolved.revision, review, envs)
        inject = inject_pod if _is_tried(review, resolved) else self._planner.inject
        return Opened(Job(inject, resolved.revision, review, facts, body), resolved, wanted)

    def _closed(self, opened: Opened, result: Ended, watch: Stopwatch) -> Answer:
        """Return the answer to a review by how its injection ended."""
        review, resolved, size = opened.review, opened.resolved, len(opened.job.body)
        if not isinstance(result, Exception):
            watch.lap("inject")
            try:
                answer = _answered(review, result, resolved, self._desk.explained)
            except Exception as error:  # noqa: BLE001 -- the request edge: a fault of ours is answered and counted too
                result = error
            watch.lap("encode")
        if isinstance(result, Exception):
            failed = _failed(review, result, resolved, self._desk.explained)
            return replace(failed, shadowed=self._shadowed(review, opened.envs, resolved, result, size))
        if self._recent is not None and not isinstance(result, Skipped) and not review.dry_run:
            name, body = resolved.revision.name, opened.job.body
            self._recent.keep(name, body, pod=review.object, namespace=review.namespace, envs=opened.envs)
        if isinstance(result, Planned):
            if opened.wanted is not None and self._repeats is not None and resolved.candidate is None:
                self._repeats.keep(opened.wanted, review, result.patch, Made(answer.body, resolved))
            return answer
        shadowed = self._shadowed(review, opened.envs, resolved, result, size)
        return answer if shadowed is None else replace(answer, shadowed=shadowed)

    def _facts(self, revision: Revision, review: admission.Request, envs: Mapping[str, str]) -> RequestFacts:
        return RequestFacts(review.namespace, envs, revision.namespaces.get(review.namespace), self._desk.guard)

    def _shadowed(
        self,
        review: admission.Request,
        envs: Mapping[str, str],
        resolved: Resolved | None,
        outcome: Injection,
        size: int,
    ) -> Admission | None:
        """Return what the shadow of the tag that was asked for is to try, if it is to try this request."""
        if resolved is None or resolved.candidate is None or resolved.tag is None or not _is_tried(review, resolved):
            return None
        candidate = resolved.candidate.revision
        facts = self._facts(candidate, review, envs)
        return Admission(resolved.tag, resolved.revision, candidate, review.object, facts, outcome, size)


def _answered(
    review: admission.Request, result: Injected | Planned | Skipped, resolved: Resolved, explained: Explained | None
) -> Answer:
    if isinstance(result, Skipped):
        response = admission.allowed(review, warnings=result.warnings)
        if explained is not None:
            response = explained.skipped(response, result, resolved)
        return Answer(response.encode(), Outcome.SKIP, result.reason, resolved, review=review)
    response = admission.patched(review, result.patch, warnings=result.warnings)
    if explained is not None:
        response = explained.injected(response, result, resolved)
    findings = result.findings if isinstance(result, Injected) else ()
    if findings:
        _log.warning("guard: uid=%.64r revision=%s %.500r", review.uid, resolved.revision.name, findings[0])
    return Answer(response.encode(), Outcome.SUCCESS, resolved=resolved, review=review, findings=findings)


def _is_tried(review: admission.Request, resolved: Resolved) -> bool:
    """Return whether the tag has a shadow, and the request is of its sample; then the whole pod is wanted, which a plan has not."""
    candidate = resolved.candidate
    if candidate is None or candidate.revision is resolved.revision or review.dry_run:
        return False
    return sampled(review.uid, candidate.sample)


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
        reason, message, where = reason_of(error), str(error), error.where
    else:
        reason, where = FAULT, whereabouts(error)
        message = f"internal error ({type(error).__name__}); the injector's log has the uid {review.uid}"
    response = admission.errored(review, message)
    if explained is not None:
        response = explained.refused(response, reason, resolved)
    return Answer(response.encode(), Outcome.FAILURE, reason, resolved, review=review, where=where)


def reason_of(error: InjectorError) -> str:
    """Return the stable word for what kind of error it is."""
    return next((reason for kind, reason in FAILURE_REASONS if isinstance(error, kind)), OTHER_REASON)


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

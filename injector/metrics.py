"""Every metric series, in one class, given the registry that it counts in.

Istio's names, with labels that Istio's lack. For each pair of ``revision`` and ``tag``, requests = successes +
failures + skips, always: one method counts a request and its outcome together. A name that nobody serves counts as
``unknown``, so that requests cannot make series.
"""

from __future__ import annotations

from collections import Counter as Tally
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client import CollectorRegistry

UNKNOWN: Final = "unknown"
TOTAL: Final = "total"
"""The stage that is all of a request."""
CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4

# From half a millisecond, as an injection takes, to the API server's longest timeout of 30 s; Istio's start at 100
# ms, where every ordinary request is in the first.
BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


_Series: TypeAlias = tuple[str, str, tuple[str, ...]]
"""A name, what it tells, and its labels."""

_ASKED: Final = ("revision", "tag")
COUNTERS: Final[tuple[_Series, ...]] = (
    ("sidecar_injection_requests_total", "AdmissionReviews received.", _ASKED),
    ("sidecar_injection_success_total", "Pods that were injected.", _ASKED),
    ("sidecar_injection_failure_total", "Requests that were refused or failed, by reason.", (*_ASKED, "reason")),
    ("sidecar_injection_skip_total", "Pods that were allowed without a sidecar, by reason.", (*_ASKED, "reason")),
)
CACHE_HITS: Final[_Series] = (
    "injector_answer_cache_hits_total",
    "AdmissionReviews that were answered from the answer cache, by revision.",
    ("revision",),
)
STAGES: Final[_Series] = (
    "sidecar_injection_time_seconds",
    "How long requests took, by stage; stage `total` is all of it.",
    ("stage", *_ASKED),
)
SHADOWS: Final[tuple[_Series, ...]] = (
    (
        "injector_shadow_requests_total",
        "Admissions that a tag's shadow tried its candidate on, by outcome: same, different or error.",
        ("tag", "revision", "outcome"),
    ),
    (
        "injector_shadow_differences_total",
        "Admissions whose pod the candidate makes otherwise, by kind of difference.",
        ("tag", "revision", "kind"),
    ),
    ("injector_shadow_dropped_total", "Admissions of a shadow's sample that came while too many waited.", ()),
)
GUARD_FINDINGS: Final[_Series] = (
    "injector_guard_findings_total",
    "Pods whose values break out of the template: refused, or injected with a warning (warned), by revision.",
    ("revision", "outcome"),
)
REFUSED: Final = "refused"
WARNED: Final = "warned"
BACKGROUND_FAILURES: Final[_Series] = (
    "injector_background_failures_total",
    "Failures of background tasks, by task; each is followed by a restart.",
    ("task",),
)
CERTIFICATE_RELOADS: Final[_Series] = (
    "injector_certificate_reloads_total",
    "New pairs of certificate and key, and new authorities of clients: success where used, failure where refused.",
    ("outcome",),
)
PROCESS: Final[tuple[_Series, ...]] = (
    (
        "injector_certificate_expiry_timestamp_seconds",
        "When the certificate that handshakes get expires; NaN without TLS.",
        (),
    ),
    ("injector_event_loop_lag_seconds", "How late the event loop was at worst in the last minute.", ()),
    (
        "injector_ca_expiry_timestamp_seconds",
        "When the authority expires that signs the self-signed certificate; NaN where files hold the certificate.",
        (),
    ),
    (
        "injector_tls_probe_success",
        "1 where a client of the injector's own was served the certificate that it trusts; NaN without TLS.",
        (),
    ),
    (
        "injector_cabundle_outdated",
        "MutatingWebhookConfigurations of the injector's whose caBundle is another than it shall be.",
        (),
    ),
    ("injector_requests_waiting", "Reviews that have come in full and wait for their turn.", ()),
    ("injector_requests_aside", "Reviews of slow revisions, injected beside the event loop or waiting for it.", ()),
)
CABUNDLES: Final[tuple[_Series, ...]] = (
    ("injector_cabundle_patch_attempts_total", "Patches of caBundle that were sent.", ()),
    ("injector_cabundle_patches_total", "Patches of caBundle that the API server took.", ()),
)
GAUGES: Final[tuple[_Series, ...]] = (
    (
        "injector_revision_config_valid",
        "1 where what the source holds is what is served, 0 where it is broken.",
        ("revision",),
    ),
    (
        "injector_revision_loaded_timestamp_seconds",
        "When the configuration that is served was loaded.",
        ("revision",),
    ),
    (
        "injector_revision_info",
        "1 for each revision that is served, with the Istio it is of and the fingerprint of its configuration.",
        ("revision", "istio_version", "fingerprint"),
    ),
    ("injector_tags_valid", "1 where every tag and every shadow leads to a revision.", ()),
    ("injector_build_info", "1, with the version.", ("version",)),
)
WATCH_FAULTS: Final[_Series] = (
    "injector_watch_faults_total",
    "Faults of what is watched in the cluster, by reason; each is followed by a wait and another try.",
    ("resource", "reason"),
)
WATCH_SYNCED: Final[_Series] = (
    "injector_watch_synced",
    "1 where what is known of the cluster is up to date, 0 since the last fault.",
    ("resource",),
)
UNSERVED_NAMES: Final[_Series] = (
    "injector_unserved_names",
    "Namespaces, and pods without a sidecar, whose label istio.io/rev names nothing that is served, by kind.",
    ("kind",),
)
UNSERVED_REVIEWS: Final[_Series] = (
    "injector_unserved_reviews_total",
    "AdmissionReviews of the webhook for names that nobody serves, by whose label it was called for and outcome.",
    ("kind", "outcome"),
)
RELOADS: Final[tuple[_Series, ...]] = (
    ("injector_config_reloads_total", "Changes of the configuration that were found and loaded, good or not.", ()),
    (
        "injector_config_reload_failures_total",
        "Reloads after which something of the configuration is not served, by reason.",
        ("reason",),
    ),
)
RELOAD_FAILURES: Final = ("source", "revision", "tags", "internal")
"""The reasons of a failed reload, the first that fits: nothing could be read; a revision, or a tag, cannot be served; a
fault of the injector."""


class Outcome(Enum):
    """How a request ended."""

    SUCCESS = "success"
    FAILURE = "failure"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Answered:
    """One request as it is counted: its outcome, the reason of a failure or skip, and how long each stage took."""

    outcome: Outcome
    seconds: Mapping[str, float]
    reason: str = ""
    revision: str = UNKNOWN
    tag: str = ""


class Metrics:
    """The series of one injector."""

    def __init__(self, registry: CollectorRegistry, *, version: str = "") -> None:
        self._registry = registry
        self._requests, success, failure, skip = (Counter(*each, registry=registry) for each in COUNTERS)
        self._outcomes = {Outcome.SUCCESS: success, Outcome.FAILURE: failure, Outcome.SKIP: skip}
        self._seconds = Histogram(*STAGES, buckets=BUCKETS, registry=registry)
        # Of requests no series ever ends, so what ``labels`` finds is remembered: it takes longer than the counting.
        self._request_of, self._seconds_of = cache(self._requests.labels), cache(self._seconds.labels)
        self._outcome_of = {outcome: cache(counter.labels) for outcome, counter in self._outcomes.items()}
        self._shadowed, self._differences, self._dropped = (Counter(*each, registry=registry) for each in SHADOWS)
        self._valid, self._loaded, self._info, self._tags_valid, build = (
            Gauge(*each, registry=registry) for each in GAUGES
        )
        build.labels(version).set(1)
        self._watch_faults = Counter(*WATCH_FAULTS, registry=registry)
        self._watch_synced = Gauge(*WATCH_SYNCED, registry=registry)
        self._background_failures = Counter(*BACKGROUND_FAILURES, registry=registry)
        self._unserved_names = Gauge(*UNSERVED_NAMES, registry=registry)
        self._cache_hits = Counter(*CACHE_HITS, registry=registry)
        self._cache_hits_of = cache(self._cache_hits.labels)
        self._guarded = Counter(*GUARD_FINDINGS, registry=registry)
        self._unserved_reviews = Counter(*UNSERVED_REVIEWS, registry=registry)
        self._reloads, self._reload_failures = (Counter(*each, registry=registry) for each in RELOADS)
        for reason in RELOAD_FAILURES:
            self._reload_failures.labels(reason)
        self._certificate_reloads = Counter(*CERTIFICATE_RELOADS, registry=registry)
        for outcome in (Outcome.SUCCESS, Outcome.FAILURE):
            self._certificate_reloads.labels(outcome.value)
        self._expiry, self._lag, self._ca_expiry, self._probe, self._outdated, self._waiting, self._aside = (
            Gauge(*each, registry=registry) for each in PROCESS
        )
        # No sample of NaN is below any bound, so an alert on what is left of a certificate stays quiet without one.
        for gauge in (self._expiry, self._ca_expiry, self._probe):
            gauge.set(float("nan"))
        self._attempts, self._patches = (Counter(*each, registry=registry) for each in CABUNDLES)
        self._shown: dict[str, RevisionRow] = {}

    def answered(self, request: Answered) -> None:
        """Count one request with its outcome."""
        asked = (request.revision, request.tag)
        self._request_of(*asked).inc()
        reason = () if request.outcome is Outcome.SUCCESS else (request.reason,)
        self._outcome_of[request.outcome](*asked, *reason).inc()
        for stage, seconds in request.seconds.items():
            self._seconds_of(stage, *asked).observe(seconds)

    def cache_hit(self, revision: str) -> None:
        """Count one review that the answer cache answered for ``revision``."""
        self._cache_hits_of(revision).inc()

    def shadowed(self, tag: str, revision: str, outcome: str, kinds: Iterable[str]) -> None:
        """Count one admission that the candidate ``revision`` of ``tag`` was tried on, and each kind of difference."""
        self._shadowed.labels(tag, revision, outcome).inc()
        for kind in kinds:
            self._differences.labels(tag, revision, kind).inc()

    def guarded(self, revision: str, outcome: str) -> None:
        """Count one pod whose values break out of the template of a revision; outcomes are ``REFUSED`` and ``WARNED``."""
        self._guarded.labels(revision, outcome).inc()

    def background_failed(self, task: str) -> None:
        """Count one failure of a background task."""
        self._background_failures.labels(task).inc()

    def shadow_dropped(self) -> None:
        """Count one admission that no candidate was tried on, since too many waited."""
        self._dropped.inc()

    def loaded(self, rows: Mapping[str, RevisionRow], *, tags_valid: bool) -> None:
        """Show how the revisions stand; series of those that are gone end."""
        for name, row in self._shown.items():
            if name not in rows:
                self._valid.remove(name)
            if row.served and rows.get(name) != row:
                self._loaded.remove(name)
                self._info.remove(name, row.istio_version, row.fingerprint)
        for name, row in rows.items():
            self._valid.labels(name).set(row.valid)
            if row.served:
                self._loaded.labels(name).set(row.loaded_at)
                self._info.labels(name, row.istio_version, row.fingerprint).set(1)
        self._tags_valid.set(tags_valid)
        self._shown = dict(rows)

    def watch_fault(self, resource: str, reason: str) -> None:
        """Count a fault of a watch; reasons are a closed list."""
        self._watch_faults.labels(resource, reason).inc()

    def watch_synced(self, resource: str, *, synced: bool) -> None:
        """Show whether what is known of a resource is up to date."""
        self._watch_synced.labels(resource).set(synced)

    def unserved_names(self, namespaces: int, pods: int | None) -> None:
        """Show how many namespaces and pods name what nobody serves; pods that cannot be counted have no series."""
        for kind, count in (("namespace", namespaces), ("pod", pods)):
            if count is not None:
                self._unserved_names.labels(kind).set(count)

    def unserved_review(self, kind: str, outcome: str) -> None:
        """Count one review of the webhook for names that nobody serves; kinds and outcomes are closed lists."""
        self._unserved_reviews.labels(kind, outcome).inc()

    def reloaded(self, failure: str = "") -> None:
        """Count one reload; ``failure`` is its reason, one of ``RELOAD_FAILURES``, where it failed."""
        self._reloads.inc()
        if failure:
            self._reload_failures.labels(failure).inc()

    def certificate(self, not_after: float, outcome: str = "") -> None:
        """Show when the certificate in use expires, and count a new pair by its outcome."""
        self._expiry.set(not_after)
        if outcome:
            self._certificate_reloads.labels(outcome).inc()

    def authority(self, not_after: float) -> None:
        """Show when the authority expires that signs the certificate in use."""
        self._ca_expiry.set(not_after)

    def tls_probe(self, *, success: bool) -> None:
        """Show whether the injector's own client was served what it trusts."""
        self._probe.set(success)

    def cabundle_attempt(self, *, patched: bool) -> None:
        """Count one patch of ``caBundle``, and whether the API server took it."""
        self._attempts.inc()
        if patched:
            self._patches.inc()

    def cabundle_outdated(self, count: int) -> None:
        """Show how many objects have another ``caBundle`` than they shall have."""
        self._outdated.set(count)

    def event_loop_lag(self, seconds: float) -> None:
        """Show how late the event loop was."""
        self._lag.set(seconds)

    def waiting(self, count: Callable[[], float], aside: Callable[[], float]) -> None:
        """Let every scrape see how many requests wait, which ``count`` returns, and how many are injected aside."""
        self._waiting.set_function(count)
        self._aside.set_function(aside)

    def requests(self) -> list[RequestRow]:
        """Return what was counted of requests since the start, by revision and tag, each with its outcomes."""
        requests, success = (_by_pair(each) for each in (self._requests, self._outcomes[Outcome.SUCCESS]))
        failures, skips = (_by_reason(self._outcomes[each]) for each in (Outcome.FAILURE, Outcome.SKIP))
        return [
            RequestRow(*asked, count, success[asked], failures.get(asked, {}), skips.get(asked, {}))
            for asked, count in sorted(requests.items())
        ]

    def latencies(self) -> dict[tuple[str, str], list[tuple[float, int]]]:
        """Return by revision and tag how many requests took at most so many seconds in all, bound by bound."""
        found: dict[tuple[str, str], list[tuple[float, int]]] = {}
        for metric in self._seconds.collect():
            for sample in metric.samples:
                if sample.name.endswith("_bucket") and sample.labels["stage"] == TOTAL:
                    bounds = found.setdefault((sample.labels["revision"], sample.labels["tag"]), [])
                    bounds.append((float(sample.labels["le"]), int(sample.value)))
        return found

    def exposition(self) -> bytes:
        """Return every series as Prometheus reads it."""
        return generate_latest(self._registry)


def _values(counter: Counter) -> Iterator[tuple[Mapping[str, str], int]]:
    """Yield a counter's labels and values."""
    for metric in counter.collect():
        for sample in metric.samples:
            if sample.name.endswith("_total"):
                yield sample.labels, int(sample.value)


def _by_pair(counter: Counter) -> Tally[tuple[str, str]]:
    return Tally({(labels["revision"], labels["tag"]): value for labels, value in _values(counter)})


def _by_reason(counter: Counter) -> dict[tuple[str, str], dict[str, int]]:
    found: dict[tuple[str, str], dict[str, int]] = {}
    for labels, value in sorted(_values(counter), key=lambda pair: pair[0]["reason"]):
        found.setdefault((labels["revision"], labels["tag"]), {})[labels["reason"]] = value
    return found


@dataclass(frozen=True, slots=True)
class RequestRow:
    """What was counted of the requests of one revision by one tag, empty where none led to it."""

    revision: str
    tag: str
    requests: int = 0
    success: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    skips: Mapping[str, int] = field(default_factory=dict)

    @property
    def failure(self) -> int:
        """How many were refused or failed, whatever the reason."""
        return sum(self.failures.values())

    @property
    def skip(self) -> int:
        """How many were allowed without a sidecar, whatever the reason."""
        return sum(self.skips.values())


@dataclass(frozen=True, slots=True)
class RevisionRow:
    """One revision as the metrics show it; ``fingerprint`` is empty where nothing is served."""

    valid: bool
    loaded_at: float = 0.0
    istio_version: str = ""
    fingerprint: str = ""

    @property
    def served(self) -> bool:
        """Whether requests for it get anything."""
        return bool(self.fingerprint)


class Stopwatch:
    """How long the stages of one request took."""

    __slots__ = ("_clock", "_laps", "_last", "_start")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._start = self._last = clock()
        self._laps: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        """End ``stage`` now; the next begins."""
        now = self._clock()
        self._laps[stage] = now - self._last
        self._last = now

    def total(self) -> dict[str, float]:
        """Return the seconds of every stage that ended, and of all as ``total``."""
        return {**self._laps, TOTAL: self._clock() - self._start}

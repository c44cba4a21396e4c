"""The metrics of the injector.

Metrics of requests have Istio's names and further labels. For each ``revision`` and ``tag``, requests = successes + failures + skips: one
method counts a request together with its outcome. Unknown revisions and tags count as ``unknown``, so that requests cannot add series.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from itertools import accumulate
from time import perf_counter
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from prometheus_client import Metric

UNKNOWN_REVISION: Final = "unknown"
TOTAL: Final = "total"
"""The stage of a whole request."""
CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4

# From the half millisecond of a typical injection to the API server's longest timeout. Istio's first bucket is 100 ms.
BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


GUARD_REFUSED: Final = "refused"
GUARD_WARNED: Final = "warned"
RELOAD_FAILURES: Final = ("source", "revision", "tags", "internal")
"""Reasons of a failed reload, in order of precedence: the source cannot be read, a revision or a tag is not valid, an internal error."""
MAX_DRIFT_SERIES: Final = 1000
"""Series of workloads that have drifted; those with the most workloads are shown. Users can write any revision into a pod."""


disable_created_metrics()  # type: ignore[no-untyped-call]  # a series of the start of each series, which nothing asks for


class Outcome(Enum):
    """How a request ended."""

    SUCCESS = "success"
    FAILURE = "failure"
    SKIP = "skip"


class Metrics:
    """The metrics of one injector, in a registry of prometheus-client."""

    def __init__(self, registry: CollectorRegistry, *, version: str = "") -> None:
        self._registry = registry
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self._add_request_metrics(counter, gauge)
        self._add_configuration_metrics(counter, gauge)
        self._add_tls_metrics(counter, gauge)
        self._add_upgrade_metrics(gauge)
        gauge("injector_build_info", "Always 1, with the version as a label.", ("version",)).labels(version).set(1)
        self.loop_lag = gauge("injector_event_loop_lag_seconds", "Maximum event loop lag of the last minute.")
        self.background_failures = counter(
            "injector_background_failures_total", "Failures, with a restart, of background tasks.", ("task",)
        )

    def _add_request_metrics(self, counter: partial[Counter], gauge: partial[Gauge]) -> None:
        self.requests = RequestCounts()
        self._registry.register(self.requests)
        self.waiting = gauge("injector_requests_waiting", "Reviews waiting for injection.")
        self.guard_findings = counter(
            "injector_guard_findings_total",
            "Pods whose values break out of the template, by revision and outcome: refused or warned.",
            ("revision", "outcome"),
        )
        self._shadowed = counter(
            "injector_shadow_requests_total",
            "Admissions also injected with the candidate of a tag's shadow, by outcome: same, different or error.",
            ("tag", "revision", "outcome"),
        )
        self._differences = counter(
            "injector_shadow_differences_total",
            "Admissions where the candidate's result differs, by kind of difference.",
            ("tag", "revision", "kind"),
        )
        self.shadow_dropped = counter("injector_shadow_dropped_total", "Sampled admissions that a shadow dropped.")
        self.unserved_reviews = counter(
            "injector_unserved_reviews_total",
            "AdmissionReviews of the webhook for unknown names, by kind (whose label was checked) and outcome.",
            ("kind", "outcome"),
        )

    def _add_configuration_metrics(self, counter: partial[Counter], gauge: partial[Gauge]) -> None:
        self._valid = gauge(
            "injector_revision_config_valid",
            "1 if the current configuration of the revision is served, 0 if it is not valid.",
            ("revision",),
        )
        self._loaded = gauge(
            "injector_revision_loaded_timestamp_seconds", "Load time of the served configuration.", ("revision",)
        )
        self._removed = gauge(
            "injector_revision_removed",
            "1 if the revision was removed and is served for a limited time, else 0.",
            ("revision",),
        )
        self._info = gauge(
            "injector_revision_info",
            "1 for each served revision, with the Istio version whose behaviours it has, the fingerprint of its configuration, and the "
            "version of its images if that is newer than any supported one.",
            ("revision", "istio_version", "fingerprint", "newer_istio"),
        )
        self._failed = gauge(
            "injector_revision_verify_failed",
            "1 for each built-in pod that the templates of a served revision fail on. Other pods may be injected.",
            ("revision", "built_in_pod"),
        )
        self._tags_valid = gauge("injector_tags_valid", "1 if every tag and shadow has a served revision.")
        self._webhook_faults = gauge(
            "injector_webhook_faults",
            "Faults of the cluster's MutatingWebhookConfigurations: some lead elsewhere, or API servers cannot verify what they call.",
        )
        self._reloads = counter("injector_config_reloads_total", "Reloads of the configuration.")
        self._reload_failures = counter(
            "injector_config_reload_failures_total",
            "Reloads after which a part of the configuration is not served, by reason.",
            ("reason",),
        )
        for reason in RELOAD_FAILURES:
            self._reload_failures.labels(reason)
        self.watch_faults = counter(
            "injector_watch_faults_total",
            "Failures of a watch of cluster resources, by reason. Each one is retried after a wait, but an unreadable object is left out.",
            ("resource", "reason"),
        )
        self.watch_synced = gauge(
            "injector_watch_synced", "1 if a watch is up to date, 0 since its last failure.", ("resource",)
        )
        self.unserved_names = gauge(
            "injector_unserved_names",
            "Namespaces, and pods without a sidecar, whose label istio.io/rev names an unknown revision or tag, by kind.",
            ("kind",),
        )

    def _add_tls_metrics(self, counter: partial[Counter], gauge: partial[Gauge]) -> None:
        self._certificate_reloads = counter(
            "injector_certificate_reloads_total",
            "New certificates, and new client CAs, by outcome: success if used, failure if rejected.",
            ("outcome",),
        )
        for outcome in (Outcome.SUCCESS, Outcome.FAILURE):
            self._certificate_reloads.labels(outcome.value)
        self._expiry = gauge(
            "injector_certificate_expiry_timestamp_seconds", "Expiry of the served certificate. NaN without TLS."
        )
        self.ca_expiry = gauge(
            "injector_ca_expiry_timestamp_seconds",
            "Expiry time of the CA that signs the self-signed certificate. NaN with certificate files.",
        )
        self.tls_probe = gauge(
            "injector_tls_probe_success",
            "1 if the last TLS self-check of the webhook's port succeeded. NaN without TLS.",
        )
        # No comparison with NaN is true, so alerts on these metrics stay silent without TLS.
        for metric in (self._expiry, self.ca_expiry, self.tls_probe):
            metric.set(math.nan)
        self.cabundle_outdated = gauge(
            "injector_cabundle_outdated", "MutatingWebhookConfigurations with a missing or outdated caBundle."
        )
        self.cabundle_attempts = counter("injector_cabundle_patch_attempts_total", "Attempts to patch caBundle.")
        self.cabundle_patches = counter("injector_cabundle_patches_total", "Successful patches of caBundle.")

    def _add_upgrade_metrics(self, gauge: partial[Gauge]) -> None:
        self._upgrade_phase = gauge(
            "injector_upgrade_phase", "1 for the phase of each Upgrade of the cluster.", ("upgrade", "phase")
        )
        self._upgrade_waves = gauge(
            "injector_upgrade_waves", "Waves of an Upgrade, by state: done or left.", ("upgrade", "state")
        )
        self._upgrade_workloads = gauge(
            "injector_upgrade_workloads", "Workloads of the current wave, by state.", ("upgrade", "state")
        )
        self._upgrade_left = gauge(
            "injector_upgrade_workloads_left", "Workloads of all waves that are to be restarted.", ("upgrade",)
        )
        self._upgrade_gateways = gauge(
            "injector_upgrade_gateways",
            "Gateways of the Gateway API that an Upgrade has pinned, by state: pinned, moving to the next owner, or soaking there.",
            ("upgrade", "state"),
        )
        self._upgrade_gate = gauge(
            "injector_upgrade_gate",
            "1 for the last result of each gate: pass, fail or no data.",
            ("upgrade", "gate", "result"),
        )
        self._upgrade_progress = gauge(
            "injector_upgrade_progress_timestamp_seconds",
            "Time of the last progress of an Upgrade that has not ended. During a soak, its end. Missing while it waits for a window.",
            ("upgrade",),
        )
        self._upgrade_runner = gauge(
            "injector_upgrade_runner_seen_timestamp_seconds",
            "Time of the last heartbeat without an error of the runner of an Upgrade that has something to do.",
            ("upgrade",),
        )
        self._upgrade_remaining = gauge(
            "injector_upgrade_workloads_remaining", "Workloads that an Upgrade left behind at its end.", ("upgrade",)
        )
        self._drift = gauge(
            "injector_drift_workloads",
            "Workloads whose sidecar is of another revision than new pods would get, with --watch-drift.",
            ("from", "to", "namespace"),
        )

    def set_drift(self, workloads: Mapping[tuple[str, str, str], int]) -> None:
        """Show the workloads that have drifted, by the revision that they have, the one they would get, and namespace."""
        self._drift.clear()
        for labels, count in Tally(workloads).most_common(MAX_DRIFT_SERIES):
            self._drift.labels(*labels).set(count)

    def upgrades(self, rows: Mapping[str, UpgradeRow]) -> None:
        """Show the state of the upgrades by name, and remove the series of all others."""
        labelled = (self._upgrade_phase, self._upgrade_waves, self._upgrade_workloads, self._upgrade_left)
        times = self._upgrade_progress, self._upgrade_runner
        for gauge in (*labelled, *times, self._upgrade_gate, self._upgrade_gateways, self._upgrade_remaining):
            gauge.clear()
        for name, row in rows.items():
            self._upgrade_phase.labels(name, row.phase).set(1)
            self._upgrade_left.labels(name).set(row.remaining)
            for state, count in row.waves.items():
                self._upgrade_waves.labels(name, state).set(count)
            for state, count in row.workloads.items():
                self._upgrade_workloads.labels(name, state).set(count)
            for state, count in row.gateways.items():
                self._upgrade_gateways.labels(name, state).set(count)
            for gate, result in row.gates.items():
                self._upgrade_gate.labels(name, gate, result).set(1)
            if row.progressed:
                self._upgrade_progress.labels(name).set(row.progressed)
            if row.heartbeat:
                self._upgrade_runner.labels(name).set(row.heartbeat)
            self._upgrade_remaining.labels(name).set(row.work_left)

    def count_shadow(self, tag: str, revision: str, outcome: str, kinds: Iterable[str]) -> None:
        """Count one admission that the candidate ``revision`` of ``tag`` was compared on, and each kind of difference."""
        self._shadowed.labels(tag, revision, outcome).inc()
        for kind in kinds:
            self._differences.labels(tag, revision, kind).inc()

    def set_revisions(self, rows: Mapping[str, RevisionRow], *, tags_valid: bool, webhook_faults: int = 0) -> None:
        """Show the state of the revisions, and remove the series of all others."""
        for gauge in (self._valid, self._loaded, self._removed, self._info, self._failed):
            gauge.clear()
        for name, row in rows.items():
            self._valid.labels(name).set(row.valid)
            for pod in row.failed:
                self._failed.labels(name, pod).set(1)
            if row.fingerprint:
                self._loaded.labels(name).set(row.loaded_at)
                self._removed.labels(name).set(row.removed)
                self._info.labels(name, row.istio_version, row.fingerprint, row.newer_istio).set(1)
        self._tags_valid.set(tags_valid)
        self._webhook_faults.set(webhook_faults)

    def count_reload(self, failure: str = "") -> None:
        """Count one reload; if it failed, ``failure`` is one of ``RELOAD_FAILURES``."""
        self._reloads.inc()
        if failure:
            self._reload_failures.labels(failure).inc()

    def certificate(self, not_after: float, outcome: str = "") -> None:
        """Show the expiry time of the served certificate, and count a new one by its outcome."""
        self._expiry.set(not_after)
        if outcome:
            self._certificate_reloads.labels(outcome).inc()

    def exposition(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


@dataclass(frozen=True, slots=True)
class RequestRow:
    """The requests of one revision by one tag, which is empty for requests that name the revision itself."""

    revision: str
    tag: str
    success: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    skips: Mapping[str, int] = field(default_factory=dict)

    @property
    def requests(self) -> int:
        """All requests."""
        return self.success + self.failure + self.skip

    @property
    def failure(self) -> int:
        """Requests denied or failed, for any reason."""
        return sum(self.failures.values())

    @property
    def skip(self) -> int:
        """Pods admitted without a sidecar, for any reason."""
        return sum(self.skips.values())


class Durations:
    """The durations of one stage in the buckets of a histogram."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.sum += seconds

    def cumulative(self) -> list[tuple[float, int]]:
        """Return the upper bound of each bucket with the number of durations up to it."""
        return list(zip((*BUCKETS, math.inf), accumulate(self.counts), strict=True))


class RequestCounts(Collector):
    """The requests by revision and tag: their outcomes, the durations of their stages, and the hits of the answer cache by revision.

    It belongs to the thread of the event loop. A metric of prometheus-client takes a lock and several calls for each value, of which a
    request has ten.
    """

    def __init__(self) -> None:
        self.cache_hits: Tally[str] = Tally()
        # By revision and tag: the outcomes with their reasons.
        self._outcomes: defaultdict[tuple[str, str], dict[Outcome, Tally[str]]] = defaultdict(
            lambda: {outcome: Tally() for outcome in Outcome}
        )
        # By stage, revision and tag.
        self._durations: defaultdict[tuple[str, str, str], Durations] = defaultdict(Durations)

    def count(
        self,
        outcome: Outcome,
        seconds: Mapping[str, float],
        reason: str = "",
        revision: str = UNKNOWN_REVISION,
        tag: str = "",
    ) -> None:
        """Count one request with its outcome and, unless it succeeded, its reason; ``seconds`` are the durations by stage."""
        self._outcomes[revision, tag][outcome][reason] += 1
        for stage, duration in seconds.items():
            self._durations[stage, revision, tag if stage == TOTAL else ""].add(duration)

    def rows(self) -> list[RequestRow]:
        """Return the requests by revision and tag, with their outcomes."""
        rows = []
        for target, outcomes in sorted(self._outcomes.items()):
            failures, skips = (dict(sorted(outcomes[outcome].items())) for outcome in (Outcome.FAILURE, Outcome.SKIP))
            rows.append(RequestRow(*target, outcomes[Outcome.SUCCESS].total(), failures, skips))
        return rows

    def latencies(self) -> dict[tuple[str, str], list[tuple[float, int]]]:
        """Return the cumulative buckets of whole requests by revision and tag: upper bounds with counts."""
        return {
            (revision, tag): duration.cumulative()
            for (stage, revision, tag), duration in self._durations.items()
            if stage == TOTAL
        }

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics. prometheus-client calls it for each exposition."""
        target = "revision", "tag"
        requests = CounterMetricFamily("sidecar_injection_requests_total", "AdmissionReviews received.", labels=target)
        successes = CounterMetricFamily("sidecar_injection_success_total", "Pods injected.", labels=target)
        with_reason = *target, "reason"
        failures = CounterMetricFamily(
            "sidecar_injection_failure_total", "Denied or failed requests.", labels=with_reason
        )
        skips = CounterMetricFamily(
            "sidecar_injection_skip_total", "Pods admitted without a sidecar.", labels=with_reason
        )
        for row in self.rows():
            requests.add_metric((row.revision, row.tag), row.requests)
            if row.success:
                successes.add_metric((row.revision, row.tag), row.success)
            for family, counts in ((failures, row.failures), (skips, row.skips)):
                for reason, count in counts.items():
                    family.add_metric((row.revision, row.tag, reason), count)
        yield from (requests, successes, failures, skips, self._seconds(), self._hits())

    def _seconds(self) -> Metric:
        seconds = HistogramMetricFamily(
            "sidecar_injection_time_seconds",
            "Duration of requests in seconds, by stage. Stage `total` is the whole request. The other stages have no tag.",
            labels=("stage", "revision", "tag"),
        )
        for labels, durations in self._durations.items():
            buckets = [("+Inf" if bound == math.inf else str(bound), count) for bound, count in durations.cumulative()]
            seconds.add_metric(labels, buckets, durations.sum)
        return seconds

    def _hits(self) -> Metric:
        hits = CounterMetricFamily(
            "injector_answer_cache_hits_total",
            "AdmissionReviews answered from the answer cache, by revision.",
            labels=("revision",),
        )
        for revision, count in self.cache_hits.items():
            hits.add_metric((revision,), count)
        return hits


@dataclass(frozen=True, slots=True)
class RevisionRow:
    """The state of one revision; ``fingerprint`` is empty if nothing is served."""

    valid: bool
    loaded_at: float = 0.0
    istio_version: str = ""
    fingerprint: str = ""
    removed: bool = False
    newer_istio: str = ""
    failed: Iterable[str] = ()


@dataclass(frozen=True, slots=True)
class UpgradeRow:
    """The state of one upgrade: waves, workloads and pinned Gateways by state, results of gates by name.

    ``progressed`` is 0 if no progress is expected, and ``heartbeat`` if no runner is. ``work_left`` counts what it left at its end.
    """

    phase: str
    waves: Mapping[str, int]
    workloads: Mapping[str, int]
    remaining: int
    gates: Mapping[str, str]
    progressed: float
    heartbeat: float = 0.0
    work_left: int = 0
    gateways: Mapping[str, int] = field(default_factory=dict)


class Stopwatch:
    """Measures the stages of one request."""

    __slots__ = ("_laps", "_last", "_start")

    def __init__(self) -> None:
        self._start = self._last = perf_counter()
        self._laps: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        """End ``stage`` now; the next one begins. A stage may end twice: its times are added."""
        now = perf_counter()
        self._laps[stage] = self._laps.get(stage, 0.0) + now - self._last
        self._last = now

    def total(self) -> dict[str, float]:
        """Return the seconds of every stage that ended, and of the whole request as ``total``."""
        return {**self._laps, TOTAL: perf_counter() - self._start}

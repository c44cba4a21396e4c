"""The metrics, as Prometheus scrapes them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from injector.metrics import (
    BUCKETS,
    Metrics,
    Outcome,
    RequestRow,
    RevisionRow,
    Stopwatch,
)
from tests.cases import cases

REQUESTS = "sidecar_injection_requests_total"


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> Metrics:
    return Metrics(registry, version="1.2.3")


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample that a scrape sees."""
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def named_samples(metrics: Metrics) -> dict[str, float]:
    """Every sample by its name as it is written in queries."""
    return {
        name + ("{" + ",".join(f'{key}="{value}"' for key, value in labels) + "}" if labels else ""): value
        for (name, labels), value in samples(metrics).items()
    }


def test_a_request_is_counted_with_its_outcome(metrics: Metrics, registry: CollectorRegistry) -> None:
    labels = {"revision": "1-24", "tag": "prod"}

    metrics.requests.count(Outcome.SUCCESS, {"total": 0.002}, revision="1-24", tag="prod")
    metrics.requests.count(Outcome.SKIP, {}, "label", "1-24", "prod")
    metrics.requests.count(Outcome.FAILURE, {}, "template", "1-24", "prod")

    assert registry.get_sample_value(REQUESTS, labels) == 3
    assert registry.get_sample_value("sidecar_injection_success_total", labels) == 1
    assert registry.get_sample_value("sidecar_injection_skip_total", {**labels, "reason": "label"}) == 1
    assert registry.get_sample_value("sidecar_injection_failure_total", {**labels, "reason": "template"}) == 1


def test_requests_are_the_sum_of_the_outcomes_in_every_exposition(metrics: Metrics) -> None:
    for number, outcome in enumerate([*Outcome] * 7):
        metrics.requests.count(outcome, {}, f"reason-{number % 2}", f"r{number % 3}")

    values = samples(metrics)
    for revision in ("r0", "r1", "r2"):
        outcomes = sum(
            value
            for (name, labels), value in values.items()
            if name in {f"sidecar_injection_{kind}_total" for kind in ("success", "failure", "skip")}
            and ("revision", revision) in labels
        )
        assert values[REQUESTS, (("revision", revision), ("tag", ""))] == outcomes


def test_a_request_for_nobody_knows_what_counts_as_unknown(metrics: Metrics, registry: CollectorRegistry) -> None:
    metrics.requests.count(Outcome.FAILURE, {}, "unknown_revision")

    assert registry.get_sample_value(REQUESTS, {"revision": "unknown", "tag": ""}) == 1


def test_each_stage_is_timed_from_half_a_millisecond(metrics: Metrics, registry: CollectorRegistry) -> None:
    metrics.requests.count(Outcome.SUCCESS, {"inject": 0.0007, "total": 0.0011}, revision="a")

    def at_most(stage: str, bound: str) -> float | None:
        labels = {"stage": stage, "revision": "a", "tag": "", "le": bound}
        return registry.get_sample_value("sidecar_injection_time_seconds_bucket", labels)

    assert BUCKETS[0] == 0.0005
    assert (at_most("inject", "0.0005"), at_most("inject", "0.001")) == (0, 1)
    assert (at_most("total", "0.001"), at_most("total", "0.0025")) == (0, 1)


def test_revisions_show_how_they_stand(metrics: Metrics, registry: CollectorRegistry) -> None:
    rows = {
        "a": RevisionRow(True, 12.5, "1.32", "f00d", newer_istio="1.33.0", failed=["plain"]),
        "b": RevisionRow(False),
    }

    metrics.set_revisions(rows, tags_valid=False)

    valid = "injector_revision_config_valid"
    assert [registry.get_sample_value(valid, {"revision": name}) for name in "ab"] == [1, 0]
    assert registry.get_sample_value("injector_revision_loaded_timestamp_seconds", {"revision": "a"}) == 12.5
    info = {"revision": "a", "istio_version": "1.32", "fingerprint": "f00d", "newer_istio": "1.33.0"}
    assert registry.get_sample_value("injector_revision_info", info) == 1
    assert registry.get_sample_value("injector_revision_verify_failed", {"revision": "a", "built_in_pod": "plain"}) == 1
    assert registry.get_sample_value("injector_tags_valid") == 0


def test_series_of_what_is_gone_end(metrics: Metrics) -> None:
    metrics.set_revisions(
        {"a": RevisionRow(True, 1.0, "1.24", "old"), "b": RevisionRow(True, 1.0, "1.30", "x")}, tags_valid=True
    )
    metrics.set_revisions({"a": RevisionRow(True, 2.0, "1.24", "new")}, tags_valid=True)

    text = metrics.exposition().decode()
    assert 'revision="b"' not in text
    assert 'fingerprint="old"' not in text
    assert 'fingerprint="new"' in text


def test_a_revision_that_is_no_longer_served_keeps_saying_that_it_is_broken(metrics: Metrics) -> None:
    metrics.set_revisions({"a": RevisionRow(True, 1.0, "1.24", "f")}, tags_valid=True)
    metrics.set_revisions({"a": RevisionRow(False)}, tags_valid=True)

    text = metrics.exposition().decode()
    assert 'injector_revision_config_valid{revision="a"} 0.0' in text
    assert "injector_revision_info{" not in text


DURATIONS = st.dictionaries(
    st.sampled_from(["read", "inject", "total"]), st.floats(0, 60) | st.sampled_from([*BUCKETS, 0.0]), max_size=3
)
REQUESTS_COUNTED = st.lists(
    st.tuples(st.sampled_from(Outcome), DURATIONS, *map(st.sampled_from, ("xy", ("1-24", "1-30"), ("", "prod"))))
)


@given(REQUESTS_COUNTED)
def test_a_scrape_sees_what_prometheus_clients_own_metrics_would_show(
    requests: list[tuple[Outcome, dict[str, float], str, str, str]],
) -> None:
    metrics, plain = Metrics(CollectorRegistry()), CollectorRegistry()
    target, reasons = ("revision", "tag"), ("revision", "tag", "reason")
    total = Counter("sidecar_injection_requests_total", "-", target, registry=plain)
    outcomes = {
        Outcome.SUCCESS: Counter("sidecar_injection_success_total", "-", target, registry=plain),
        Outcome.FAILURE: Counter("sidecar_injection_failure_total", "-", reasons, registry=plain),
        Outcome.SKIP: Counter("sidecar_injection_skip_total", "-", reasons, registry=plain),
    }
    labels = ("stage", "revision", "tag")
    seconds = Histogram("sidecar_injection_time_seconds", "-", labels, buckets=BUCKETS, registry=plain)

    for outcome, durations, reason, revision, tag in requests:
        metrics.requests.count(outcome, durations, reason, revision, tag)
        total.labels(revision, tag).inc()
        outcomes[outcome].labels(revision, tag, *([] if outcome is Outcome.SUCCESS else [reason])).inc()
        for stage, duration in durations.items():
            seconds.labels(stage, revision, tag if stage == "total" else "").observe(duration)

    exposition, expected = (
        {line for line in text.decode().splitlines() if line.startswith("sidecar_injection_")}
        for text in (metrics.exposition(), generate_latest(plain))
    )
    assert exposition == expected


def test_two_injectors_count_apart() -> None:
    one, other = Metrics(CollectorRegistry()), Metrics(CollectorRegistry())

    one.requests.count(Outcome.SUCCESS, {}, revision="a")

    assert 'revision="a"' not in other.exposition().decode()


def test_the_build_is_named(registry: CollectorRegistry, metrics: Metrics) -> None:
    assert metrics.exposition()
    assert registry.get_sample_value("injector_build_info", {"version": "1.2.3"}) == 1


@cases("before", "calls", "after")
def test_a_metric_shows_what_happened(
    before: dict[str, float], calls: list[list[Any]], after: dict[str, float]
) -> None:
    metrics = Metrics(CollectorRegistry())
    values = named_samples(metrics)
    assert {name: values.get(name) for name in before} == pytest.approx(before, nan_ok=True)

    for name, *arguments in calls:
        options = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
        getattr(metrics, name)(*arguments, **options)

    values = named_samples(metrics)
    assert {name: values.get(name) for name in after} == after
    assert metrics.requests.rows() == []


def test_requests_are_told_by_revision_and_tag_with_their_outcomes(metrics: Metrics) -> None:
    for outcome, reason, tag in (
        (Outcome.SUCCESS, "", "prod"),
        (Outcome.FAILURE, "template", "prod"),
        (Outcome.FAILURE, "annotation", "prod"),
        (Outcome.SKIP, "policy", ""),
    ):
        metrics.requests.count(outcome, {}, reason, "1-24", tag)

    assert metrics.requests.rows() == [
        RequestRow("1-24", "", 0, {}, {"policy": 1}),
        RequestRow("1-24", "prod", 1, {"annotation": 1, "template": 1}, {}),
    ]
    assert [(row.requests, row.success, row.failure, row.skip) for row in metrics.requests.rows()] == [
        (1, 0, 0, 1),
        (3, 1, 2, 0),
    ]


def test_latencies_are_those_of_whole_requests(metrics: Metrics) -> None:
    metrics.requests.count(Outcome.SUCCESS, {"inject": 20.0, "total": 0.0007}, "", "1-24", "prod")
    metrics.requests.count(Outcome.SUCCESS, {"inject": 20.0, "total": 0.002}, "", "1-24", "prod")

    latencies = metrics.requests.latencies()

    assert list(latencies) == [("1-24", "prod")]
    assert latencies["1-24", "prod"][:3] == [(0.0005, 0), (0.001, 1), (0.0025, 2)]
    assert latencies["1-24", "prod"][-1] == (math.inf, 2)


def test_stages_follow_each_other_and_the_total_has_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([10.0, 11.0, 13.0, 20.0])
    monkeypatch.setattr("injector.metrics.perf_counter", lambda: next(ticks))
    watch = Stopwatch()

    watch.lap("read")
    watch.lap("inject")

    assert watch.total() == {"read": 1.0, "inject": 2.0, "total": 10.0}

from __future__ import annotations

import math

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from injector.metrics import (
    BUCKETS,
    REFUSED,
    RELOAD_FAILURES,
    WARNED,
    Metrics,
    Outcome,
    RequestRow,
    RevisionRow,
    Stopwatch,
)

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


def test_a_request_is_counted_with_its_outcome(metrics: Metrics, registry: CollectorRegistry) -> None:
    asked = {"revision": "1-24", "tag": "prod"}

    metrics.count_request(Outcome.SUCCESS, {"total": 0.002}, revision="1-24", tag="prod")
    metrics.count_request(Outcome.SKIP, {}, "label", "1-24", "prod")
    metrics.count_request(Outcome.FAILURE, {}, "template", "1-24", "prod")

    assert registry.get_sample_value(REQUESTS, asked) == 3
    assert registry.get_sample_value("sidecar_injection_success_total", asked) == 1
    assert registry.get_sample_value("sidecar_injection_skip_total", {**asked, "reason": "label"}) == 1
    assert registry.get_sample_value("sidecar_injection_failure_total", {**asked, "reason": "template"}) == 1


def test_requests_are_the_sum_of_the_outcomes_in_every_exposition(metrics: Metrics) -> None:
    for number, outcome in enumerate([*Outcome] * 7):
        metrics.count_request(outcome, {}, f"reason-{number % 2}", f"r{number % 3}")

    found = samples(metrics)
    for revision in ("r0", "r1", "r2"):
        outcomes = sum(
            value
            for (name, labels), value in found.items()
            if name in {f"sidecar_injection_{kind}_total" for kind in ("success", "failure", "skip")}
            and ("revision", revision) in labels
        )
        assert found[REQUESTS, (("revision", revision), ("tag", ""))] == outcomes


def test_a_request_for_nobody_knows_what_counts_as_unknown(metrics: Metrics, registry: CollectorRegistry) -> None:
    metrics.count_request(Outcome.FAILURE, {}, "unknown_revision")

    assert registry.get_sample_value(REQUESTS, {"revision": "unknown", "tag": ""}) == 1


def test_each_stage_is_timed_from_half_a_millisecond(metrics: Metrics, registry: CollectorRegistry) -> None:
    metrics.count_request(Outcome.SUCCESS, {"inject": 0.0007, "total": 0.0011}, revision="a")

    def at_most(stage: str, bound: str) -> float | None:
        labels = {"stage": stage, "revision": "a", "tag": "", "le": bound}
        return registry.get_sample_value("sidecar_injection_time_seconds_bucket", labels)

    assert BUCKETS[0] == 0.0005
    assert (at_most("inject", "0.0005"), at_most("inject", "0.001")) == (0, 1)
    assert (at_most("total", "0.001"), at_most("total", "0.0025")) == (0, 1)


def test_revisions_show_how_they_stand(metrics: Metrics, registry: CollectorRegistry) -> None:
    rows = {"a": RevisionRow(True, 12.5, "1.24", "f00d"), "b": RevisionRow(False)}

    metrics.loaded(rows, tags_valid=False)

    valid = "injector_revision_config_valid"
    assert [registry.get_sample_value(valid, {"revision": name}) for name in "ab"] == [1, 0]
    assert registry.get_sample_value("injector_revision_loaded_timestamp_seconds", {"revision": "a"}) == 12.5
    info = {"revision": "a", "istio_version": "1.24", "fingerprint": "f00d"}
    assert registry.get_sample_value("injector_revision_info", info) == 1
    assert registry.get_sample_value("injector_tags_valid") == 0


def test_series_of_what_is_gone_end(metrics: Metrics) -> None:
    metrics.loaded(
        {"a": RevisionRow(True, 1.0, "1.24", "old"), "b": RevisionRow(True, 1.0, "1.30", "x")}, tags_valid=True
    )
    metrics.loaded({"a": RevisionRow(True, 2.0, "1.24", "new")}, tags_valid=True)

    text = metrics.exposition().decode()
    assert 'revision="b"' not in text
    assert 'fingerprint="old"' not in text
    assert 'fingerprint="new"' in text


def test_a_revision_that_is_no_longer_served_keeps_saying_that_it_is_broken(metrics: Metrics) -> None:
    metrics.loaded({"a": RevisionRow(True, 1.0, "1.24", "f")}, tags_valid=True)
    metrics.loaded({"a": RevisionRow(False)}, tags_valid=True)

    text = metrics.exposition().decode()
    assert 'injector_revision_config_valid{revision="a"} 0.0' in text
    assert "injector_revision_info{" not in text


def test_two_injectors_count_apart() -> None:
    one, other = Metrics(CollectorRegistry()), Metrics(CollectorRegistry())

    one.count_request(Outcome.SUCCESS, {}, revision="a")

    assert 'revision="a"' not in other.exposition().decode()


def test_the_build_is_named(registry: CollectorRegistry, metrics: Metrics) -> None:
    assert metrics.exposition()
    assert registry.get_sample_value("injector_build_info", {"version": "1.2.3"}) == 1


def test_a_shadows_admission_is_counted_with_each_kind_of_difference(
    metrics: Metrics, registry: CollectorRegistry
) -> None:
    asked = {"tag": "prod", "revision": "1-30"}

    metrics.shadowed("prod", "1-30", "different", {"env", "image"})
    metrics.shadowed("prod", "1-30", "same", ())

    for outcome in ("different", "same"):
        assert registry.get_sample_value("injector_shadow_requests_total", {**asked, "outcome": outcome}) == 1
    for kind in ("env", "image"):
        assert registry.get_sample_value("injector_shadow_differences_total", {**asked, "kind": kind}) == 1


def test_what_a_shadow_dropped_is_counted_from_nought(metrics: Metrics, registry: CollectorRegistry) -> None:
    before = registry.get_sample_value("injector_shadow_dropped_total")

    metrics.shadow_dropped()

    assert (before, registry.get_sample_value("injector_shadow_dropped_total")) == (0, 1)


def test_faults_of_a_watch_are_counted_and_whether_it_is_up_to_date_is_shown(
    metrics: Metrics, registry: CollectorRegistry
) -> None:
    metrics.watch_fault("configmaps", "gone")
    metrics.watch_fault("configmaps", "gone")
    metrics.watch_synced("configmaps", synced=True)
    metrics.watch_synced("nodes", synced=False)

    faults = registry.get_sample_value("injector_watch_faults_total", {"resource": "configmaps", "reason": "gone"})
    synced = [
        registry.get_sample_value("injector_watch_synced", {"resource": name}) for name in ("configmaps", "nodes")
    ]
    assert (faults, synced) == (2, [1, 0])


def test_names_that_nobody_serves_are_shown_by_kind_and_pods_only_where_they_are_counted(
    metrics: Metrics, registry: CollectorRegistry
) -> None:
    def shown() -> list[float | None]:
        name = "injector_unserved_names"
        return [registry.get_sample_value(name, {"kind": kind}) for kind in ("namespace", "pod")]

    before = shown()
    metrics.unserved_names(2, None)
    without_pods = shown()
    metrics.unserved_names(0, 7)

    assert (before, without_pods, shown()) == ([None, None], [2, None], [0, 7])


def test_reviews_of_names_that_nobody_serves_are_counted_and_are_no_requests(
    metrics: Metrics, registry: CollectorRegistry
) -> None:
    metrics.unserved_review("pod", "warned")
    metrics.unserved_review("pod", "warned")

    labels = {"kind": "pod", "outcome": "warned"}
    assert registry.get_sample_value("injector_unserved_reviews_total", labels) == 2
    assert metrics.requests() == []


def test_what_the_guard_finds_is_counted_by_revision_and_outcome(metrics: Metrics, registry: CollectorRegistry) -> None:
    metrics.guarded("1-24", REFUSED)
    metrics.guarded("1-24", WARNED)
    metrics.guarded("1-24", WARNED)

    found = [
        registry.get_sample_value("injector_guard_findings_total", {"revision": "1-24", "outcome": outcome})
        for outcome in ("refused", "warned")
    ]
    assert found == [1, 2]
    assert metrics.requests() == []


def test_reloads_are_counted_and_their_failures_by_reason_from_the_start(
    metrics: Metrics, registry: CollectorRegistry
) -> None:
    failures = "injector_config_reload_failures_total"
    assert [registry.get_sample_value(failures, {"reason": reason}) for reason in RELOAD_FAILURES] == [0, 0, 0, 0]

    metrics.reloaded()
    metrics.reloaded("revision")

    assert registry.get_sample_value("injector_config_reloads_total") == 2
    assert registry.get_sample_value(failures, {"reason": "revision"}) == 1


def test_the_expiry_of_the_certificate_is_no_number_until_there_is_one(
    metrics: Metrics, registry: CollectorRegistry
) -> None:
    before = registry.get_sample_value("injector_certificate_expiry_timestamp_seconds")

    metrics.certificate(12.5)

    assert before is not None
    assert math.isnan(before)
    assert registry.get_sample_value("injector_certificate_expiry_timestamp_seconds") == 12.5


def test_new_certificates_are_counted_by_outcome_from_nought(metrics: Metrics, registry: CollectorRegistry) -> None:
    metrics.certificate(1.0, "success")
    metrics.certificate(1.0)

    name = "injector_certificate_reloads_total"
    assert [registry.get_sample_value(name, {"outcome": each}) for each in ("success", "failure")] == [1, 0]


def test_the_lag_of_the_event_loop_is_shown(metrics: Metrics, registry: CollectorRegistry) -> None:
    metrics.event_loop_lag(0.25)

    assert registry.get_sample_value("injector_event_loop_lag_seconds") == 0.25


def test_requests_are_told_by_revision_and_tag_with_their_outcomes(metrics: Metrics) -> None:
    for outcome, reason, tag in (
        (Outcome.SUCCESS, "", "prod"),
        (Outcome.FAILURE, "template", "prod"),
        (Outcome.FAILURE, "annotation", "prod"),
        (Outcome.SKIP, "policy", ""),
    ):
        metrics.count_request(outcome, {}, reason, "1-24", tag)

    assert metrics.requests() == [
        RequestRow("1-24", "", 1, 0, {}, {"policy": 1}),
        RequestRow("1-24", "prod", 3, 1, {"annotation": 1, "template": 1}, {}),
    ]
    assert [(row.success, row.failure, row.skip) for row in metrics.requests()] == [(0, 0, 1), (1, 2, 0)]


def test_latencies_are_those_of_whole_requests(metrics: Metrics) -> None:
    metrics.count_request(Outcome.SUCCESS, {"inject": 20.0, "total": 0.0007}, "", "1-24", "prod")
    metrics.count_request(Outcome.SUCCESS, {"inject": 20.0, "total": 0.002}, "", "1-24", "prod")

    found = metrics.latencies()

    assert list(found) == [("1-24", "prod")]
    assert found["1-24", "prod"][:3] == [(0.0005, 0), (0.001, 1), (0.0025, 2)]
    assert found["1-24", "prod"][-1] == (math.inf, 2)


def test_certificates_of_its_own_and_their_spread_are_shown(metrics: Metrics, registry: CollectorRegistry) -> None:
    names = ("injector_ca_expiry_timestamp_seconds", "injector_tls_probe_success", "injector_cabundle_outdated")
    before = [registry.get_sample_value(name) for name in names]

    metrics.authority(12.5)
    metrics.tls_probe(success=True)
    metrics.cabundle_outdated(3)
    for patched in (True, False, True):
        metrics.cabundle_attempt(patched=patched)

    assert [math.isnan(value or 0.0) for value in before] == [True, True, False]
    assert [registry.get_sample_value(name) for name in names] == [12.5, 1, 3]
    assert registry.get_sample_value("injector_cabundle_patch_attempts_total") == 3
    assert registry.get_sample_value("injector_cabundle_patches_total") == 2


def test_stages_follow_each_other_and_the_total_has_them_all() -> None:
    ticks = iter([10.0, 11.0, 13.0, 20.0])
    watch = Stopwatch(lambda: next(ticks))

    watch.lap("read")
    watch.lap("inject")

    assert watch.total() == {"read": 1.0, "inject": 2.0, "total": 10.0}

"""What is asked of Prometheus exists: every series and label of the alerts and dashboards is one of the injector's metrics."""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest as open_metrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from injector.metrics import Metrics, Outcome, RevisionRow, UpgradeRow
from tests.cases import read_cases
from tests.deploy.rendering import CHART, ROOT, of_kind, one, rendered
from tests.needs import PROMTOOL

ALERTS = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
DASHBOARDS = {path.name: json.loads(path.read_text()) for path in (CHART / "dashboards").glob("*.json")}
FAULTS = read_cases(Path(__file__).with_suffix(".yaml"))["each_alert_fires_on_its_fault_alone"]
SCRAPED = {"job", "namespace", "pod"}
"""Labels that Prometheus adds to what it reads from a pod."""


def used_metrics(registry: CollectorRegistry) -> Metrics:
    """Metrics in which everything was counted once, so that each series has a sample."""
    metrics = Metrics(registry, version='1.0.0 "quoted"\n')
    for outcome in Outcome:
        metrics.requests.count(outcome, {"total": 0.002, "render": 0.001}, "template", "1-24", "prod")
    metrics.count_shadow("prod", "1-30", "different", ("image",))
    metrics.shadow_dropped.inc()
    metrics.set_revisions(
        {"1-24": RevisionRow(valid=True, loaded_at=1.0, istio_version="1.24", fingerprint="f", failed=("plain",))},
        tags_valid=True,
    )
    metrics.unserved_reviews.labels("pod", "warned").inc()
    metrics.unserved_names.labels("pod").set(1)
    metrics.guard_findings.labels("1-24", "refused").inc()
    metrics.requests.cache_hits["1-24"] += 1
    row = UpgradeRow("Running", {"left": 1}, {"done": 1}, 2, {"latency": "pass"}, 3.0, 4.0, 1, {"moving": 1})
    metrics.upgrades({"up": row})
    metrics.set_drift({("1-24", "1-30", "shop"): 2})
    metrics.background_failures.labels("certificates").inc()
    metrics.watch_faults.labels("configmaps", "gone").inc()
    metrics.watch_synced.labels("configmaps").set(1)
    metrics.count_reload("revision")
    metrics.certificate(2.0, "success")
    metrics.loop_lag.set(0.1)
    return metrics


def series() -> dict[str, set[str]]:
    """The labels of every series that the injector has, by the name that Prometheus keeps it under."""
    registry = CollectorRegistry()
    used_metrics(registry)
    labels_of = defaultdict[str, set[str]](set)
    for family in registry.collect():
        for sample in family.samples:
            labels_of[sample.name].update(sample.labels)
    return dict(labels_of)


SERIES = series()


def walked(node: Any) -> Iterator[Any]:
    """The node of an expression and all below it."""
    yield node
    for name in ("lhs", "rhs", "expr", "param", "vector_selector"):
        below = getattr(node, name, None)
        if below is not None:
            yield from walked(below)
    for argument in getattr(node, "args", None) or ():
        yield from walked(argument)


def selectors(expression: str) -> list[Any]:
    return [node for node in walked(promql.parse(expression)) if isinstance(node, promql.VectorSelector)]


def grouped(expression: str) -> set[str]:
    """The labels that an expression groups by."""
    aggregates = [node for node in walked(promql.parse(expression)) if isinstance(node, promql.AggregateExpr)]
    return {label for node in aggregates if node.modifier is not None for label in node.modifier.labels}


def faults(expression: str) -> list[str]:
    """What of an expression the injector does not have."""
    used = selectors(expression)
    unknown = [selector.name for selector in used if selector.name not in SERIES]
    labels = {label for selector in used for label in SERIES.get(selector.name, ())} | SCRAPED
    matched = [
        f"{selector.name}: {matcher.name}"
        for selector in used
        for matcher in selector.matchers.matchers
        if matcher.name not in SERIES.get(selector.name, set()) | SCRAPED
    ]
    return [*unknown, *matched, *sorted(grouped(expression) - labels)]


def queries() -> list[tuple[str, str]]:
    """The title and the expression of every panel, with the variables of Grafana filled in."""
    return [
        (f"{name}: {panel['title']}", target["expr"].replace("$__rate_interval", "5m"))
        for name, board in DASHBOARDS.items()
        for panel in board["panels"]
        for target in panel.get("targets", ())
    ]


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_asks_for_what_there_is(rule: dict[str, Any]) -> None:
    assert faults(rule["expr"]) == []
    assert all(
        [matcher.value for matcher in selector.matchers.matchers if matcher.name == "job"] == ["injector"]
        for selector in selectors(rule["expr"])
    ), "another release's pods are not its own"


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_says_how_bad_it_is_what_is_wrong_and_where_to_read_on(rule: dict[str, Any]) -> None:
    annotations = rule["annotations"]
    named = set(re.findall(r"\$labels\.(\w+)", f"{annotations['summary']} {annotations['description']}"))

    assert rule["labels"]["severity"] in ("warning", "critical")
    assert re.fullmatch(r"docs/troubleshooting\.md#[a-z]+(-[a-z]+)*", annotations["runbook"])
    assert "runbook_url" not in annotations, "a URL is absolute, and the project has none"
    assert named <= grouped(rule["expr"]), "a label that the expression loses is empty in the message"


@pytest.mark.needs("promtool")
def test_promtool_finds_no_fault_in_the_rules() -> None:
    done = subprocess.run(
        [PROMTOOL, "check", "rules", CHART / "files" / "alerts.yaml"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def with_scrape_labels(series: str) -> str:
    name, _, labels = series.partition("{")
    return f'{name}{{job="injector",namespace="injector-system",pod="p"{"," if labels else "}"}{labels}'


def alert_test(title: str, fault: dict[str, str], minutes: int, fires: list[str]) -> dict[str, Any]:
    """A test for promtool: after some minutes of a fault, these alerts fire."""
    series = {"injector_build_info": "1x100", **fault}
    expected = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in fires]
    return {
        "name": title,
        "interval": "1m",
        "input_series": [{"series": with_scrape_labels(name), "values": samples} for name, samples in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{minutes}m",
                "exp_samples": expected,
            }
        ],
    }


@pytest.mark.needs("promtool")
def test_each_alert_fires_on_its_fault_alone(tmp_path: Path) -> None:
    """Prometheus's own engine evaluates the rules."""
    tests = [alert_test(title, **alert) for title, alert in FAULTS.items()]
    rules = {"rule_files": [str(CHART / "files" / "alerts.yaml")], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(rules))

    done = subprocess.run(
        [PROMTOOL, "test", "rules", tmp_path / "test.yaml"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_fault() -> None:
    assert {name for fault in FAULTS.values() for name in fault["fires"]} == {rule["alert"] for rule in RULES}


def test_the_alerts_cover_what_an_operator_must_know() -> None:
    text = json.dumps(RULES)

    for name in (
        "sidecar_injection_failure_total",
        "unknown_revision",
        "injector_revision_config_valid",
        "injector_certificate_expiry_timestamp_seconds",
        "injector_cabundle_outdated",
        "injector_shadow_requests_total",
        "injector_event_loop_lag_seconds",
        "absent(",
    ):
        assert name in text


@pytest.mark.parametrize(("title", "expression"), queries(), ids=[title for title, _ in queries()])
def test_a_panel_asks_for_what_there_is(title: str, expression: str) -> None:
    assert faults(expression) == [], title


def test_the_dashboard_shows_what_an_upgrade_is_judged_by() -> None:
    names = {selector.name for _, expression in queries() for selector in selectors(expression)}

    assert names >= {
        *(f"sidecar_injection_{outcome}_total" for outcome in ("requests", "success", "skip", "failure")),
        "sidecar_injection_time_seconds_bucket",
        "injector_shadow_differences_total",
        "injector_revision_config_valid",
        "injector_certificate_expiry_timestamp_seconds",
        "injector_cabundle_patches_total",
        "injector_event_loop_lag_seconds",
    }


def test_the_old_and_the_new_revision_stand_side_by_side() -> None:
    (board,) = DASHBOARDS.values()
    titled = {panel["title"]: panel["gridPos"] for panel in board["panels"]}
    pairs = [title.removesuffix(": $old") for title in titled if title.endswith(": $old")]

    assert len(pairs) >= 4
    for title in pairs:
        old, new = titled[f"{title}: $old"], titled[f"{title}: $new"]
        assert (old["x"], new["x"], old["y"], old["w"]) == (0, 12, new["y"], new["w"])
    assert [variable["name"] for variable in board["templating"]["list"]] == [
        "datasource",
        "namespace",
        "job",
        "old",
        "new",
    ]


def test_no_two_panels_share_a_number_or_a_place() -> None:
    for board in DASHBOARDS.values():
        places = [panel["gridPos"] for panel in board["panels"]]
        squares = [
            (x, y)
            for at in places
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        ]

        assert len(squares) == len(set(squares))
        assert max(x for x, _ in squares) < 24, "the width of a dashboard"
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_the_metrics_are_text_that_prometheus_reads_back() -> None:
    metrics = used_metrics(CollectorRegistry())

    read = {sample.name: sample for family in parse_text(metrics.exposition().decode()) for sample in family.samples}

    assert read["sidecar_injection_requests_total"].value == 3
    assert read["injector_build_info"].labels == {"version": '1.0.0 "quoted"\n'}


def test_the_metrics_are_open_metrics_too() -> None:
    registry = CollectorRegistry()
    used_metrics(registry)
    text = open_metrics(registry).decode()  # type: ignore[no-untyped-call]
    parsed = parse_open_metrics(text)  # type: ignore[no-untyped-call]

    names = {sample.name for family in parsed for sample in family.samples}

    assert names >= {name for name in series() if re.search(r"_(total|bucket|sum|count)$", name)}


def test_the_chart_gives_rules_and_dashboards_the_name_of_the_release() -> None:
    switches = {kind: {"enabled": True} for kind in ("serviceMonitor", "dashboards")}
    rules = {"enabled": True, "runbookUrl": "https://example.com/runbook", "labels": {"team": "mesh"}}
    objects = rendered({"fullnameOverride": "mine", "monitoring": {**switches, "prometheusRule": rules}})
    rule, monitor = one(objects, "PrometheusRule"), one(objects, "ServiceMonitor")
    service = one(objects, "Service")
    spec = json.dumps(rule["spec"])

    assert rule["metadata"]["labels"]["team"] == "mesh"
    assert len(rule["spec"]["groups"][0]["rules"]) == len(RULES)
    assert 'job=\\"injector\\"' not in spec
    assert spec.count('job=\\"mine\\"') == json.dumps(ALERTS).count('job=\\"injector\\"')
    assert spec.count('"runbook_url": "https://example.com/runbook#') == len(RULES)
    assert '"runbook":' not in spec
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} <= {
        port["name"] for port in service["spec"]["ports"]
    }
    (boards,) = [
        config_map
        for config_map in of_kind(objects, "ConfigMap")
        if "grafana_dashboard" in config_map["metadata"]["labels"]
    ]
    assert {name: json.loads(text) for name, text in boards["data"].items()} == DASHBOARDS
    assert boards["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_the_dashboards_are_plain_files_of_the_chart() -> None:
    assert sorted(DASHBOARDS) == ["revisions.json"]
    assert (ROOT / "deploy" / "chart" / "dashboards").is_dir()

"""The document ``Upgrade``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from injector.errors import DataError
from injector.kube.yaml import load_yaml
from injector.upgrade import document
from injector.upgrade.document import (
    BUILT_IN,
    BY_NAMESPACE,
    BY_WEIGHT,
    INJECTED_GATEWAYS,
    ORDER_ONLY,
    ROLLBACK,
    GateWebhook,
    Limits,
    Metric,
    rank_in,
    read_upgrade,
)
from injector.upgrade.state import State
from injector.upgrade.status import Heartbeat, status_of
from tests.cases import cases
from tests.upgrade.fleets import DOCUMENT, upgrade


def test_a_short_document_has_the_documented_defaults() -> None:
    defaults = upgrade()

    assert (defaults.name, defaults.tag, defaults.source, defaults.target) == ("up", "prod", "1-28", "1-30")
    assert (
        defaults.limits.workloads,
        defaults.limits.unavailable_pods,
        defaults.limits.unavailable_pods_per_namespace,
    ) == (
        5,
        10,
        3,
    )
    assert (defaults.soak, defaults.timeout, defaults.deadline, defaults.on_failure) == (300, 600, 86400, "Pause")
    assert (defaults.gates.prometheus, defaults.gates.metrics, defaults.gates.max_restarts) == ("", (), 3)
    assert defaults.in_window(0)


def test_every_field_is_read() -> None:
    full = upgrade(
        waves=[
            {"namespaces": ["dev"], "importance": "low", "approval": True},
            {"name": "b", "selector": {"matchLabels": {"a": "b"}}},
            {"name": "rest"},
        ],
        importanceLabel="tier",
        limits={"workloads": 1, "unavailablePods": 2, "unavailablePodsPerNamespace": 1},
        gates={
            "prometheus": "http://p:9090",
            "maxRestarts": 0,
            "metrics": [{"name": "x", "query": "up", "min": 1, "noData": "Pass"}],
            "webhooks": [{"name": "y", "url": "http://h/y", "timeout": "30s", "metadata": {"a": "b"}}],
        },
        soak="1m30s",
        timeout="5m",
        deadline="2h",
        windows=[{"notBefore": "2026-03-01T22:00:00Z", "notAfter": "2026-03-02T04:00:00+01:00"}],
        onFailure="Rollback",
    )

    assert [(wave.name, wave.approval) for wave in full.waves] == [
        ("1", True),
        ("b", False),
        ("rest", False),
        (INJECTED_GATEWAYS, False),
    ]
    assert full.waves[0].includes("dev", {"tier": "low"}, full.importance_label)
    assert not full.waves[0].includes("prod", {"tier": "low"}, full.importance_label)
    assert not full.waves[0].includes("dev", {}, full.importance_label)
    assert full.waves[1].includes("any", {"a": "b"}, full.importance_label)
    assert not full.waves[1].includes("any", {}, full.importance_label)
    assert (full.soak, full.timeout, full.deadline, full.on_failure) == (90, 300, 7200, ROLLBACK)
    assert full.gates.metrics == (Metric("x", "up", 1.0, None, "Pass"),)
    assert full.gates.webhooks == (GateWebhook("y", "http://h/y", 30.0, (("a", "b"),)),)
    assert [full.in_window(at) for at in (1772402399, 1772402400, 1772420400, 1772420401)] == [
        False,
        True,
        True,
        False,
    ]


def test_prometheus_alone_means_the_built_in_queries() -> None:
    metrics = upgrade(gates={"prometheus": "https://p"}).gates.metrics

    assert {metric.name: (metric.min, metric.max) for metric in metrics} == dict(BUILT_IN)


def test_the_wave_of_injected_gateways_is_the_last_one_with_limits_of_its_own() -> None:
    plain, own = upgrade(limits={"unavailablePods": 7}), Limits(2, 7, 9)
    limits = {"workloads": 2, "unavailablePodsPerNamespace": 9}
    block = {"limits": limits, "soak": "0s", "approval": True, "order": ["edge/public", "test"], "last": False}
    document = upgrade(limits={"unavailablePods": 7}, injectedGateways=block)

    assert (plain.injected_gateway_wave, plain.limits_of(0), plain.limits_of(1)) == (
        1,
        Limits(5, 7, 3),
        Limits(1, 7, 3),
    )
    assert (plain.soak_of(1), plain.waves[1].approval, plain.injected_gateways_last) == (300, False, True)
    assert (
        document.limits_of(1),
        document.soak_of(1),
        document.waves[1].approval,
        document.injected_gateways_last,
    ) == (
        own,
        0,
        True,
        False,
    )
    assert document.limits_of(-1) == document.limits, "a workload of no wave"
    names = ["shop/a", "test/b", "edge/public", "edge/other"]
    assert sorted(names, key=lambda name: rank_in(document.waves[1].order, name)) == [
        "edge/public",
        "test/b",
        "shop/a",
        "edge/other",
    ]


@pytest.mark.parametrize(
    ("waves", "moves"),
    [
        ([{"weight": 10}, {"weight": 100}], BY_WEIGHT),
        ([{"namespaces": ["a"]}, {"name": "rest"}], BY_NAMESPACE),
        ([{"namespaces": ["a"]}, {"importance": "low"}], ORDER_ONLY),
        ([{"selector": {"matchLabels": {"a": "b"}}}], ORDER_ONLY),
        ([{"name": "all"}], ORDER_ONLY),
    ],
)
def test_the_waves_decide_how_the_tag_moves(waves: list[dict[str, Any]], moves: str) -> None:
    assert upgrade(*waves).moves == moves


@cases("spec", "says")
def test_invalid_fields_are_refused_with_their_place_and_a_remedy(spec: dict[str, object], says: str) -> None:
    with pytest.raises(DataError) as caught:
        upgrade(**spec)

    assert says in str(caught.value)
    assert caught.value.where.startswith("up.yaml: spec")
    assert caught.value.hint
    assert re.fullmatch(r"[^\n]+", str(caught.value))


@pytest.mark.parametrize("text", ["", "[]", "kind: Upgrade", "{apiVersion: revision-injector.dev/v1, kind: Upgrade}"])
def test_other_documents_are_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"up\.yaml"):
        read_upgrade(load_yaml(text), where="up.yaml")


@pytest.mark.parametrize("name", ["", "A", "a.b", "x" * 64])
def test_a_name_that_cannot_be_part_of_an_object_is_refused(name: str) -> None:
    with pytest.raises(DataError, match="is not a valid name"):
        read_upgrade({**DOCUMENT, "metadata": {"name": name}}, where="up.yaml")


def schema_of_the_resource() -> dict[str, Any]:
    path = Path(__file__).parents[2] / "deploy" / "chart" / "crds" / "upgrades.yaml"
    (version,) = load_yaml(path.read_text(), where=path.name)["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def schemas_in(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a schema and all schemas in it."""
    yield schema
    for part in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(part, dict):
            yield from schemas_in(part)


def test_a_comma_in_a_description_of_the_resource_begins_no_other_field() -> None:
    """A server-side apply refuses a field that the schema of definitions does not have, with HTTP 500."""
    schemas = list(schemas_in(schema_of_the_resource()))

    assert len(schemas) > 50
    assert [key for schema in schemas for key, value in schema.items() if value is None] == []


def test_the_resource_has_the_fields_of_the_document_and_of_the_state() -> None:
    fields = schema_of_the_resource()["properties"]
    spec = fields["spec"]["properties"]

    assert (set(spec), set(spec["limits"]["properties"])) == (set(document._SPEC), set(document._LIMITS))
    assert set(spec["waves"]["items"]["properties"]) == set(document._WAVE)
    assert set(spec["gates"]["properties"]) == set(document._GATES)
    assert set(spec["gates"]["properties"]["metrics"]["items"]["properties"]) == set(document._METRIC)
    assert set(spec["gates"]["properties"]["webhooks"]["items"]["properties"]) == set(document._WEBHOOK)
    assert set(spec["gateways"]["properties"]) == set(document._GATEWAYS)
    injected = spec["injectedGateways"]["properties"]
    assert (set(injected), set(injected["limits"]["properties"])) == (
        set(document._INJECTED_GATEWAYS),
        set(document._LIMITS),
    )
    assert set(spec["windows"]["items"]["properties"]) == set(document._WINDOW)
    status = status_of(upgrade(), State(), Heartbeat(), {}, now=0.0, generation=1)
    assert set(fields["status"]["properties"]) == set(status)
    assert set(fields["status"]["properties"]["runner"]["properties"]) == set(status["runner"])

"""Who is injected: Istio's own table, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from injector.injection.policy import injection_required
from injector.istio.behaviours import behaviours_of, parse_minor
from injector.istio.config import parse_inject_config
from injector.kube.yaml import dump_yaml
from tests.conformance import corpus

pytestmark = pytest.mark.needs("corpus")

SELECTORS = ("neverInjectSelector", "alwaysInjectSelector")
ROWS = corpus.policy_rows()


def test_the_table_has_all_its_rows() -> None:
    assert len(ROWS) == 36


@pytest.mark.parametrize(
    "row", ROWS, ids=[f"{index:02}-{row['policy']}-{row['name']}" for index, row in enumerate(ROWS)]
)
def test_a_pod_is_injected_as_the_table_says(row: dict[str, Any]) -> None:
    config = {"policy": row["policy"], "templates": {"sidecar": "{}"}} | {
        key: row[key] for key in SELECTORS if key in row
    }
    policy = parse_inject_config(dump_yaml(config)).policy

    decision = injection_required(
        policy, behaviours_of(parse_minor("1.30", where="test")), row["pod"], row["pod"]["metadata"]["namespace"]
    )

    assert decision.inject is row["inject"], decision.detail

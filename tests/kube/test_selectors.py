"""Recorded from Go 1.26 with k8s.io/apimachinery v0.35.3 by recorder/selectors."""

from __future__ import annotations

from typing import Any

import pytest

from injector.errors import ManifestError
from injector.kube.selectors import Selector
from tests.cases import cases
from tests.kube.recorded import recorded, result_of

CASES = recorded("selectors", more_than=250)
NUMBERS = "cannot unmarshal number"
"""Go refuses numbers for strings in JSON, but not in YAML, where selectors are written."""


def outcome(case: dict[str, Any]) -> Any:
    """What a selector matches and whether it is empty, or the error."""
    selector = result_of(Selector.compile, case["selector"])
    return selector if isinstance(selector, str) else (list(map(selector.matches, case["labels"])), selector.is_empty)


def test_selectors_match_what_gos_match() -> None:
    cases = [case for case in CASES if "error" not in case]

    assert [outcome(case) for case in cases] == [(case["matches"], case.get("empty", False)) for case in cases]


def test_what_kubernetes_refuses_is_refused() -> None:
    refused = [case for case in CASES if "error" in case and NUMBERS not in case["error"]]

    assert [case["selector"] for case in refused if not str(outcome(case)).startswith("error: ")] == []


def test_a_number_counts_as_the_text_it_is_written_as() -> None:
    assert Selector.compile({"matchLabels": {"a": 1}}).matches({"a": "1"})


@cases("raw", "message")
def test_an_error_says_where_what_and_what_to_do(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        Selector.compile(raw, where="x.yaml")


def test_a_long_key_is_judged_at_once() -> None:
    with pytest.raises(ManifestError, match="key: Invalid value"):
        Selector.compile({"matchLabels": {"a-" * 100_000 + "/a": "1"}})

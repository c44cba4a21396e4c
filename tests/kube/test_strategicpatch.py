"""Recorded from Go 1.26 with k8s.io/apimachinery v0.35.3 by recorder/strategic."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from injector.errors import ManifestError
from injector.kube.strategicpatch import (
    same_element_kind,
    strategic_merge,
)
from tests.cases import cases
from tests.kube.recorded import recorded, result_of

CASES = recorded("strategic_merge", more_than=800)


def merged(case: dict[str, Any]) -> Any:
    """Our result, or the error."""
    return result_of(strategic_merge, case["original"], case["patch"], case.get("type", "v1.Pod"))


def test_results_equal_gos() -> None:
    wanted = {case["name"]: case["result"] for case in CASES if "error" not in case}

    assert {case["name"]: merged(case) for case in CASES if "error" not in case} == wanted


def test_what_go_refuses_is_refused() -> None:
    refused = [case for case in CASES if "error" in case]

    assert len(refused) > 160
    assert [case["name"] for case in refused if not str(merged(case)).startswith("error: ")] == []


def test_nothing_given_is_changed() -> None:
    before = orjson.dumps(CASES)
    for case in CASES:
        merged(case)

    assert orjson.dumps(CASES) == before


def test_what_the_patch_leaves_alone_is_shared() -> None:
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "app"}], "volumes": [{"name": "v"}]}}

    result = strategic_merge(pod, {"spec": {"containers": [{"name": "istio-proxy"}]}})

    assert result["metadata"] is pod["metadata"]
    assert result["spec"]["volumes"] is pod["spec"]["volumes"]  # type: ignore[index] # a pod's spec is an object


@cases("patch", "message")
def test_an_error_says_what_is_wrong_without_showing_values(patch: dict[str, Any], message: str) -> None:
    pod = {"spec": {"containers": [{"name": "app"}], "nope": {"a": 1}}}

    with pytest.raises(ManifestError) as caught:
        strategic_merge(pod, patch)

    assert caught.value.what == message


def test_elements_of_all_lists_have_one_type() -> None:
    assert same_element_kind([1], [2.5]) is float
    assert same_element_kind([], []) is None
    with pytest.raises(ManifestError, match="lists of lists are not supported"):
        same_element_kind([["a"]])

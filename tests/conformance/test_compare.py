"""The comparison lets differ what the corpus's README says, and nothing else."""

from __future__ import annotations

from typing import Any

from tests.cases import cases
from tests.conformance import compare, workloads

DEPLOYMENT = {"kind": "Deployment", "metadata": {"name": "a"}, "spec": {"template": {"spec": {"containers": []}}}}


@cases("left", "right")
def test_what_go_prints_of_its_own_makes_no_difference(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert compare.difference([left], [right]) == ""
    assert compare.difference([right], [left]) == ""


@cases("left", "right")
def test_everything_else_does(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert compare.difference([left], [right]) != ""


def test_documents_are_compared_in_order() -> None:
    assert compare.difference([{"a": 1}, {"b": 2}], [{"b": 2}, {"a": 1}]) != ""
    assert compare.difference([{"a": 1}], [{"a": 1}, {"b": 2}]) != ""


def test_a_long_difference_is_cut() -> None:
    shown = compare.difference([{"a": list(range(500))}], [{"a": []}])

    assert len(shown.splitlines()) == compare.MAX_DIFF_LINES + 1


def test_a_deployment_leads_to_a_pod_of_its_replica_set() -> None:
    assert workloads.as_pod({**DEPLOYMENT, "apiVersion": "apps/v1"})["metadata"] == {
        "generateName": "a-fake-",
        "labels": {"pod-template-hash": "fake"},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a-fake", "controller": True, "uid": ""}
        ],
    }


def test_a_list_is_taken_apart_and_services_are_left_out() -> None:
    documents = [{"kind": "List", "items": [DEPLOYMENT, {"kind": "Service"}]}, {"kind": "ConfigMap"}]

    assert workloads.injectable(documents) == [DEPLOYMENT]

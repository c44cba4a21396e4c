"""The conditions of an Upgrade, as kstatus, and so kubectl, Flux and Argo CD, read them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from injector.upgrade.state import (
    ABORTED,
    BY_USER,
    COMPLETED,
    INCOMPLETE,
    PAUSED,
    ROLLED_BACK,
    ROLLING_BACK,
    RUNNING,
    WAITING_FOR_APPROVAL,
    State,
)
from injector.upgrade.status import Heartbeat, read_heartbeat, status_before_start, status_of
from tests.upgrade.fleets import upgrade

HEARTBEAT = Heartbeat("runner", 1000.0)


def status(state: State, before: dict[str, Any] | None = None, now: float = 1000.0) -> dict[str, Any]:
    return status_of(upgrade(), state, HEARTBEAT, before or {}, now=now, generation=3)


def kstatus(item: dict[str, Any]) -> str:
    """Return the status of a resource by the rules of kstatus (pkg/kstatus/status/generic.go and status.go)."""
    observed = item.get("status", {}).get("observedGeneration")
    if observed is not None and observed != item["metadata"]["generation"]:
        return "InProgress"
    conditions = {entry["type"]: entry["status"] for entry in item.get("status", {}).get("conditions", ())}
    if conditions.get("Reconciling") == "True":
        return "InProgress"
    if conditions.get("Stalled") == "True":
        return "Failed"
    return "Current" if conditions.get("Ready", "True") == "True" else "InProgress"


@pytest.mark.parametrize(
    ("state", "expected", "true"),
    [
        (State(phase=RUNNING), "InProgress", {"Reconciling"}),
        (State(phase=ROLLING_BACK, back=True), "InProgress", {"Reconciling"}),
        (State(phase=PAUSED, cause=BY_USER), "InProgress", set()),
        (State(phase=RUNNING, cause=WAITING_FOR_APPROVAL), "InProgress", set()),
        (State(phase=PAUSED, cause="GateFailed"), "Failed", {"Stalled"}),
        (State(phase=COMPLETED), "Current", {"Ready", "Completed"}),
        (State(phase=INCOMPLETE), "Failed", {"Stalled"}),
        (State(phase=ABORTED), "Failed", {"Stalled"}),
        (State(phase=ROLLED_BACK, back=True), "Failed", {"Stalled", "RolledBack"}),
    ],
)
def test_each_phase_has_the_conditions_that_kstatus_understands(state: State, expected: str, true: set[str]) -> None:
    entries = status(state)

    assert kstatus({"metadata": {"generation": 3}, "status": entries}) == expected
    assert {entry["type"] for entry in entries["conditions"] if entry["status"] == "True"} == true
    assert kstatus({"metadata": {"generation": 4}, "status": entries}) == "InProgress", "the document has changed"
    assert all(entry["reason"].isalnum() and entry["message"] for entry in entries["conditions"])


def test_a_resource_that_no_runner_has_seen_is_in_progress() -> None:
    assert kstatus({"metadata": {"generation": 1}, "status": {"observedGeneration": -1}}) == "InProgress"
    refused = status_before_start("no such tag", {}, HEARTBEAT, generation=1)
    assert kstatus({"metadata": {"generation": 1}, "status": refused}) == "InProgress"
    assert {entry["message"] for entry in refused["conditions"]} == {"no such tag"}


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    first = status(State(phase=RUNNING), now=1000.0)
    second = status(State(phase=RUNNING, reason="soaking"), first, now=2000.0)
    last = status(State(phase=COMPLETED), second, now=3000.0)

    def times(entries: dict[str, Any]) -> dict[str, str]:
        return {entry["type"]: entry["lastTransitionTime"] for entry in entries["conditions"]}

    assert set(times(second).values()) == {"1970-01-01T00:16:40Z"}
    assert times(last) == {
        "Ready": "1970-01-01T00:50:00Z",
        "Reconciling": "1970-01-01T00:50:00Z",
        "Stalled": "1970-01-01T00:16:40Z",
        "Completed": "1970-01-01T00:50:00Z",
        "RolledBack": "1970-01-01T00:16:40Z",
    }


def test_a_heartbeat_is_read_as_it_was_written_and_is_late_after_a_while() -> None:
    beat = replace(HEARTBEAT, error="the API server does not answer")
    entries = status_of(upgrade(), State(), beat, {}, now=1000.0, generation=1)

    assert read_heartbeat(entries) == beat
    assert (beat.is_late(1090.0), beat.is_late(1091.0)) == (False, True)
    assert read_heartbeat({}).runner == ""

from __future__ import annotations

from typing import Any

import pytest

from injector.webhook.chart import OTHERS, STYLES, charts, times

NOON = 43200.0


def count(workloads: int, failures: int = 0) -> dict[str, int]:
    """What one revision did in one step."""
    return {"workloads": workloads, "requests": workloads, "failures": failures}


def step(end: float, differences: int = 0, **revisions: dict[str, int]) -> dict[str, Any]:
    """A step; underscores in names stand for hyphens."""
    named = {name.replace("_", "-"): counts for name, counts in revisions.items()}
    return {"end": end, "revisions": named, "shadowDifferences": differences}


def status(
    *steps: dict[str, Any], weights: dict[str, int] | None = None, shadow: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A status with the tag `prod` and its history of four steps of ten seconds."""
    tag = {"name": "prod", "weights": weights or {"r1-24": 90, "r1-30": 10}, "shadow": shadow}
    ends = [NOON + 10 * number for number in range(3)]
    history = {"window": "10m", "stepSeconds": 10.0, "steps": 4, "ends": ends}
    history["tags"] = [{"name": "prod", "steps": list(steps)}] if steps else []
    revisions = [{"name": "r1-24", "istioVersion": "1.24"}, {"name": "r1-30", "istioVersion": "1.30"}]
    return {"revisions": revisions, "tags": [tag], "requests": [], "canaries": [], "history": history}


def chart(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The one chart of such a status."""
    (found,) = charts(status(*steps, **fields))
    return found


def test_a_column_is_stacked_from_the_bottom_oldest_revision_first() -> None:
    (column,) = chart(step(NOON, r1_30=count(1), r1_24=count(3)))["columns"]

    assert column["shares"] == [
        {"style": 0, "y": "25.00%", "height": "75.00%"},
        {"style": 1, "y": "0.00%", "height": "25.00%"},
    ]
    assert column["cells"] == [
        {"revision": "r1-24", "workloads": 3, "share": "75 %"},
        {"revision": "r1-30", "workloads": 1, "share": "25 %"},
    ]


def test_the_last_step_is_at_the_right_and_gaps_stay_gaps() -> None:
    columns = chart(step(NOON, r1_24=count(1)), step(NOON + 20, r1_24=count(1)))["columns"]

    assert [column["x"] for column in columns] == ["25.00%", "75.00%"]
    assert [column["times"] for column in columns] == ["11:59:50 to 12:00:00", "12:00:10 to 12:00:20"]


def test_the_times_below_span_the_whole_window() -> None:
    ticks = chart(step(NOON, r1_24=count(1)))["ticks"]

    assert [(tick["x"], tick["text"]) for tick in ticks] == [
        ("0%", "11:59:40Z"),
        ("50%", "12:00:00Z"),
        ("100%", "12:00:20Z"),
    ]


def test_failures_and_differences_are_drawn_against_their_worst_step() -> None:
    found = chart(step(NOON, 3, r1_24=count(9, 1), r1_30=count(1, 3)), step(NOON + 10, 6, r1_24=count(9, 2)))

    first, second = found["columns"]
    assert (found["failures"], found["mostFailures"]) == (6, 4)
    assert (found["differences"], found["mostDifferences"]) == (9, 6)
    assert first["failed"] == [
        {"style": 0, "y": "75.00%", "height": "25.00%"},
        {"style": 1, "y": "0.00%", "height": "75.00%"},
    ]
    assert second["failed"] == [{"style": 0, "y": "50.00%", "height": "50.00%"}]
    assert (first["differing"], second["differing"]) == (
        {"y": "50.00%", "height": "50.00%"},
        {"y": "0.00%", "height": "100.00%"},
    )


def test_a_step_with_failures_alone_has_no_shares() -> None:
    (column,) = chart(step(NOON, r1_24=count(0, 2)))["columns"]

    assert (column["shares"], [cell["share"] for cell in column["cells"]]) == ([], ["none", "none"])


def test_the_legend_says_the_weight_what_came_last_and_who_is_only_tried() -> None:
    shadow = {"revision": "next"}

    found = chart(step(NOON, r1_24=count(3), r1_30=count(1)), shadow=shadow)["revisions"]

    assert [(each["name"], each["percent"], each["tried"]) for each in found] == [
        ("next", None, True),
        ("r1-24", 90.0, False),
        ("r1-30", 10.0, False),
    ]
    assert found[1]["last"] == {"revision": "r1-24", "workloads": 3, "share": "75 %"}


def test_more_revisions_than_patterns_are_drawn_as_one() -> None:
    many = {f"r{number}": count(10 + number) for number in range(9)}

    found = chart(step(NOON, 0, **many), weights={"r8": 1})

    assert [each["name"] for each in found["revisions"]] == ["r8", "r4", "r5", "r6", "r7", OTHERS]
    assert max(part["style"] for part in found["columns"][0]["shares"]) == STYLES - 1
    assert found["columns"][0]["cells"][-1]["workloads"] == 10 + 11 + 12 + 13


@pytest.mark.parametrize(
    ("weights", "shadow", "drawn"),
    [({"a": 1}, None, 0), ({"a": 1, "b": 1}, None, 1), ({"a": 1}, {"revision": "b"}, 1)],
)
def test_without_a_history_only_a_choice_or_a_shadow_is_worth_a_chart(
    weights: dict[str, int], shadow: dict[str, Any] | None, drawn: int
) -> None:
    found = charts(status(weights=weights, shadow=shadow))

    assert [each["columns"] for each in found] == [[]] * drawn


def test_requests_that_name_a_revision_are_drawn_last() -> None:
    found = status(step(NOON, r1_24=count(1)))
    found["history"]["tags"].insert(0, {"name": "", "steps": [step(NOON, unknown=count(0, 1))]})

    assert [each["name"] for each in charts(found)] == ["prod", ""]


def test_a_step_is_told_from_when_to_when() -> None:
    assert times(NOON, 120) == "11:58:00 to 12:00:00"

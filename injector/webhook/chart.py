"""The history of a tag as it is drawn, and as a table of the same figures.

Everything is a percentage of the panel that it is drawn in, from the left and from the top: the page decides how large that
is. Revisions have a style each, a colour with a pattern of its own, oldest first.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from injector.webhook.comparison import oldest_first, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

STYLES: Final = 6
"""How many patterns the page has; the last one is that of all further revisions."""
OTHERS: Final = "all others"
# Of a column's width; what is left keeps steps apart.
_BAR: Final = 0.86
_ALL: Final = 100
_Counts = dict[str, dict[str, int]]


def charts(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what is drawn: each tag of which there is a history, a choice or a shadow, and requests without a tag."""
    history = status["history"]
    steps = {each["name"]: each["steps"] for each in history["tags"]}
    tags: list[dict[str, Any] | None] = [
        tag for tag in status["tags"] if tag["name"] in steps or len(tag["weights"]) > 1 or tag["shadow"]
    ]
    if "" in steps:
        tags.append(None)
    return [_chart(status, tag, steps.get(tag["name"] if tag else "", ())) for tag in tags]


def _chart(
    status: Mapping[str, Any], tag: Mapping[str, Any] | None, steps: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    history, name = status["history"], tag["name"] if tag else ""
    styles = _styles(status, tag, steps)
    folded = [(step["end"], _folded(step["revisions"], styles), step["shadowDifferences"]) for step in steps]
    most_failures = max((sum(each["failures"].values()) for _, each, _ in folded), default=0)
    most_differences = max((differences for _, _, differences in folded), default=0)
    drawn = [
        {
            "times": times(end, history["stepSeconds"]),
            "until": _clock(end),
            "differences": differences,
            "failures": sum(counts["failures"].values()),
            "cells": list(_cells(counts, styles)),
            "x": _x(history, end),
            "shares": list(_stacked(counts["workloads"], styles, sum(counts["workloads"].values()))),
            "failed": list(_stacked(counts["failures"], styles, most_failures)),
            "differing": _bar(differences, most_differences),
        }
        for end, counts, differences in folded
    ]
    return {
        "name": name,
        "width": _percent(_BAR * _ALL / history["steps"]),
        "revisions": [_legend(each, style, tag, drawn) for each, style in styles.items()],
        "columns": drawn,
        "failures": sum(each["failures"] for each in drawn),
        "mostFailures": most_failures,
        "differences": sum(each["differences"] for each in drawn),
        "mostDifferences": most_differences,
        "ticks": _ticks(history),
        "canary": next((_styled(each, styles) for each in status["canaries"] if each["tag"] == name), None),
        "shadow": tag["shadow"] if tag else None,
    }


def _styles(
    status: Mapping[str, Any], tag: Mapping[str, Any] | None, steps: Sequence[Mapping[str, Any]]
) -> dict[str, int]:
    """Return the style of each revision that is drawn; where there are too many, those with the most workloads have one."""
    weight: Counter[str] = Counter()
    for step in steps:
        weight.update({name: counts["workloads"] for name, counts in step["revisions"].items()})
    names = {*weight, *(tag["weights"] if tag else ()), *([tag["shadow"]["revision"]] if tag and tag["shadow"] else [])}
    if len(names) <= STYLES:
        return {name: style for style, name in enumerate(oldest_first(status, tag, names))}
    heaviest = sorted(names, key=lambda name: (-weight[name], name))[: STYLES - 1]
    return {name: style for style, name in enumerate(oldest_first(status, tag, heaviest))} | {OTHERS: STYLES - 1}


def _styled(canary: Mapping[str, Any], styles: Mapping[str, int]) -> dict[str, Any]:
    """Return the two columns of a canary, each with the style that its revision is drawn in."""
    return {
        side: {**canary[side], "style": styles.get(canary[side]["revision"], STYLES - 1)} for side in ("old", "new")
    }


def _folded(revisions: Mapping[str, Mapping[str, int]], styles: Mapping[str, int]) -> _Counts:
    """Return workloads and failures by what has a style."""
    found: _Counts = {"workloads": {}, "failures": {}}
    for key, counts in found.items():
        for name, each in revisions.items():
            drawn = name if name in styles else OTHERS
            counts[drawn] = counts.get(drawn, 0) + each[key]
    return found


def _cells(counts: _Counts, styles: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    total = sum(counts["workloads"].values())
    for name in styles:
        workloads = counts["workloads"].get(name, 0)
        yield {
            "revision": name,
            "workloads": workloads,
            "share": f"{_ALL * workloads / total:.3g} %" if total else "none",
        }


def _stacked(counts: Mapping[str, int], styles: Mapping[str, int], whole: int) -> Iterator[dict[str, Any]]:
    """Yield the parts of a column, from the bottom up, oldest revision first."""
    top = float(_ALL)
    for name, style in styles.items():
        if count := counts.get(name, 0):
            height = _ALL * count / whole
            top -= height
            yield {"style": style, "y": _percent(max(top, 0.0)), "height": _percent(height)}


def _bar(count: int, whole: int) -> dict[str, str] | None:
    return {"y": _percent(_ALL - _ALL * count / whole), "height": _percent(_ALL * count / whole)} if count else None


def _x(history: Mapping[str, Any], end: float) -> str:
    """Return where the step that ended then is drawn: the last one is at the right."""
    ends = history["ends"]
    return _percent(_ALL * (history["steps"] - len(ends) + ends.index(end)) / history["steps"])


def _legend(name: str, style: int, tag: Mapping[str, Any] | None, drawn: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    weight = percent(tag["weights"][name], tag) if tag and name in tag["weights"] else None
    last = next((cell for cell in drawn[-1]["cells"] if cell["revision"] == name), None) if drawn else None
    tried = bool(tag and tag["shadow"] and tag["shadow"]["revision"] == name)
    return {"name": name, "style": style, "percent": weight, "last": last, "tried": tried}


def _ticks(history: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the times below a chart, at its left end, in the middle and at its right end."""
    if not history["ends"]:
        return []
    span = history["steps"] * history["stepSeconds"]
    places = ((0, "start", 1.0), (50, "middle", 0.5), (_ALL, "end", 0.0))
    return [
        {"x": f"{x}%", "anchor": anchor, "text": f"{_clock(history['ends'][-1] - back * span)}Z"}
        for x, anchor, back in places
    ]


def times(end: float, seconds: float) -> str:
    """Return from when to when a step was: ``12:30:00 to 12:32:00``, UTC."""
    return f"{_clock(end - seconds)} to {_clock(end)}"


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S}"


def _percent(value: float) -> str:
    return f"{value:.2f}%"

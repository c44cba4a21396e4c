"""The changes of workloads as `diff` shows them: as text for people, as data for programs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.cli.table import printable, table
from injector.injection.podchanges import KINDS
from injector.injection.treediff import ABSENT
from injector.kube.escaping import escape_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from injector.injection.podchanges import Change
    from injector.kube.created import Created

COLUMNS: Final = ("KIND", "WORKLOADS", "CHANGES")
NOTHING: Final = "(none)"


@dataclass(frozen=True, slots=True)
class WorkloadChanges:
    """What differs for one workload."""

    workload: Created
    changes: tuple[Change, ...]


def tally(compared: Iterable[WorkloadChanges]) -> dict[str, tuple[int, int]]:
    """Return for each kind that occurs, in the order of ``KINDS``, how many workloads have it and how many changes."""
    kinds = [[change.kind for change in each.changes] for each in compared]
    return {
        kind: (sum(kind in each for each in kinds), sum(each.count(kind) for each in kinds))
        for kind in KINDS
        if any(kind in each for each in kinds)
    }


def as_text(compared: Sequence[WorkloadChanges], old: str, new: str) -> str:
    """Return the workloads that differ, each with its changes by kind, and a table of the kinds after them."""
    differing = [each for each in compared if each.changes]
    total = f"{len(compared)} workload{'' if len(compared) == 1 else 's'}"
    if not differing:
        return f"no difference in {total} between {old} and {new}\n"
    counts = [(kind, str(workloads), str(changes)) for kind, (workloads, changes) in tally(differing).items()]
    summary = f"{len(differing)} of {total} differ{'s' if len(differing) == 1 else ''} between {old} and {new}\n"
    return "".join(f"{_workload(each)}\n" for each in differing) + table(COLUMNS, counts) + f"\n{summary}"


def as_data(compared: Iterable[WorkloadChanges]) -> dict[str, Any]:
    """Return the workloads with their changes, and the summary, as JSON data; ``old`` or ``new`` is left out where there is nothing."""
    compared = list(compared)
    return {
        "workloads": [
            {
                "kind": each.workload.kind,
                "namespace": each.workload.namespace,
                "name": each.workload.name,
                "changes": [_change_data(change) for change in each.changes],
            }
            for each in compared
        ],
        "summary": {
            kind: {"workloads": workloads, "changes": changes} for kind, (workloads, changes) in tally(compared).items()
        },
    }


def _change_data(change: Change) -> dict[str, Any]:
    sides = {"old": change.old, "new": change.new}
    path = {"path": change.path} if change.path else {}
    return {"kind": change.kind, **path, **{side: value for side, value in sides.items() if value is not ABSENT}}


def _workload(each: WorkloadChanges) -> str:
    lines = [str(each.workload)]
    kind = ""
    for change in each.changes:
        if change.kind != kind:
            kind = change.kind
            lines.append(f"  {kind}")
        path = f"{escape_line(change.path)}: " if change.path else ""
        lines.append(f"    {path}{_shown(change, change.old)} -> {_shown(change, change.new)}")
    return "".join(f"{line}\n" for line in lines)


def _shown(change: Change, value: Any) -> str:
    if value is ABSENT:
        return NOTHING
    if change.kind == "order":
        return ", ".join(printable(name) for name in value)
    if change.kind == "containers" and isinstance(value, dict):
        return f"a container of image {printable(str(value.get('image', '')))}"
    return printable(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=True, separators=(", ", ": "))

"""The changes of many workloads, counted by their kinds and grouped by those that occur together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from injector.injection.result import Injected
from injector.injection.tools.podchanges import ABSENT, KINDS, POD_SECURITY, Change
from injector.kube.escaping import printable

if TYPE_CHECKING:
    from injector.fleet.compare import Comparison
    from injector.kube.podtemplates import Created

_CAPABILITIES: Final = "securityContext.capabilities.add"
_PRIVILEGED: Final = "securityContext.privileged"
_REFUSED: Final = "refused: "


def tally(comparisons: Iterable[Comparison]) -> dict[str, tuple[int, int]]:
    """Return the number of workloads and of changes for each kind of change that occurs, in the order of ``KINDS``."""
    kinds = [[change.kind for change in comparison.changes] for comparison in comparisons]
    return {
        kind: (
            sum(kind in workload_kinds for workload_kinds in kinds),
            sum(workload_kinds.count(kind) for workload_kinds in kinds),
        )
        for kind in KINDS
        if any(kind in workload_kinds for workload_kinds in kinds)
    }


def groups(comparisons: Iterable[Comparison]) -> list[tuple[tuple[str, ...], list[Created]]]:
    """Return the kinds of changes that occur together, each with the workloads that have them, the largest group first.

    Gained and lost privileges and containers are kinds of their own here.
    """
    workloads_by_kinds: dict[tuple[str, ...], list[Created]] = {}
    for comparison in comparisons:
        if comparison.changes:
            workloads_by_kinds.setdefault(group_of(comparison), []).append(comparison.workload)
    return sorted(workloads_by_kinds.items(), key=lambda group: (-len(group[1]), group[0]))


def group_of(comparison: Comparison) -> tuple[str, ...]:
    """Return the kinds of changes of a workload."""
    return tuple(dict.fromkeys(name for change in comparison.changes for name in _group_names(change)))


def _group_names(change: Change) -> list[str]:
    """Return the names of a change in a group: its kind, or the privileges, container or decision that change."""
    if change.kind == "decision":
        refused = str(change.new).startswith(_REFUSED)
        return [printable(str(change.new) if refused else f"{change.old} -> {change.new}")]
    if change.path.endswith(_CAPABILITIES):
        old, new = (frozenset(side) if isinstance(side, list) else frozenset() for side in (change.old, change.new))
        return [f"{value} gained" for value in sorted(new - old)] + [f"{value} lost" for value in sorted(old - new)]
    if change.path.endswith(_PRIVILEGED):
        return ["privileged gained" if change.new is True else "privileged lost"]
    if change.kind == POD_SECURITY:
        return [f"pod security {change.old} to {change.new}"]
    if change.kind == "containers" and change.path.endswith("]") and ABSENT in (change.old, change.new):
        name = change.path.partition("[")[2].removesuffix("]")
        return [f"container {name} {'gained' if change.old is ABSENT else 'lost'}"]
    return [change.kind]


def group_to_check(comparison: Comparison) -> tuple[str, ...] | None:
    """Return the group of a comparison whose new pod an API server can check; None if it does not differ, or is not injected."""
    return group_of(comparison) if comparison.changes and isinstance(comparison.new, Injected) else None

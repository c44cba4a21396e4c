"""The changes of many workloads at once: which have the same kinds of change, and how many each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.cli.table import printable
from injector.injection.treediff import ABSENT
from injector.kube.escaping import escape_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from injector.cli.changes import WorkloadChanges
    from injector.injection.podchanges import Change
    from injector.kube.created import Created

EXAMPLES: Final = 3
_CAPABILITIES: Final = "securityContext.capabilities.add"
_PRIVILEGED: Final = "securityContext.privileged"
_REFUSED: Final = "refused: "


@dataclass(frozen=True, slots=True)
class Group:
    """Workloads that change alike: in the same kinds, and in the same of what a reviewer wants to know by itself."""

    changes: tuple[str, ...]
    workloads: tuple[Created, ...]

    def __str__(self) -> str:
        """Say how many they are and what changes."""
        only = " only" if len(self.changes) == 1 and " " not in self.changes[0] else ""
        return f"{len(self.workloads)} {', '.join(self.changes)}{only}"


def groups(compared: Iterable[WorkloadChanges]) -> list[Group]:
    """Return the workloads that change in groups, the largest first."""
    found: dict[tuple[str, ...], list[Created]] = {}
    for each in compared:
        if each.changes:
            words = tuple(dict.fromkeys(word for change in each.changes for word in _words(change)))
            found.setdefault(words, []).append(each.workload)
    made = [Group(words, tuple(workloads)) for words, workloads in found.items()]
    return sorted(made, key=lambda group: (-len(group.workloads), group.changes))


def as_summary(compared: Sequence[WorkloadChanges], old: str, new: str) -> str:
    """Return a line for each group of workloads, with a few of them, and a line that counts them all."""
    lines = [f"{escape_line(str(group))}: {_examples(group.workloads)}\n" for group in groups(compared)]
    differing = sum(bool(each.changes) for each in compared)
    total = f"{len(compared)} workload{'' if len(compared) == 1 else 's'}"
    if not differing:
        return f"no difference in {total} between {old} and {new}\n"
    return "".join(lines) + f"\n{differing} of {total} differ{'s' if differing == 1 else ''} between {old} and {new}\n"


def groups_data(compared: Iterable[WorkloadChanges]) -> list[dict[str, Any]]:
    """Return the groups as JSON data."""
    return [
        {
            "changes": list(group.changes),
            "count": len(group.workloads),
            "workloads": [
                {"kind": each.kind, "namespace": each.namespace, "name": each.name} for each in group.workloads
            ],
        }
        for group in groups(compared)
    ]


def _words(change: Change) -> list[str]:
    """Return what a change is called: its kind, but for what more or fewer privileges, containers or injections come of."""
    if change.kind == "decision":
        refused = str(change.new).startswith(_REFUSED)
        return [printable(str(change.new) if refused else f"{change.old} -> {change.new}")]
    if change.path.endswith(_CAPABILITIES):
        return _capabilities(change)
    if change.path.endswith(_PRIVILEGED):
        return ["privileged gained" if change.new is True else "privileged lost"]
    if change.kind == "containers" and ABSENT in (change.old, change.new):
        name = change.path.partition("[")[2].removesuffix("]")
        return [f"container {name} {'gained' if change.old is ABSENT else 'lost'}"]
    return [change.kind]


def _capabilities(change: Change) -> list[str]:
    old, new = (frozenset(side) if isinstance(side, list) else frozenset() for side in (change.old, change.new))
    return [f"{each} gained" for each in sorted(new - old)] + [f"{each} lost" for each in sorted(old - new)]


def _examples(workloads: Sequence[Created]) -> str:
    more = len(workloads) - EXAMPLES
    named = ", ".join(map(str, workloads[:EXAMPLES]))
    return f"{named} and {more} more" if more > 0 else named

"""The outcome of a proof: the pods that this injector would give a new revision, beside those of that revision's running istiod."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.hints import first_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.kube.podtemplates import WorkloadKey

SAME: Final = "same"
DOCUMENTED: Final = "documented"
DIFFERS: Final = "differs"
NOT_COMPARED: Final = "not compared"
OUTCOMES: Final = (SAME, DOCUMENTED, DIFFERS, NOT_COMPARED)
"""The outcomes for a workload: a documented difference is one that docs/compatibility.md lists."""
_MAX_PATHS: Final = 5
_MAX_WORKLOADS: Final = 10


@dataclass(frozen=True, slots=True)
class WorkloadProof:
    """The outcome for a workload, one of ``OUTCOMES``, with the paths that differ and the reason, if there is one."""

    outcome: str
    paths: tuple[str, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        details = first_of(self.paths, _MAX_PATHS) if self.outcome == DIFFERS else self.reason
        return f"{self.outcome}: {details}" if details else self.outcome

    def data(self) -> dict[str, Any]:
        """Return it as JSON data."""
        paths = {"paths": list(self.paths)} if self.paths else {}
        return {"outcome": self.outcome, **paths, **({"reason": self.reason} if self.reason else {})}


@dataclass(frozen=True, slots=True)
class Proof:
    """The outcomes for the workloads of the waves. ``istiod`` is the address that was asked."""

    istiod: str
    workloads: Mapping[WorkloadKey, WorkloadProof]
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """The number of workloads of each outcome."""
        counts = Counter(proof.outcome for proof in self.workloads.values())
        return {outcome: counts[outcome] for outcome in OUTCOMES}

    @property
    def has_findings(self) -> bool:
        """Whether a workload differs for an unknown reason, or was not compared."""
        return bool(self.counts[DIFFERS] or self.counts[NOT_COMPARED])

    def data(self) -> dict[str, Any]:
        """Return the address and the counts as JSON data."""
        counts = self.counts
        not_compared = counts.pop(NOT_COMPARED)
        return {"istiod": self.istiod, **counts, "notCompared": not_compared}

    def lines(self) -> list[str]:
        """Return the counts, and a line for each difference and each reason with the first workloads."""
        counts = ", ".join(f"{count} {outcome}" for outcome, count in self.counts.items() if count)
        names: dict[str, list[str]] = {}
        for key, proof in self.workloads.items():
            if proof.outcome != SAME:
                names.setdefault(str(proof), []).append(f"{key[1]} {key[0]}/{key[2]}")
        details = sorted(names.items(), key=lambda item: (-len(item[1]), item[0]))
        return [
            f"beside {self.istiod}: {counts or 'no workload'}",
            *(f"{len(keys)} {text}: {first_of(keys, _MAX_WORKLOADS)}" for text, keys in details),
        ]

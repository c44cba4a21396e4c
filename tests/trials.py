"""Results of trials, which processes can share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class TrialResults:
    """The number of pods that were tried, the kinds of the answers, and the faults."""

    tried: int = 0
    came: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def add(self, other: TrialResults) -> None:
        """Add other results."""
        self.tried += other.tried
        self.came += other.came
        self.faults += other.faults

    def counted(self, wanted: int) -> str:
        """Return the number of pods, and the wanted one if time was too short."""
        return f"{self.tried}" if self.tried >= wanted else f"{self.tried} of {wanted}"

    def met(self, wanted: int) -> bool:
        """Whether as many as wanted were tried, without a fault."""
        return self.tried >= wanted > 0 and not self.faults

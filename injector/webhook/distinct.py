"""How many different workloads were seen, told in a kilobyte however many there were: a HyperLogLog.

A set of names, or of their hashes, would grow with the cluster, and a bounded sample of the smallest hashes sorts on each
insert. Here a hash picks one of ``REGISTERS`` bytes and raises it to the position of the hash's first 1 bit: one
comparison and at most one write. Sketches of two spans of time merge into that of both, which counts cannot.

Flajolet, Fusy, Gandouet, Meunier: HyperLogLog, the analysis of a near-optimal cardinality estimation algorithm (2007);
the estimate is that of Ertl: New cardinality estimation algorithms for HyperLogLog sketches (2017, arXiv:1702.01284,
algorithm 6), which is unbiased from a handful on and needs no table.
"""

from __future__ import annotations

import math
from typing import Final

_PRECISION: Final = 10
REGISTERS: Final = 1 << _PRECISION
ERROR: Final = 1.04 / math.sqrt(REGISTERS)
"""The relative standard error of a count: 3.25 %; a dozen is counted to within one."""
_INDEX: Final = REGISTERS - 1
# A hash has 64 bits: those that pick no register.
_REST: Final = 64 - _PRECISION
_REST_MASK: Final = (1 << _REST) - 1
_ALPHA: Final = 0.5 / math.log(2)


class Distinct:
    """Counts different hashes, about."""

    __slots__ = ("_registers",)

    def __init__(self) -> None:
        self._registers = bytearray(REGISTERS)

    def add(self, hashed: int) -> None:
        """Count ``hashed``, 64 bits of which each is as likely 0 as 1, unless it was counted before."""
        index = hashed & _INDEX
        rank = _REST + 1 - (hashed >> _PRECISION & _REST_MASK).bit_length()
        if rank > self._registers[index]:  # noqa: PLR1730 -- most add nothing new, and a call of max takes twice the time
            self._registers[index] = rank

    def copy(self) -> Distinct:
        """Return one that counted the same and goes on by itself."""
        found = Distinct()
        found._registers[:] = self._registers
        return found

    def merge(self, other: Distinct) -> None:
        """Count what ``other`` counted, too."""
        self._registers = bytearray(map(max, self._registers, other._registers))

    def count(self) -> int:
        """Return how many there were, with a relative standard error of ``ERROR``."""
        counts = [self._registers.count(rank) for rank in range(_REST + 2)]
        found = REGISTERS * _tau(1 - counts[-1] / REGISTERS)
        for each in counts[-2:0:-1]:
            found = (found + each) / 2
        found += REGISTERS * _sigma(counts[0] / REGISTERS)
        return round(_ALPHA * REGISTERS * REGISTERS / found)


def _sigma(share: float) -> float:
    """Return what registers that saw nothing add; infinity where none saw anything."""
    if share == 1:
        return math.inf
    weight, found, before = 1.0, share, math.nan
    while found != before:
        share *= share
        before, found = found, found + share * weight
        weight += weight
    return found


def _tau(share: float) -> float:
    """Return what registers that are full add."""
    if share in (0, 1):
        return 0.0
    weight, found, before = 1.0, 1 - share, math.nan
    while found != before:
        share = math.sqrt(share)
        weight /= 2
        before, found = found, found - (1 - share) ** 2 * weight
    return found / 3

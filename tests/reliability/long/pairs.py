"""A server that has seen many pods answers each as a fresh pipeline does (T38): pairs of a pod and a changed one.

``tests/property/pairs.py`` says how a pair is tried, ``tests/property/reviews.py`` how the pods of a pair differ. Two processes, which
yield to all others, take 20 to 60 minutes. Progress goes to stderr.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from itertools import count

from tests import controlplanes
from tests.property import pairs
from tests.reliability.long.rows import Row, ended, parser
from tests.reliability.long.trials import shared
from tests.trials import TrialResults

PAIRS = 100_000
PART = 250
HITS = 1_000
HIT = "cache hits by another request"


def main() -> int:
    """Try the pairs; the exit status tells whether the target is met."""
    options_of = parser(__doc__)
    options_of.add_argument("--pairs", type=int, default=PAIRS, help="how many pairs")
    options_of.add_argument(
        "--minutes", type=float, default=math.inf, help="stop then: the row says how many were tried"
    )
    options_of.add_argument("--seed", default="pairs", help="chooses the pairs")
    options = options_of.parse_args()
    found = shared(tried, parts(options.seed, options.pairs), options.pairs, options.minutes)
    return ended({"scripts/reliability pairs": [row_of(found, options.pairs)]}, record=options.record)


def parts(seed: str, wanted: int) -> Iterator[tuple[str, int]]:
    """Yield the parts: a seed of its own and the number of pairs of each."""
    for number in count():
        rest = wanted - number * PART
        if rest <= 0:
            return
        yield f"{seed} {number}", min(PART, rest)


def tried(part: tuple[str, int]) -> TrialResults:
    """Try one part in this process."""
    return pairs.tried(*part)


def row_of(found: TrialResults, wanted: int) -> Row:
    """Return the row of docs/reliability.md."""
    came = found.came
    figure = (
        f"{len(found.faults)} differ; {came[HIT]} cache hits by other requests; "
        f"{came['injected']} injected, {came['refused']} refused, {came['left alone']} left alone"
    )
    met = found.met(wanted) and came[HIT] > HITS and not came["internal errors"]
    test = f"T38 {found.counted(wanted)} pairs, {len(controlplanes.names())} control planes, stable and canary"
    return Row(test, f"0 differ from a fresh pipeline, > {HITS} hits by other requests", figure, met)


if __name__ == "__main__":
    sys.exit(main())

"""What the guard costs an injection (T20): a measurement, which the property tests of the guard cannot be. It takes some minutes."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from injector.injection.guard import is_dangerous, texts_of
from injector.injection.pipeline import admitted_pod, inject_pod
from injector.injection.result import ENFORCE, OFF, Injected, RequestFacts
from injector.istio.revision import Revision
from tests import controlplanes
from tests.property.test_guard import injected
from tests.reliability.long.rows import Row, finish, parser

ROUNDS: Final = 40
COST: Final = 10.0
"""Percent of an injection: plain code that compares renderings may cost a clean pod a tenth. Tricks for 2 percent were hard to change."""


def main() -> int:
    """Measure the cost; the exit status tells whether the target is met."""
    options_of = parser(__doc__)
    options_of.add_argument("--rounds", type=int, default=ROUNDS, help="how many rounds; the median counts")
    options = options_of.parse_args()
    return finish({"scripts/reliability guard": [cost(options.rounds)]}, record=options.record)


def cost(rounds: int) -> Row:
    """Compare the time of injections with the guard and without, in turn. A cached answer pays no guard."""
    name = controlplanes.best("1.30")
    revision = controlplanes.revision_of(name)
    admitted = controlplanes.pods(name)
    clean = [pod for pod in admitted if not any(map(is_dangerous, texts_of(admitted_pod(pod, "shop"))))]
    pods = [pod for pod in clean if isinstance(injected(revision, pod), Injected)]  # some need templates of their own
    ratios = []
    for turn in range(rounds):
        order = (OFF, ENFORCE) if turn % 2 else (ENFORCE, OFF)
        times = {mode: _time(revision, pods, mode) for mode in order}
        ratios.append(times[ENFORCE] / times[OFF])
    percent = 100 * (statistics.median(ratios) - 1)
    return Row(
        f"T20 the guard's share of an injection, {len(pods)} clean pods",
        f"< {COST:g} % of throughput",
        f"{percent:.1f} %, the median of {rounds} rounds in turn",
        percent < COST,
    )


def _time(revision: Revision, pods: Sequence[dict[str, Any]], mode: str) -> float:
    facts = RequestFacts("shop", guard=mode, deny_invalid=False)  # some of Istio's own pods have no containers
    begun = time.thread_time()
    for pod in pods:
        inject_pod(revision, pod, facts)
    return time.thread_time() - begun


if __name__ == "__main__":
    sys.exit(main())

"""Pods injected, edited by another webhook and injected again, as an API server does it (T24).

``tests/property/reinvocation.py`` says which edits there are and what must come of each.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from typing import TYPE_CHECKING

from bench.reliability import Row, keep, show
from tests.conformance import corpus
from tests.property.reinvocation import EDITS, Reinvocations
from tests.property.subjects import subjects

if TYPE_CHECKING:
    from collections.abc import Sequence

PODS = 10_000
ROUND = 50
LIMIT = 600.0
"""A busy machine tries fewer pods, and the row says how many."""
SHOWN = 5
FIRST_STABLE = 12
"""Up to 1.8 templates see what an earlier injection added, and up to 1.10 they print the annotations that they themselves write."""
MINORS = [minor for minor in corpus.MINORS if int(minor.partition(".")[2]) >= FIRST_STABLE]
TARGET = "second patch empty or equal to a first one's, third empty, no name twice"


def goldens() -> Sequence[Row]:
    """T24: every pod of the corpus, with every edit."""
    came = Reinvocations()
    for minor in MINORS:
        for revision, pods in subjects(minor):
            for pod in pods:
                for edit in EDITS:
                    came.try_edit(revision, pod, edit)
    return [row("golden", came)]


def mutated() -> Sequence[Row]:
    """T24: mutated pods, each with an edit."""
    came = Reinvocations()
    dice = random.Random("again")  # noqa: S311 -- inputs
    begun = time.monotonic()
    while came.tried < PODS and time.monotonic() - begun < LIMIT:
        for minor in MINORS:
            came.put_to_the_test(subjects(minor), dice, ROUND)
    return [row("mutated", came)]


def row(what: str, came: Reinvocations) -> Row:
    """What came of it."""
    print(what, dict(came.came), file=sys.stderr)
    for fault in came.faults[:SHOWN]:
        print(fault, file=sys.stderr)
    figure = f"{len(came.faults)} wrong, {came.came['empty']} empty, {came.came['settled']} settled"
    return Row(f"T24 {came.tried} {what} pods, {len(EDITS)} edits", TARGET, figure, not came.faults and came.tried > 0)


TESTS = {"goldens": goldens, "mutated": mutated}


def main() -> int:
    """Run the tests; the exit status tells whether all targets are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=TESTS, action="append", help="run this one; repeatable")
    parser.add_argument("--record", action="store_true", help="keep the rows for docs/reliability.md")
    options = parser.parse_args()
    rows: list[Row] = []
    for name in options.only or TESTS:
        made = TESTS[name]()
        rows += made
        if options.record:
            keep(made, f"scripts/bench reinvocation --only {name}")
    show(rows)
    return 0 if all(each.met for each in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

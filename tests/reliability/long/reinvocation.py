"""Pods injected, edited by another webhook and injected again, as an API server does it (T24).

``tests/property/reinvocation.py`` says which edits there are and what must come of each.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Sequence
from itertools import count
from typing import TypeAlias

from injector.istio.behaviours import parse_minor
from tests import controlplanes
from tests.property.reinvocation import EDITS, Reinvocations
from tests.property.subjects import subjects
from tests.reliability.long.rows import Row, ended, parser
from tests.reliability.long.trials import shared
from tests.trials import TrialResults

Part: TypeAlias = "tuple[str, int]"

PODS = 10_000
ROUND = 50
FIRST_STABLE = (1, 12)
"""Up to 1.8 templates see what an earlier injection added, and up to 1.10 they print the annotations that they themselves write."""
NAMES = [each for each in controlplanes.all_names() if parse_minor(controlplanes.minor_of(each)) >= FIRST_STABLE]
TARGET = "second patch empty or equal to a first one's, third empty, no name twice"


def goldens(_minutes: float) -> Sequence[Row]:
    """T24: every pod of each control plane, with every edit."""
    parts = ((name, number) for name in NAMES for number, _ in enumerate(subjects(name)))
    pairs = len(EDITS) * sum(len(pods) for name in NAMES for _, pods in subjects(name))
    found = shared(every_edit, parts, pairs)
    test = f"T24 {found.tried} pairs of a pod and one of {len(EDITS)} edits"
    return [Row(test, TARGET, told(found), not found.faults and found.tried > 0)]


def mutated(minutes: float) -> Sequence[Row]:
    """T24: mutated pods, each with an edit."""
    parts = ((name, number) for number in count() for name in NAMES)
    found = shared(any_edit, parts, PODS, minutes)
    return [Row(f"T24 {found.counted(PODS)} mutated pods, {len(EDITS)} edits", TARGET, told(found), found.met(PODS))]


def every_edit(part: Part) -> Reinvocations:
    """The pods of one of a control plane's revisions, by its place among them."""
    name, number = part
    came = Reinvocations()
    revision, pods = subjects(name)[number]
    for pod in pods:
        for edit in EDITS:
            came.try_edit(revision, pod, edit)
    return came


def any_edit(part: Part) -> Reinvocations:
    """Some pods of a control plane, which its name and a number make."""
    name, number = part
    came = Reinvocations()
    came.put_to_the_test(subjects(name), random.Random(f"again {name} {number}"), ROUND)  # noqa: S311 -- inputs
    return came


def told(found: TrialResults) -> str:
    """What came of it."""
    return f"{len(found.faults)} wrong, {found.came['empty']} empty, {found.came['settled']} settled, {found.came['left alone']} left alone"


TESTS = {"goldens": goldens, "mutated": mutated}


def main() -> int:
    """Run the tests; the exit status tells whether all targets are met."""
    options_of = parser(__doc__)
    options_of.add_argument("--only", choices=TESTS, action="append", help="run this one; repeatable")
    options_of.add_argument(
        "--minutes", type=float, default=math.inf, help="stop `mutated` then: its row says how many were tried"
    )
    options = options_of.parse_args()
    runs = {name: TESTS[name](options.minutes) for name in options.only or TESTS}
    commands = {f"scripts/reliability reinvocation --only {name}": rows for name, rows in runs.items()}
    return ended(commands, record=options.record)


if __name__ == "__main__":
    sys.exit(main())

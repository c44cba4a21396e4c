"""What Go makes of the same: generated inputs by the hundred thousand, and patches for mutated pods (T25, T32).

Go has to be installed; its modules come by its own proxy the first time. ``tests/differential`` has the short versions, and
says what is compared and what may differ.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.reliability import Row, keep, show
from tests.conformance import corpus
from tests.differential.comparing import Came, differences
from tests.differential.comparisons import COMPARISONS
from tests.differential.golang import ABSENT, built
from tests.differential.soundness import Soundness
from tests.property.subjects import subjects

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.differential.comparisons import Comparison

CHUNK = 2_000
SHOWN = 5
INPUTS = {"merge": 30_000, "yaml": 30_000, "sprig": 20_000, "printf": 20_000, "proxyconfig": 20_000}
PODS = 100_000
ROUND = 200
LIMIT = 600.0
"""A busy machine tries fewer pods, and the row says how many."""


def compared(comparison: Comparison, program: Path, scale: float) -> Sequence[Row]:
    """T32: one kind of input."""
    came = Came()
    for number in range(max(1, int(INPUTS[comparison.name] * scale / CHUNK))):
        part = differences(comparison, program, f"bench {number}", CHUNK)
        came.alike += part.alike
        came.excused += part.excused
        came.wrong += part.wrong
    for reason, count in came.excused.most_common():
        print(f"{comparison.name}: {count} x {reason}", file=sys.stderr)
    _tell(came.wrong)
    figure = f"{len(came.wrong)} differences, {came.excused.total()} on the list"
    target = "0 differences outside a written list"
    return [Row(f"T32 {comparison.name}, {came.asked} inputs", target, figure, not came.wrong)]


def sound(program: Path, scale: float) -> Sequence[Row]:
    """T25: patches applied and decoded by Go, for pods of all minors of the corpus in turn."""
    soundness = Soundness(program)
    dice = random.Random("sound")  # noqa: S311 -- inputs
    begun = time.monotonic()
    while soundness.tried < PODS * scale and time.monotonic() - begun < LIMIT:
        for minor in corpus.MINORS:
            soundness.put_to_the_test(subjects(minor), dice, ROUND)
    print(dict(soundness.came), file=sys.stderr, flush=True)
    _tell(soundness.faults)
    patches = soundness.came["injected"] + soundness.came["by plan"]
    figure = f"{len(soundness.faults)} wrong of {patches} patches, {soundness.came['by plan']} by plan"
    target = "applied by evanphx/json-patch, decoded as a Pod, equal to ours: 0 errors"
    return [Row(f"T25 {soundness.tried} mutated pods", target, figure, not soundness.faults and patches > 0)]


def _tell(wrong: Sequence[str]) -> None:
    for each in wrong[:SHOWN]:
        print(each, file=sys.stderr)


TESTS: dict[str, Callable[[Path, float], Sequence[Row]]] = {
    "sound": sound,
    **{name: partial(compared, comparison) for name, comparison in COMPARISONS.items()},
}


def main() -> int:
    """Run the tests; the exit status tells whether all targets are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=TESTS, action="append", help="run this one; repeatable")
    parser.add_argument("--scale", type=float, default=1.0, help="how much of the usual number of inputs")
    parser.add_argument("--record", action="store_true", help="keep the rows for docs/reliability.md")
    options = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        program = built(Path(folder))
        if program is None:
            sys.exit(ABSENT)
        for name in options.only or TESTS:
            begun = time.monotonic()
            made = TESTS[name](program, options.scale)
            print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
            rows += made
            if options.record:
                keep(made, f"scripts/bench differential --only {name}")
    show(rows)
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

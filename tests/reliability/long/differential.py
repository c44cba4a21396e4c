"""What Go makes of the same: generated inputs by the hundred thousand, and patches for mutated pods (T25, T32).

Go has to be installed; its modules come by its own proxy the first time. ``tests/differential`` has the short versions, and
says what is compared and what may differ.
"""

from __future__ import annotations

import math
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeAlias

from tests import controlplanes
from tests.differential.comparing import Came, differences
from tests.differential.comparisons import COMPARISONS, Comparison
from tests.differential.golang import ABSENT, built
from tests.differential.soundness import Soundness
from tests.property.subjects import subjects
from tests.reliability.long.rows import Row, finish, parser
from tests.reliability.long.trials import shared

Part: TypeAlias = "tuple[Path, str, int]"

CHUNK = 2_000
PRINTED = 5
INPUTS = {"merge": 30_000, "yaml": 30_000}
OTHER_INPUTS = 20_000
PODS = 100_000
ROUND = 200


def compared(comparison: Comparison, program: Path, scale: float, _minutes: float) -> Sequence[Row]:
    """T32: one kind of input."""
    came = Came()
    for number in range(max(1, int(INPUTS.get(comparison.name, OTHER_INPUTS) * scale / CHUNK))):
        part = differences(comparison, program, f"bench {number}", CHUNK)
        came.alike += part.alike
        came.excused += part.excused
        came.wrong += part.wrong
    for reason, times in came.excused.most_common():
        print(f"{comparison.name}: {times} x {reason}", file=sys.stderr)
    _tell(came.wrong)
    figure = f"{len(came.wrong)} differences, {came.excused.total()} on the list"
    target = "0 differences outside a written list"
    return [Row(f"T32 {comparison.name}, {came.inputs} inputs", target, figure, not came.wrong)]


def sound(program: Path, scale: float, minutes: float) -> Sequence[Row]:
    """T25: patches applied and decoded by Go, for pods of all control planes in turn."""
    parts = ((program, name, number) for number in count() for name in controlplanes.all_names())
    trials = shared(put_to_the_test, parts, PODS * scale, minutes)
    patches = trials.came["injected"]
    figure = f"{len(trials.faults)} wrong of {patches} patches"
    target = "applied by evanphx/json-patch, decoded as a Pod, equal to ours: 0 errors"
    return [Row(f"T25 {trials.counted(PODS)} mutated pods", target, figure, trials.met(PODS) and patches > 0)]


def put_to_the_test(part: Part) -> Soundness:
    """The patches for some pods of a control plane, which its name and a number make."""
    program, name, number = part
    soundness = Soundness(program=program)
    soundness.put_to_the_test(subjects(name), random.Random(f"sound {name} {number}"), ROUND)  # noqa: S311 -- inputs
    return soundness


def _tell(wrong: Sequence[str]) -> None:
    for text in wrong[:PRINTED]:
        print(text, file=sys.stderr)


TESTS: dict[str, Callable[[Path, float, float], Sequence[Row]]] = {
    "sound": sound,
    **{name: partial(compared, comparison) for name, comparison in COMPARISONS.items()},
}


def main() -> int:
    """Run the tests; the exit status tells whether all targets are met."""
    options_of = parser(__doc__)
    options_of.add_argument("--only", choices=TESTS, action="append", help="run this one; repeatable")
    options_of.add_argument("--scale", type=float, default=1.0, help="how much of the usual number of inputs")
    options_of.add_argument(
        "--minutes", type=float, default=math.inf, help="stop `sound` then: its row says how many were tried"
    )
    options = options_of.parse_args()
    runs: dict[str, Sequence[Row]] = {}
    with tempfile.TemporaryDirectory() as folder:
        program = built(Path(folder))
        if program is None:
            sys.exit(ABSENT)
        for name in options.only or TESTS:
            begun = time.monotonic()
            runs[f"scripts/reliability differential --only {name}"] = TESTS[name](
                program, options.scale, options.minutes
            )
            print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
    return finish(runs, record=options.record)


if __name__ == "__main__":
    sys.exit(main())

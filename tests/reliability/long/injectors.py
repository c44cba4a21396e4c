"""Istio's own webhooks beside ours, for the minors of ``tests/differential/injectors.py``: random pods of every annotation, label and
field of ProxyConfig.

Needs Go, Helm, git and Istio's repository. The first build of a release takes up to a quarter of an hour. The control planes are those
that ``scripts/new-minor`` recorded, or those of the corpus, and those of Istio's chart with random values.
``tests/differential/injectors.py`` says what may differ. ``--record-cases`` writes its recorded cases again, with ``--only`` those of some
minors.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.conformance.newminor import WORK
from tests.differential.injectors import RELEASES, SOURCE, Tally, built, chart_planes, compared, corpus_planes, record
from tests.reliability.long.rows import Row, ended, parser

PODS = 10_000
CHARTS = 40
"""Control planes for each minor with random values of the chart, beside those of the recorded cases."""
SHOWN = 5


def main() -> int:
    """Run the tests; the exit status tells whether all targets are met."""
    options_of = parser(__doc__)
    options_of.add_argument("--work", type=Path, required=True, help="keep Istio's sources and the built programs here")
    options_of.add_argument("--source", default=SOURCE, help="Istio's repository (default: %(default)s)")
    options_of.add_argument(
        "--recordings",
        type=Path,
        default=WORK,
        help="the --work of scripts/new-minor: its control planes come before those of the corpus (default: %(default)s)",
    )
    options_of.add_argument("--only", choices=RELEASES, action="append", help="compare with this minor; repeatable")
    options_of.add_argument("--pods", type=int, default=PODS, help="pods for each minor (default: %(default)s)")
    options_of.add_argument(
        "--charts",
        type=int,
        default=CHARTS,
        help="control planes with random values for each minor (default: %(default)s)",
    )
    options_of.add_argument("--seed", default="injectors", help="makes other pods")
    options_of.add_argument("--record-cases", action="store_true", help="only write recorded/injectors.jsonl again")
    options = options_of.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    minors = options.only or RELEASES
    programs = {minor: built(minor, options.work.resolve(), options.source) for minor in minors}
    if options.record_cases:
        record(programs)
        return 0
    runs = {}
    for minor, program in programs.items():
        tally = Tally()
        planes = corpus_planes(minor, options.recordings)
        planes += chart_planes(minor, options.work, options.seed, options.charts)
        for number, plane in enumerate(planes):
            compared(program, plane, f"{options.seed} {number}", -(-options.pods // len(planes)), tally)
        for reason, times in tally.excused.most_common():
            print(f"{minor}: {times} x {reason}", file=sys.stderr)
        print("\n\n".join(sorted(tally.wrong, key=len)[:SHOWN]), file=sys.stderr)
        command = f"scripts/reliability injectors --only {minor} --pods {options.pods} --charts {options.charts}"
        runs[f"{command} --seed {options.seed}"] = [row(minor, tally, len(planes))]
    return ended(runs, record=options.record)


def row(minor: str, tally: Tally, planes: int) -> Row:
    """Return the result for a minor."""
    answers = ", ".join(f"{times} {answer}" for answer, times in tally.answers.most_common())
    figure = f"{len(tally.wrong)} differences, {tally.excused.total()} on the list; {answers}"
    test = f"T41 Istio {RELEASES[minor]}, {tally.answers.total()} random pods, {planes} control planes"
    return Row(test, "0 differences outside the list in compatibility.md", figure, not tally.wrong)


if __name__ == "__main__":
    sys.exit(main())

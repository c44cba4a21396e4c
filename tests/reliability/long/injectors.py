"""A running istiod beside us: random pods of every annotation, label and field of ProxyConfig, for the revision that it runs with.

    scripts/reliability injectors --istiod https://istiod.istio-system.svc:15017/inject --ca ca.crt --revision FOLDER

FOLDER has the keys of its ConfigMaps, see ``scripts/reliability recording``, which writes answers for the tests.
``excuse`` in ``tests/differential/injectors.py`` says what may differ.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from injector.errors import InjectorError
from tests.differential.injectors import Tally, alike, difference, excuse, ours, random_cases
from tests.differential.istiods import ask
from tests.reliability.long.istiodoptions import Target, add_options, targets
from tests.reliability.long.rows import Row, finish, parser

PODS = 10_000
ROUNDS, RUNS = 10, 30
"""How often a pod is asked about again if the answers differ, in rounds until one is like ours: Go walks maps in random order."""
PRINTED = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests; the exit status tells whether all targets are met."""
    options_of = parser(__doc__)
    add_options(options_of)
    options_of.add_argument("--pods", type=int, default=PODS, help="pods for each istiod (default: %(default)s)")
    options_of.add_argument("--seed", default="injectors", help="makes other pods")
    options = options_of.parse_args(arguments)
    runs = {}
    for target in targets(options_of, options):
        try:
            tally = compared(target, options.pods, options.seed)
        except InjectorError as error:
            sys.exit(f"error: {error}")
        for reason, times in tally.excused.most_common():
            print(f"{target.release}: {times} x {reason}", file=sys.stderr)
        print("\n\n".join(sorted(tally.wrong, key=len)[:PRINTED]), file=sys.stderr)
        command = f"scripts/reliability injectors --istiod URL --revision FOLDER --pods {options.pods}"
        runs[f"{command} --seed {options.seed}, Istio {target.release}"] = [row(target.release, tally)]
    return finish(runs, record=options.record)


def compared(target: Target, pods: int, seed: str) -> Tally:
    """Compare Istio's answers with ours for random pods. Raises InjectorError."""
    tally = Tally()
    plane = target.plane
    cases = random_cases(plane, f"{seed} {plane.minor}", pods)
    for case, answer in zip(cases, ask(target.options, cases), strict=True):
        assert answer is not None
        tally.answers[next(iter(answer))] += 1
        mine = ours(plane, case)
        if alike(answer, mine):
            continue
        reason = excuse(plane, case, answer, mine)
        again = (answer for _ in range(ROUNDS) for answer in ask(target.options, [case] * RUNS))
        if not reason and any(
            answer and (alike(answer, mine) or excuse(plane, case, answer, mine)) for answer in again
        ):
            reason = "Go answers otherwise from run to run, since it walks maps in random order"
        if reason:
            tally.excused[reason] += 1
        else:
            tally.wrong.append(f"{plane.minor} {case.pod}\n{difference(answer, mine)}")
    return tally


def row(release: str, tally: Tally) -> Row:
    """Return the result for a release."""
    answers = ", ".join(f"{times} {answer}" for answer, times in tally.answers.most_common())
    figure = f"{len(tally.wrong)} differences, {tally.excused.total()} on the list; {answers}"
    test = f"T41 Istio {release}, {tally.answers.total()} random pods"
    return Row(test, "0 differences outside the list in compatibility.md", figure, not tally.wrong)


if __name__ == "__main__":
    sys.exit(main())

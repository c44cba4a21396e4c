"""Three hundred thousand mutated reviews for one injector of several revisions."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.reliability.long.rows import Row
from tests.reliability.replicas import trusting
from tests.reliability.soak import revisions_below, soaked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.reliability.long.chaos.stage import Stage

REVIEWS = 300_000
FILL = 1_500
"""Pods of each revision that come first: after them the answer cache and the memoised stages have reached their bounds."""
WARM = REVIEWS // 2
SLOPE = 1.0
SEED = 3


async def mutated_reviews(stage: Stage) -> Sequence[Row]:
    """T3: every review is answered, and nothing is left of it."""
    replica = await stage.replica("--revisions-dir", str(revisions_below(stage.folder)), tls=True)
    soak = await soaked(replica, REVIEWS, SEED, fill=FILL, tls=trusting(stage.certificate))
    slope = soak.slope(WARM)
    server_errors = sum(count for status, count in soak.statuses.items() if status >= 500)
    answers = ", ".join(f"{count} x {status}" for status, count in sorted(soak.statuses.items()))
    wrong = soak.faults.total()
    curve = " ".join(str(kib) for answered, kib in soak.memory if answered % 10_000 == 0)
    print(f"soak: KiB at each 10,000 reviews: {curve}", file=sys.stderr)
    figure = (
        f"{answers}; {wrong} wrong, {len(soak.errors)} errors logged, {soak.files} files and {soak.threads} threads left, "
        f"{slope:+.1f} KiB per 1,000, {soak.memory[-1][1] // 1024} MiB {dict(soak.faults.most_common(3)) or ''}"
    )
    met = (server_errors, wrong, len(soak.errors), soak.files) == (0, 0, 0, 0) and slope < SLOPE
    target = f"0 x 5xx, 0 exceptions, 0 files left, < {SLOPE:g} KiB per 1,000 after {WARM}"
    return [Row(f"T3 {REVIEWS} mutated reviews, 3 revisions", target, figure.strip(), met)]

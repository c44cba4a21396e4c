"""What a histogram says of how long requests took."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def quantile(bounds: Sequence[tuple[float, int]], share: float) -> float | None:
    """Return within how many seconds ``share`` of the requests were answered, estimated as histogram_quantile does.

    ``bounds`` are upper bounds and how many requests took at most that long, the last one infinite. Within a bucket requests
    are taken to be spread evenly; what is beyond the last finite bound counts as that bound (Prometheus,
    promql/quantile.go). None where there was no request.
    """
    if not bounds or not bounds[-1][1]:
        return None
    rank = share * bounds[-1][1]
    lower, below = 0.0, 0
    for upper, count in bounds:
        if count >= rank and count > below:
            return lower if math.isinf(upper) else lower + (upper - lower) * (rank - below) / (count - below)
        lower, below = upper, count
    return lower

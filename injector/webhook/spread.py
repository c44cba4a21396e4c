"""Whether a CA bundle has got to where API servers look for it, so that what it is needed for may be served."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

# API servers see a changed webhook by a watch, within the second; each of several has its own.
SETTLED: Final = 5.0
# What somebody else distributes is not seen from here. A mounted Secret or ConfigMap takes up to two minutes
# (kubelet's sync period and its cache), a GitOps tool some three.
ELSEWHERE: Final = 600.0


class Reach(Protocol):
    """Who knows how far a bundle has got."""

    def reached(self, bundle: bytes) -> bool:
        """Tell whether API servers have it."""


class Spread:
    """The bundle of which the caBundle loop says that every webhook has it."""

    def __init__(self, *, settled: float = SETTLED, clock: Callable[[], float] = time.monotonic) -> None:
        self._settled = settled
        self._clock = clock
        self._bundle: bytes | None = None
        self._since = 0.0

    def note(self, bundle: bytes | None) -> None:
        """Take what every webhook has now; None where one has another, or where that is not known."""
        if bundle != self._bundle:
            self._bundle, self._since = bundle, self._clock()

    def reached(self, bundle: bytes) -> bool:
        """Tell whether they all have had it for long enough."""
        return bundle == self._bundle and self._clock() - self._since >= self._settled


class Elsewhere:
    """Somebody else gives the bundle to the API servers: they have it some time after it was made."""

    def __init__(self, *, settled: float = ELSEWHERE, clock: Callable[[], float] = time.monotonic) -> None:
        self._spread = Spread(settled=settled, clock=clock)

    def reached(self, bundle: bytes) -> bool:
        """Tell whether it was first asked for long enough ago."""
        self._spread.note(bundle)
        return self._spread.reached(bundle)

"""How far the server is between its start and its end.

::

    STARTING -> SERVING -> DRAINING -> CLOSING

Draining still answers, but is unready and closes each connection after its answer, so that the API server's endpoints
and idle connections go elsewhere; closing comes when nothing is under way any more, or too long, and answers 503.
"""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """A part of the server's life."""

    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"
    CLOSING = "closing"


class Lifecycle:
    """The phase that the server is in, read by every request."""

    def __init__(self) -> None:
        self._phase = Phase.STARTING

    @property
    def phase(self) -> Phase:
        """The phase."""
        return self._phase

    @property
    def keeps_connections(self) -> bool:
        """Whether a connection may be used again after an answer."""
        return self._phase is Phase.SERVING

    @property
    def answers(self) -> bool:
        """Whether requests are still worked on."""
        return self._phase is not Phase.CLOSING

    def enter(self, phase: Phase) -> None:
        """Go to ``phase``."""
        self._phase = phase

"""SIGHUP before the event loop handles it. By default the signal would end a server that is starting.

A reload that is asked for before the configuration can be reloaded is done as soon as it can be.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Hangups:
    """The handler of the signal."""

    def __init__(self) -> None:
        self._reload: Callable[[], None] | None = None
        self._asked = False

    def install(self) -> None:
        """Handle the signal from now on."""
        signal.signal(signal.SIGHUP, self)

    def __call__(self, number: int, frame: object) -> None:
        """Reload, or note that a reload is asked for."""
        del number, frame
        self._asked = True
        if self._reload is not None:
            self._reload()

    def reload_by(self, reload: Callable[[], None]) -> None:
        """Call ``reload`` for each signal from now on, and at once if a reload was asked for."""
        self._reload = reload
        if self._asked:
            reload()


hangups = Hangups()
"""The handler of this process."""

if sys.argv[1:2] == ["serve"]:
    # Importing click and the command takes longer than the signal may wait.
    hangups.install()

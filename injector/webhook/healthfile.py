"""The file that says that the injector lives, as Istio's sidecar-injector wrote it: ``ok``, each interval.

``injector probe`` looks when it was written last.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HealthFile:
    """A file, and the seconds between two writings."""

    path: Path
    interval: float

    async def follow(
        self, fault: Callable[[], str], *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        """Write the file for ever, unless ``fault`` says that the injector does not live.

        Why it cannot be written is logged once, until it could be.
        """
        told = ""
        while True:
            if not fault():
                trouble = await asyncio.to_thread(self._write)
                if trouble and trouble != told:
                    _log.error("cannot write --healthCheckFile %s: %s", self.path, trouble)
                told = trouble
            await pause(self.interval)

    def _write(self) -> str:
        """Write the file; return why that was not possible."""
        try:
            self.path.write_text("ok", encoding="utf-8")
        except OSError as error:
            return error.strerror or str(error)
        return ""

"""Background work of a server while it serves, and what it means for the probes."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from injector.webhook.freememory import FreeMemory, heap_trim
from injector.webhook.looplag import LoopLag

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from typing import Any

    from injector.metrics import Metrics
    from injector.revisions.unserved import UnservedNames
    from injector.webhook.handshakes import Certificates
    from injector.webhook.healthfile import HealthFile
    from injector.webhook.selfprobe import SelfProbe

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The certificate, where TLS is on, and its probe, the event loop's lag and the old injector's probe file.

    ``memory`` gives free memory back, and ``unserved`` looks for names that nobody serves, where that is asked for.
    """

    certificates: Certificates | None = None
    health_file: HealthFile | None = None
    lag: LoopLag = field(default_factory=LoopLag)
    memory: FreeMemory = field(default_factory=lambda: FreeMemory(heap_trim()))
    unserved: UnservedNames | None = None
    probe: SelfProbe | None = None

    def stuck(self) -> str:
        """Return why the injector should be started anew; nothing where it should not."""
        return self.lag.fault()

    def unready(self) -> str:
        """Return why no pod should be sent here now; nothing where it may."""
        return "" if self.certificates is None else self.certificates.fault()

    @asynccontextmanager
    async def running(self, metrics: Metrics, port: int = 0) -> AsyncIterator[None]:
        """Do it until the block ends; ``port`` is the webhook's."""
        tasks = [asyncio.create_task(each, name="upkeep") for each in self._work(metrics, port)]
        for task in tasks:
            task.add_done_callback(_log_end)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _work(self, metrics: Metrics, port: int) -> list[Coroutine[Any, Any, None]]:
        work = [self.lag.follow(metrics), self.memory.follow()]
        if self.certificates is not None:
            work.append(self.certificates.follow(metrics))
        if self.probe is not None:
            work.append(self.probe.follow(metrics, port))
        if self.health_file is not None:
            work.append(self.health_file.follow(self.stuck))
        if self.unserved is not None:
            work.append(self.unserved.follow(metrics))
        return work


def _log_end(task: asyncio.Task[None]) -> None:
    """Say so if a part ends by itself; the server goes on without it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("upkeep ended: %s", error)

"""Health checks: the event loop's lag, sidecar-injector's health file, and the handlers of the operations port.

The operations port is plain HTTP and read only. ``/livez`` and ``/healthz`` check the event loop. ``/readyz`` answers whether a new pod
would get its sidecar: at least one revision is served, API servers accept the certificate, and every background task runs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from injector.metrics import CONTENT_TYPE, Metrics
from injector.webhook.lifecycle import Lifecycle, Phase, Supervisor
from injector.webhook.status.page import DATA_HEADERS, HEADERS, request_rows, status_data, status_page

if TYPE_CHECKING:
    from pathlib import Path

    from injector.webhook.server import Services
    from injector.webhook.shadow import Shadows

_log = logging.getLogger(__name__)

LAG_INTERVAL: Final = 5.0
"""Seconds between two measurements of the lag. Each one wakes an idle server."""
LAGS: Final = 12
"""Measurements of which the maximum is shown: those of a minute, the usual scrape interval of Prometheus."""
MAX_LAG: Final = 10.0
"""API servers wait for 10 s by default (admissionregistration/v1, timeoutSeconds), so a longer lag loses requests."""


class LoopLag:
    """Measures the lag of the event loop that runs ``follow``.

    Args:
        clock: returns seconds from any start.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._due: float | None = None
        self._last: deque[float] = deque(maxlen=LAGS)

    async def follow(self, metrics: Metrics) -> None:
        """Measure until cancelled."""
        while True:
            self._due = self._clock() + LAG_INTERVAL
            await self._sleep(LAG_INTERVAL)
            self._last.append(max(0.0, self._clock() - self._due))
            metrics.loop_lag.set(max(self._last))

    def fault(self) -> str:
        """Return how long the loop is, or just was, stuck; empty if it is not."""
        if self._due is None:
            return ""
        lag = max(self._clock() - self._due, self._last[-1] if self._last else 0.0)
        return f"the event loop is stuck: {lag:.1f} s late" if lag > MAX_LAG else ""


@dataclass(frozen=True, slots=True)
class HealthFile:
    """The file that sidecar-injector (Istio 1.0 to 1.4) writes while it is healthy, and the seconds between two writes."""

    path: Path
    interval: float

    async def follow(
        self, fault: Callable[[], str], *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        """Write the file until cancelled, except while ``fault`` returns a text. An error is logged once."""
        last_error = ""
        while True:
            if not fault():
                error = await asyncio.to_thread(self._write)
                if error and error != last_error:
                    _log.error("cannot write --healthCheckFile %s: %s", self.path, error)
                last_error = error
            await sleep(self.interval)

    def _write(self) -> str:
        """Write the file; return the error."""
        try:
            self.path.write_text("ok", encoding="utf-8")
        except OSError as error:
            return error.strerror or str(error)
        return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Operations:
    """The handlers of the operations port, with the parts of the server that they report on."""

    services: Services
    lifecycle: Lifecycle
    shadows: Shadows
    supervisor: Supervisor
    lag: LoopLag = field(default_factory=LoopLag)
    clock: Callable[[], float] = time.time

    async def live(self, request: web.Request) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer 200, or 503 if the event loop is stuck."""
        return _probe_response(self.lag.fault())

    async def ready(self, request: web.Request) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer 200, or 503 with the reason."""
        return _probe_response(self._unready())

    async def series(self, request: web.Request) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer the metrics in the text format of Prometheus."""
        return web.Response(body=self.services.metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    async def page(self, request: web.Request) -> web.Response:
        """Answer the status as a page, or as JSON with ``?format=json``."""
        if request.query.get("format") == "json":
            return await self.status(request)
        # Rendering the page of a large fleet takes a tenth of a second.
        text = await asyncio.to_thread(status_page, self._status())
        return web.Response(text=text, content_type="text/html", headers=HEADERS)

    async def status(self, request: web.Request) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer the status as JSON."""
        return web.json_response(self._status(), headers=DATA_HEADERS)

    def _status(self) -> dict[str, Any]:
        parts = self.services
        snapshot, report, phase = parts.registry.snapshot, parts.loader.report, self.lifecycle.phase
        return {
            **status_data(snapshot, report, phase, self.shadows, version=parts.version),
            "certificate": None if parts.certificates is None else parts.certificates.status(),
            "unserved": None if parts.unserved is None else parts.unserved.to_dict(),
            "time": self.clock(),
            "requests": request_rows(parts.metrics),
        }

    def _unready(self) -> str:
        if self.lifecycle.phase is not Phase.SERVING:
            pending = self.services.pending() if self.lifecycle.phase is Phase.STARTING else ""
            return f"{self.lifecycle.phase.value}: {pending}" if pending else str(self.lifecycle.phase.value)
        if not self.services.registry.snapshot.revisions:
            return "no revision is served"
        certificates = self.services.certificates
        fault = "" if certificates is None else certificates.fault()
        return fault or self.supervisor.fault()


def _probe_response(fault: str) -> web.Response:
    return web.Response(text=fault or "ok", status=503 if fault else 200)

"""Probes, metrics and status on the operations port: plain HTTP, read only.

``/livez`` and ``/healthz`` say that the event loop turns in time; ``/readyz`` that a pod sent here now would get its
sidecar: it serves, a revision at least, with a certificate that API servers take.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from injector.metrics import CONTENT_TYPE
from injector.webhook.lifecycle import Phase
from injector.webhook.shadow import Shadows
from injector.webhook.status import request_rows, status
from injector.webhook.statuspage import DATA_HEADERS, HEADERS, status_page
from injector.webhook.upkeep import Upkeep

if TYPE_CHECKING:
    from collections.abc import Callable

    from injector.metrics import Metrics
    from injector.revisions.registry import Registry
    from injector.revisions.reload import Loader
    from injector.webhook.lifecycle import Lifecycle


@dataclass(frozen=True, kw_only=True, slots=True)
class Operations:
    """The handlers of the operations port, and what they tell of."""

    registry: Registry
    loader: Loader
    metrics: Metrics
    lifecycle: Lifecycle
    version: str
    shadows: Shadows | None = None
    upkeep: Upkeep = field(default_factory=Upkeep)
    clock: Callable[[], float] = time.time

    async def live(self, request: web.Request) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer 200, or 503 where the event loop is stuck: admissions wait for it as this does."""
        return _probed(self.upkeep.stuck())

    async def ready(self, request: web.Request) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer 200, or 503 with the reason."""
        return _probed(self._unready())

    async def series(self, request: web.Request) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer every series, as Prometheus reads them."""
        return web.Response(body=self.metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    async def page(self, request: web.Request) -> web.Response:
        """Answer the status as a page, or as JSON with ``?format=json``."""
        if request.query.get("format") == "json":
            return await self.status(request)
        # The page of a large fleet takes a tenth of a second to render: not on the event loop.
        text = await asyncio.to_thread(status_page, self._status())
        return web.Response(text=text, content_type="text/html", headers=HEADERS)

    async def status(self, request: web.Request) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer the status as JSON."""
        return web.json_response(self._status(), headers=DATA_HEADERS)

    def _status(self) -> dict[str, Any]:
        shadows = self.shadows or Shadows(self.metrics)
        found = status(self.registry.snapshot, self.loader.report, self.lifecycle.phase, shadows, version=self.version)
        certificates = self.upkeep.certificates
        found["certificate"] = None if certificates is None else certificates.shown()
        found["unserved"] = None if self.upkeep.unserved is None else self.upkeep.unserved.shown()
        found["time"] = self.clock()
        found["requests"] = request_rows(self.metrics)
        return found

    def _unready(self) -> str:
        if self.lifecycle.phase is not Phase.SERVING:
            return str(self.lifecycle.phase.value)
        return self.upkeep.unready() if self.registry.snapshot.revisions else "no revision is served"


def _probed(fault: str) -> web.Response:
    return web.Response(text=fault or "ok", status=503 if fault else 200)

"""The handlers of the operations port, which is plain HTTP and read only.

``/livez`` and ``/healthz`` check the event loop. ``/readyz`` answers whether a new pod would get its sidecar: at least one revision is
served, API servers accept the certificate, and every background task runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.hdrs import METH_GET, METH_HEAD

from injector.metrics import CONTENT_TYPE
from injector.webhook.lifecycle import Lifecycle, LoopLag, Phase, Supervisor
from injector.webhook.status.page import DATA_HEADERS, HEADERS, request_rows, status_data, status_page

if TYPE_CHECKING:
    from injector.webhook.server import Services
    from injector.webhook.shadow import Shadows


@dataclass(frozen=True, kw_only=True, slots=True)
class Operations:
    """The handlers of the operations port, with the parts of the server that they report on."""

    services: Services
    lifecycle: Lifecycle
    shadows: Shadows
    supervisor: Supervisor
    lag: LoopLag = field(default_factory=LoopLag)
    clock: Callable[[], float] = time.time

    @property
    def routes(self) -> Mapping[str, Callable[[web.BaseRequest], Awaitable[web.Response]]]:
        """The handlers by path."""
        return {
            "/livez": self.live,
            "/healthz": self.live,
            "/readyz": self.ready,
            "/metrics": self.series,
            "/": self.page,
            "/status": self.page,
            "/status.json": self.status,
        }

    async def live(self, request: web.BaseRequest) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer 200, or 503 if the event loop is stuck."""
        return _probe_response(self.lag.fault())

    async def ready(self, request: web.BaseRequest) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer 200, or 503 with the reason."""
        return _probe_response(self._unready())

    async def series(self, request: web.BaseRequest) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer the metrics in the text format of Prometheus."""
        return web.Response(body=self.services.metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    async def page(self, request: web.BaseRequest) -> web.Response:
        """Answer the status as a page, which reloads itself with ``?refresh``, or as JSON with ``?format=json``."""
        if request.query.get("format") == "json":
            return await self.status(request)
        # Rendering the page of a large fleet takes a tenth of a second.
        text = await asyncio.to_thread(status_page, self._status(), refresh="refresh" in request.query)
        return web.Response(text=text, content_type="text/html", headers=HEADERS)

    async def status(self, request: web.BaseRequest) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer the status as JSON."""
        return web.json_response(self._status(), headers=DATA_HEADERS)

    def _status(self) -> dict[str, Any]:
        parts = self.services
        snapshot, report, phase = parts.registry.snapshot, parts.loader.report, self.lifecycle.phase
        return {
            **status_data(snapshot, report, phase, self.shadows, version=parts.version),
            "notReady": self._unready() or None,
            "refusals": parts.options.decisions.recent(),
            "certificate": None if parts.certificates is None else parts.certificates.status(),
            "unserved": None if parts.unserved is None else parts.unserved.to_dict(),
            "upgrades": None if parts.upgrades is None else parts.upgrades(),
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


def operations_requests(operations: Operations) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    """Return what answers the requests of the operations port."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        handler = operations.routes.get(request.rel_url.raw_path)
        if handler is None:
            raise web.HTTPNotFound
        if request.method not in (METH_GET, METH_HEAD):
            raise web.HTTPMethodNotAllowed(request.method, [METH_GET, METH_HEAD])
        return await handler(request)

    return answer

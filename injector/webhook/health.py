"""Probes, metrics and status on the operations port: plain HTTP, read only.

``/livez`` and ``/healthz`` say that the event loop turns; ``/readyz`` that a pod sent here now would get its sidecar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from injector.metrics import CONTENT_TYPE
from injector.webhook.lifecycle import Phase
from injector.webhook.shadow import Shadows
from injector.webhook.status import status

if TYPE_CHECKING:
    from injector.metrics import Metrics
    from injector.revisions.registry import Registry
    from injector.revisions.reload import Loader
    from injector.webhook.lifecycle import Lifecycle


class Operations:
    """The handlers of the operations port."""

    def __init__(
        self,
        *,
        registry: Registry,
        loader: Loader,
        metrics: Metrics,
        lifecycle: Lifecycle,
        version: str,
        shadows: Shadows | None = None,
    ) -> None:
        self._registry = registry
        self._loader = loader
        self._metrics = metrics
        self._lifecycle = lifecycle
        self._version = version
        self._shadows = shadows or Shadows(metrics)

    async def live(self, request: web.Request) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer ``ok``: whoever answers, lives."""
        return web.Response(text="ok")

    async def ready(self, request: web.Request) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer 200, or 503 with the reason."""
        reason = self._unready()
        return web.Response(text=reason or "ok", status=503 if reason else 200)

    async def metrics(self, request: web.Request) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer every series, as Prometheus reads them."""
        return web.Response(body=self._metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    async def status(self, request: web.Request) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer what is served, and what is wrong."""
        found = status(
            self._registry.snapshot, self._loader.report, self._lifecycle.phase, self._shadows, version=self._version
        )
        return web.json_response(found, headers={"Cache-Control": "no-store"})

    def _unready(self) -> str:
        if self._lifecycle.phase is not Phase.SERVING:
            return str(self._lifecycle.phase.value)
        return "" if self._registry.snapshot.revisions else "no revision is served"

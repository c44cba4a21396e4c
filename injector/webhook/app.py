"""The routes of both ports, as one table each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp import web

from injector.webhook.path import PREFIX
from injector.webhook.unserved import ROUTE

if TYPE_CHECKING:
    from injector.webhook.inject import InjectHandler
    from injector.webhook.status.health import Operations
    from injector.webhook.unserved import UnservedHandler

# The API server sends at most 3 MiB of object, twice with oldObject, and JSON is larger than the protobuf it counts
# (k8s.io/apiserver, MaxRequestBodyBytes; controller-runtime argues the same way for its limit).
MAX_BODY: Final = 8 * 1024 * 1024


def webhook_app(inject: InjectHandler, unserved: UnservedHandler | None = None) -> web.Application:
    """Return the application of the webhook's port."""
    app = web.Application(client_max_size=MAX_BODY)
    app.add_routes([web.post(f"{PREFIX}{{rest:(?s:/.*)?}}", inject.handle)])
    if unserved is not None:
        app.add_routes([web.post(ROUTE, unserved.handle)])
    return app


def operations_app(operations: Operations) -> web.Application:
    """Return the application of the operations port."""
    app = web.Application()
    app.add_routes(
        [
            web.get("/livez", operations.live),
            web.get("/healthz", operations.live),
            web.get("/readyz", operations.ready),
            web.get("/metrics", operations.series),
            web.get("/", operations.page),
            web.get("/status", operations.page),
            web.get("/status.json", operations.status),
        ]
    )
    return app

"""The server: both ports from start-up to the end of a drain.

On SIGTERM or SIGINT it becomes unready and goes on for the shutdown delay, in which the API server's endpoints learn
of it; then it stops listening, finishes what runs, and returns. A second signal cuts the delay short.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aiohttp import web

from injector.errors import InjectorError
from injector.webhook.app import operations_app, webhook_app
from injector.webhook.health import Operations
from injector.webhook.inject import InjectHandler
from injector.webhook.lifecycle import Lifecycle, Phase
from injector.webhook.shadow import Shadows
from injector.webhook.upkeep import Upkeep

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from injector.metrics import Metrics
    from injector.revisions.registry import Registry
    from injector.revisions.reload import Loader

_log = logging.getLogger(__name__)

# The API server keeps an idle connection for 90 s (k8s.io/apimachinery, SetTransportDefaults): it must be the one
# that closes.
KEEPALIVE: Final = 120.0
# A path is at most 63 letters of name and Istio's pairs; the API server adds a query and a handful of headers.
MAX_LINE: Final = 8190
MAX_FIELD: Final = 8190
# A request may run for as long as the API server waits at most.
FINISH: Final = 30.0
BACKLOG: Final = 1024


@dataclass(frozen=True, slots=True)
class Listeners:
    """Where to listen; port 0 takes any free one, and no ``tls`` serves the webhook in plain HTTP."""

    bind: str
    port: int
    ops_port: int
    tls: ssl.SSLContext | None
    shutdown_delay: float


@dataclass(frozen=True, slots=True)
class Services:
    """What requests are answered with, and what else is done meanwhile."""

    registry: Registry
    loader: Loader
    metrics: Metrics
    version: str
    upkeep: Upkeep = field(default_factory=Upkeep)


async def serve(listeners: Listeners, services: Services, *, started: Callable[[int, int], None]) -> None:
    """Serve until a signal ends it; ``started`` gets the ports of the webhook and of operations once both listen.

    Raises:
        InjectorError: an address cannot be listened on.
    """
    lifecycle = Lifecycle()
    stop = _stop_signals()
    shadows = Shadows(services.metrics)
    operations = Operations(
        registry=services.registry,
        loader=services.loader,
        metrics=services.metrics,
        lifecycle=lifecycle,
        version=services.version,
        shadows=shadows,
        upkeep=services.upkeep,
    )
    webhook = _runner(webhook_app(InjectHandler(services.registry, services.metrics, lifecycle, shadows=shadows)))
    ops = _runner(operations_app(operations))
    try:
        ops_port = await _listen(ops, listeners.bind, listeners.ops_port, None)
        port = await _listen(webhook, listeners.bind, listeners.port, listeners.tls)
        lifecycle.enter(Phase.SERVING)
        started(port, ops_port)
        async with services.upkeep.running(services.metrics):
            async with shadows.working():
                await stop.get()
            await _drain(lifecycle, stop, listeners.shutdown_delay)
    finally:
        lifecycle.enter(Phase.CLOSING)
        await webhook.cleanup()
        await ops.cleanup()


async def _drain(lifecycle: Lifecycle, stop: asyncio.Queue[signal.Signals], delay: float) -> None:
    lifecycle.enter(Phase.DRAINING)
    _log.info("draining for %g s", delay)
    with suppress(TimeoutError):
        async with asyncio.timeout(delay):
            await stop.get()


def _runner(app: web.Application) -> web.AppRunner:
    return web.AppRunner(
        app,
        access_log=None,
        # A compressed body is answered 415 before anything inflates it.
        auto_decompress=False,
        keepalive_timeout=KEEPALIVE,
        max_line_size=MAX_LINE,
        max_field_size=MAX_FIELD,
        shutdown_timeout=FINISH,
    )


async def _listen(runner: web.AppRunner, bind: str, port: int, tls: ssl.SSLContext | None) -> int:
    """Listen, and return the port."""
    await runner.setup()
    site = web.TCPSite(runner, bind or None, port, ssl_context=tls, backlog=BACKLOG)
    try:
        await site.start()
    except OSError as error:
        raise InjectorError(
            f"cannot listen: {error.strerror or error}", where=f"{bind}:{port}", hint="choose another --bind or port"
        ) from error
    addresses = runner.addresses
    return int(addresses[-1][1])


def _stop_signals() -> asyncio.Queue[signal.Signals]:
    """Return a queue that gets the signals which end the server."""
    received: asyncio.Queue[signal.Signals] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received.put_nowait, number)
    return received

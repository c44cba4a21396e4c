"""The server: both ports from start-up to the end of a drain.

On SIGTERM or SIGINT it becomes unready and goes on for the shutdown delay, in which the API server's endpoints learn
of it; then it stops listening, answers what is under way, as ``drain`` says, and returns. A second signal cuts the delay
short. While it serves, the configuration is followed, and SIGHUP reloads it.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from injector.webhook.app import operations_app, webhook_app
from injector.webhook.health import Operations
from injector.webhook.inject import Desk, InjectHandler
from injector.webhook.lifecycle import Lifecycle, Phase
from injector.webhook.listening import Port
from injector.webhook.shadow import Shadows
from injector.webhook.unserved import UnservedHandler
from injector.webhook.upkeep import Upkeep

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Coroutine

    from aiohttp import web

    from injector.metrics import Metrics
    from injector.revisions.following import Follower
    from injector.revisions.recent import RecentPods
    from injector.revisions.registry import Registry
    from injector.revisions.reload import Loader
    from injector.webhook.clients import ClientAuthority

_log = logging.getLogger(__name__)

Follow: TypeAlias = "Callable[[asyncio.Event], Coroutine[object, object, None]]"
"""Keeps what is served up to date until it is cancelled; sets the event once requests can be answered."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Where to listen; port 0 takes any free one, and no ``tls`` serves the webhook in plain HTTP.

    ``clients`` are those that the webhook's port serves alone; None is any.
    """

    bind: str
    port: int
    ops_port: int
    tls: ssl.SSLContext | None
    shutdown_delay: float
    clients: ClientAuthority | None = None


@dataclass(frozen=True, slots=True)
class Services:
    """What requests are answered with, and what else is done meanwhile.

    ``follower`` keeps it up to date and tries new builds on the pods of ``recent``; ``elsewhere`` are the names that
    another injector serves, and ``explained`` puts the decision into answers.
    """

    registry: Registry
    loader: Loader
    metrics: Metrics
    version: str
    recent: RecentPods | None = None
    follower: Follower | None = None
    upkeep: Upkeep = field(default_factory=Upkeep)
    elsewhere: frozenset[str] = frozenset()
    desk: Desk = field(default_factory=Desk)


async def serve(
    listeners: Listeners,
    services: Services,
    *,
    started: Callable[[int, int], None],
    follow: Follow | None = None,
) -> None:
    """Serve until a signal ends it; ``started`` gets the ports of the webhook and of operations once both listen.

    ``follow`` runs beside; until it sets its event the server listens and is not ready.

    Raises:
        InjectorError: an address cannot be listened on, or ``follow`` raised it before it had settled.
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
    webhook = Port(_webhook(services, lifecycle, shadows), listeners.clients)
    ops = Port(operations_app(operations))
    try:
        ops_port = await ops.listen(listeners.bind, listeners.ops_port)
        port = await webhook.listen(listeners.bind, listeners.port, listeners.tls)
        async with services.upkeep.running(services.metrics, port), _followed(follow, stop) as ready:
            if ready:
                lifecycle.enter(Phase.SERVING)
                started(port, ops_port)
                async with shadows.working(), _following(services.follower):
                    await stop.get()
                    # Unready at once: what ends here may take its time.
                    lifecycle.enter(Phase.DRAINING)
                await _drain(stop, listeners.shutdown_delay)
                if left := await webhook.empty():
                    _log.warning("drained but for %d connections: their requests did not come in full", left)
    finally:
        lifecycle.enter(Phase.CLOSING)
        await webhook.close()
        await ops.close()


def _webhook(services: Services, lifecycle: Lifecycle, shadows: Shadows) -> web.Application:
    registry, metrics = services.registry, services.metrics
    desk = services.desk
    inject = InjectHandler(registry, metrics, lifecycle, shadows=shadows, recent=services.recent, desk=desk)
    metrics.waiting(desk.queue.waiting, inject.slow.waiting)
    names, elsewhere = services.upkeep.unserved, services.elsewhere
    return webhook_app(inject, UnservedHandler(inject.reader, registry, metrics, lifecycle, names, elsewhere))


@asynccontextmanager
async def _followed(follow: Follow | None, stop: asyncio.Queue[signal.Signals]) -> AsyncIterator[bool]:
    """Run ``follow`` as long as the body; give whether it has settled, rather than a signal having come first."""
    if follow is None:
        yield True
        return
    settled = asyncio.Event()
    following: asyncio.Task[object] = asyncio.create_task(follow(settled))
    following.add_done_callback(_log_end)
    ready, stopped = asyncio.create_task(settled.wait()), asyncio.create_task(stop.get())
    try:
        await asyncio.wait([following, ready, stopped], return_when=asyncio.FIRST_COMPLETED)
        # The signal that this took off the queue is one that nobody else will see.
        ended = stopped.done()
        ready.cancel()
        stopped.cancel()
        if following.done():
            await following
        yield settled.is_set() and not ended
    finally:
        following.cancel()
        await asyncio.wait([following])


def _log_end(following: asyncio.Task[object]) -> None:
    """Say so if what keeps the revisions up to date ends by itself: what is served then stays as it is."""
    if not following.cancelled() and (error := following.exception()) is not None:
        _log.error("revisions are no longer followed: %s", error)


@asynccontextmanager
async def _following(follower: Follower | None) -> AsyncIterator[None]:
    """Let the configuration be followed for as long as the block runs."""
    if follower is None:
        yield
        return
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, follower.reload)
    task = asyncio.create_task(follower.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _drain(stop: asyncio.Queue[signal.Signals], delay: float) -> None:
    _log.info("draining for %g s", delay)
    with suppress(TimeoutError):
        async with asyncio.timeout(delay):
            await stop.get()


def _stop_signals() -> asyncio.Queue[signal.Signals]:
    """Return a queue that gets the signals which end the server."""
    received: asyncio.Queue[signal.Signals] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received.put_nowait, number)
    return received

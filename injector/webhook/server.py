"""The server: both ports from start-up to the end of a drain.

On SIGTERM or SIGINT it becomes unready and goes on to serve for the shutdown delay, in which the API server's endpoints learn of that.
Then it stops listening, answers what is under way (``listener``), and returns. A second signal ends the delay early. SIGHUP reloads the
configuration, from the start of the process on. Everything beside answering is a background task (``supervisor``).
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from injector.webhook.app import operations_app, webhook_app
from injector.webhook.inject import Desk, InjectHandler
from injector.webhook.lifecycle import Lifecycle, Phase, Supervisor
from injector.webhook.listener import Listener
from injector.webhook.shadow import Shadows
from injector.webhook.status.health import LoopLag, Operations
from injector.webhook.unserved import UnservedHandler

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from aiohttp import web

    from injector.metrics import Metrics
    from injector.revisions.following import Follower
    from injector.revisions.registry import Registry
    from injector.revisions.reload import Loader
    from injector.revisions.unservednames import UnservedNames
    from injector.revisions.verify import RecentPods
    from injector.webhook.lifecycle import Follow
    from injector.webhook.status.health import HealthFile
    from injector.webhook.tls.clients import ClientAuthority
    from injector.webhook.tls.selfcheck import SelfCheck
    from injector.webhook.tls.source import CertificateSource

_log = logging.getLogger(__name__)

# Python lets a thread run for 5 ms before another one gets its turn. A request releases the interpreter about six times, and each time it
# would wait that long while a reload, a shadow or a slow injection works in its thread.
SWITCH_INTERVAL: Final = 0.0001


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
    """What the server serves, and its background tasks.

    Attributes:
        registry: what is served.
        loader: loads it.
        metrics: counts.
        version: of the injector.
        recent: recent pods, which new builds are tried on.
        follower: follows the configuration.
        certificates: the certificate of the webhook's port; None without TLS.
        probe: connects to that port as an API server does.
        health_file: the file that Istio's sidecar-injector wrote while it was alive.
        unserved: the watch for names that nothing serves.
        elsewhere: names that another injector serves.
        desk: the options of the handler.
    """

    registry: Registry
    loader: Loader
    metrics: Metrics
    version: str
    recent: RecentPods | None = None
    follower: Follower | None = None
    certificates: CertificateSource | None = None
    probe: SelfCheck | None = None
    health_file: HealthFile | None = None
    unserved: UnservedNames | None = None
    elsewhere: frozenset[str] = frozenset()
    desk: Desk = field(default_factory=Desk)


async def serve(
    listeners: Listeners,
    services: Services,
    *,
    started: Callable[[int, int], None],
    follow: Mapping[str, Follow] | None = None,
) -> None:
    """Serve until a signal ends it; ``started`` gets the ports of the webhook and of operations once both listen.

    ``follow`` are background tasks that follow the cluster, by name. Until each has set its event the server listens and is not ready.

    Raises:
        InjectorError: an address cannot be listened on, or one of ``follow`` failed before it set its event.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)
    stop = _signals(services.follower)
    lifecycle, lag = Lifecycle(), LoopLag()
    shadows, supervisor = Shadows(services.metrics), Supervisor(services.metrics)
    operations = Operations(
        registry=services.registry,
        loader=services.loader,
        metrics=services.metrics,
        lifecycle=lifecycle,
        version=services.version,
        shadows=shadows,
        supervisor=supervisor,
        lag=lag,
        certificates=services.certificates,
        unserved=services.unserved,
    )
    webhook = Listener(_webhook(services, lifecycle, shadows), listeners.clients)
    ops = Listener(operations_app(operations))
    try:
        ops_port = await ops.listen(listeners.bind, listeners.ops_port)
        port = await webhook.listen(listeners.bind, listeners.port, listeners.tls)
        _start_tasks(supervisor, services, lag, port)
        if await _settled(supervisor, follow or {}, stop):
            supervisor.start("shadow", shadows.run)
            if services.follower is not None:
                supervisor.start("configuration", services.follower.run)
            lifecycle.enter(Phase.SERVING)
            started(port, ops_port)
            await stop.get()
            lifecycle.enter(Phase.DRAINING)
            await _delay(stop, listeners.shutdown_delay)
            if left := await webhook.drain():
                _log.warning("drained except for %d connections: their requests did not arrive in full", left)
    finally:
        lifecycle.enter(Phase.CLOSING)
        await supervisor.stop()
        await webhook.close()
        await ops.close()


def _webhook(services: Services, lifecycle: Lifecycle, shadows: Shadows) -> web.Application:
    registry, metrics = services.registry, services.metrics
    inject = InjectHandler(registry, metrics, lifecycle, shadows=shadows, recent=services.recent, desk=services.desk)
    metrics.waiting(services.desk.queue.waiting, inject.slow.waiting)
    unserved = UnservedHandler(inject.reader, registry, metrics, lifecycle, services.unserved, services.elsewhere)
    return webhook_app(inject, unserved)


def _start_tasks(supervisor: Supervisor, services: Services, lag: LoopLag, port: int) -> None:
    """Start the background tasks that also run before the server is ready."""
    metrics = services.metrics
    supervisor.start("lag", partial(lag.follow, metrics))
    if services.certificates is not None:
        supervisor.start("certificate", partial(services.certificates.follow, metrics))
    if services.probe is not None:
        supervisor.start("probe", partial(services.probe.follow, metrics, port))
    if services.health_file is not None:
        supervisor.start("health-file", partial(services.health_file.follow, lag.fault))
    if services.unserved is not None:
        supervisor.start("unserved", partial(services.unserved.follow, metrics))


async def _settled(supervisor: Supervisor, follow: Mapping[str, Follow], stop: asyncio.Queue[signal.Signals]) -> bool:
    """Start the tasks that follow the cluster; tell whether they have settled, rather than a signal having arrived first."""
    settling, stopped = asyncio.create_task(supervisor.settle(follow)), asyncio.create_task(stop.get())
    try:
        await asyncio.wait([settling, stopped], return_when=asyncio.FIRST_COMPLETED)
        if settling.done():
            await settling
        return not stopped.done()
    finally:
        settling.cancel()
        stopped.cancel()


async def _delay(stop: asyncio.Queue[signal.Signals], seconds: float) -> None:
    _log.info("draining for %g s", seconds)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.get()


def _signals(follower: Follower | None) -> asyncio.Queue[signal.Signals]:
    """Let SIGHUP reload; return a queue that gets the signals which end the server."""
    received: asyncio.Queue[signal.Signals] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received.put_nowait, number)
    loop.add_signal_handler(signal.SIGHUP, _ignore if follower is None else follower.reload)
    # The command line blocks it during start-up; a signal that arrived meanwhile is pending (cli/__init__.py).
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    return received


def _ignore() -> None:
    """Go on: there is nothing to reload."""

"""The server: both ports from start-up to the end of a drain.

On SIGTERM or SIGINT it becomes unready and still serves during the shutdown delay, so that the Service's endpoints are updated. Then it
stops listening, answers the remaining requests (``listener``) and returns. A second signal ends the delay early. SIGHUP reloads the
configuration, also during start-up. All other work runs in background tasks (``lifecycle``).
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from aiohttp import web
from aiohttp.hdrs import METH_POST

from injector.istio.webhooks.paths import PATH_PREFIX
from injector.webhook.handler import InjectHandler
from injector.webhook.lifecycle import Follow, Lifecycle, LoopLag, Phase, Supervisor
from injector.webhook.limits import connection_limits
from injector.webhook.listener import Answerer, Listener
from injector.webhook.operations import Operations
from injector.webhook.shadow import Shadows
from injector.webhook.tls.certificatesource import SelfCheck
from injector.webhook.unserved import UnservedHandler, unserved_path

if TYPE_CHECKING:
    from injector.revisions.following import Reloader
    from injector.webhook.services import Services

_log = logging.getLogger(__name__)

# By default a Python thread runs for 5 ms before another one gets its turn. The event loop releases the interpreter about six times for a
# request, and would wait so long each time while an injection, a reload or a shadow runs in its thread.
SWITCH_INTERVAL: Final = 0.0001


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """Where to listen, and how long after a signal. Port 0 means any free port."""

    bind: str
    port: int
    ops_port: int
    shutdown_delay: float


async def serve(
    listeners: ListenOptions,
    services: Services,
    *,
    on_start: Callable[[int, int], None],
    follow: Mapping[str, Follow] | None = None,
) -> None:
    """Serve until a signal arrives.

    ``on_start`` gets the ports of the webhook and of operations when the server is ready. ``follow`` has the background tasks that
    follow the cluster, by name; the server is not ready until each has set its event.

    Raises:
        InjectorError: an address cannot be used, or a task of ``follow`` failed before it set its event.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)
    stop = _signals(services.follower)
    lifecycle, lag = Lifecycle(), LoopLag()
    shadows, supervisor = Shadows(services.metrics), Supervisor(services.metrics)
    operations = Operations(services=services, lifecycle=lifecycle, shadows=shadows, supervisor=supervisor, lag=lag)
    certificates = services.certificates
    context, clients = (None, None) if certificates is None else (certificates.context, certificates.clients)
    limits = connection_limits()
    webhook = Listener(_webhook(services, lifecycle, shadows), clients, limits.webhook)
    ops = Listener(operations.answer, limit=limits.operations)
    try:
        ops_port = await ops.listen(listeners.bind, listeners.ops_port)
        port = await webhook.listen(listeners.bind, listeners.port, context)
        _start_tasks(supervisor, services, lag, listeners.bind, port)
        if await _wait_for_followers(supervisor, follow or {}, stop):
            supervisor.start("shadow", shadows.run)
            if services.follower is not None:
                supervisor.start("configuration", services.follower.run)
            lifecycle.phase = Phase.SERVING
            on_start(port, ops_port)
            received = await stop.get()
            lifecycle.phase = Phase.DRAINING
            await _delay(stop, listeners.shutdown_delay, received)
            if remaining := await webhook.drain():
                _log.warning("drain timed out with %d open connections, whose requests are incomplete", remaining)
    finally:
        lifecycle.phase = Phase.CLOSING
        await supervisor.stop()
        await webhook.close()
        await ops.close()


def _webhook(services: Services, lifecycle: Lifecycle, shadows: Shadows) -> Answerer:
    registry, metrics = services.registry, services.metrics
    inject = InjectHandler(
        registry, metrics, lifecycle, shadows=shadows, recent=services.recent, options=services.options
    )
    metrics.waiting.set_function(services.options.queue.waiting)
    unserved = UnservedHandler(inject.reader, registry, metrics, services.unserved, services.elsewhere)
    return webhook_requests(inject, unserved)


def _start_tasks(supervisor: Supervisor, services: Services, lag: LoopLag, bind: str, port: int) -> None:
    """Start the background tasks that also run before the server is ready."""
    metrics = services.metrics
    supervisor.start("lag", partial(lag.follow, metrics))
    if services.certificates is not None:
        supervisor.start("certificate", partial(services.certificates.follow, metrics))
        supervisor.start("probe", partial(SelfCheck(services.certificates, bind).follow, metrics, port))
    if services.health_file is not None:
        supervisor.start("health-file", partial(services.health_file.follow, lag.fault))


async def _wait_for_followers(
    supervisor: Supervisor, follow: Mapping[str, Follow], stop: asyncio.Queue[signal.Signals]
) -> bool:
    """Start the tasks that follow the cluster. Return False if a signal arrives before each has its initial state."""
    settling, stopped = asyncio.create_task(supervisor.wait_until_ready(follow)), asyncio.create_task(stop.get())
    try:
        await asyncio.wait([settling, stopped], return_when=asyncio.FIRST_COMPLETED)
        if settling.done():
            await settling
        return not stopped.done()
    finally:
        settling.cancel()
        stopped.cancel()


async def _delay(stop: asyncio.Queue[signal.Signals], seconds: float, received: signal.Signals) -> None:
    remedy = "; press Ctrl-C again to stop at once" if received is signal.SIGINT else ""
    _log.info("draining for %g s%s", seconds, remedy)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.get()


def _signals(follower: Reloader | None) -> asyncio.Queue[signal.Signals]:
    """Handle signals: SIGHUP reloads, those that end the server are put into the returned queue."""
    received: asyncio.Queue[signal.Signals] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received.put_nowait, number)
    loop.add_signal_handler(signal.SIGHUP, (lambda: None) if follower is None else follower.reload)
    # The command line blocks them during start-up; a signal that arrived meanwhile is pending (cli/__init__.py).
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP, signal.SIGTERM})
    return received


def webhook_requests(handler: InjectHandler, unserved: UnservedHandler | None = None) -> Answerer:
    """Return what answers the requests of the webhook's port.

    Its few paths are compared here, since an application with a router takes 7 % of the time of a cached answer.
    """

    def answer(request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        path = request.rel_url.raw_path
        is_injection = path == PATH_PREFIX or path.startswith(f"{PATH_PREFIX}/")
        of_unserved = None if is_injection or unserved is None else unserved_path(path)
        if not is_injection and of_unserved is None:
            raise web.HTTPNotFound
        if request.method != METH_POST:
            raise web.HTTPMethodNotAllowed(request.method, [METH_POST])
        if unserved is not None and of_unserved is not None:
            return unserved.handle(request, *of_unserved)
        return handler.handle(request)

    return answer

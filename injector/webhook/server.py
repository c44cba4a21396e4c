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
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from aiohttp.hdrs import METH_POST

from injector.istio.webhooks.paths import PATH_PREFIX
from injector.webhook.lifecycle import Follow, HealthFile, LoopLag, Phase, Supervisor
from injector.webhook.limits import PLAIN_REVIEW_BUFFER, connection_limits
from injector.webhook.listener import Answerer, Listener
from injector.webhook.operations import Operations
from injector.webhook.tls.certificatesource import SelfCheck
from injector.webhook.unserved import UnservedHandler, unserved_path

if TYPE_CHECKING:
    from injector.revisions.following import Reloader
    from injector.revisions.reload import Loader
    from injector.revisions.unservednames import UnservedNames
    from injector.webhook.handler import InjectHandler
    from injector.webhook.tls.certificatesource import CertificateSource

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


@dataclass(frozen=True, slots=True)
class Server:
    """A server: the handler of its requests, and what it reports on and runs beside them.

    Attributes:
        reloader: follows the configuration; None if it never changes.
        certificates: the certificate of the webhook's port; None for plain HTTP.
        unserved: the watch for unknown names.
        elsewhere: names that another injector serves.
        pending: returns what the cluster has not answered yet; empty if nothing.
        upgrades: returns the upgrades of the cluster as JSON data; None if they are not watched.
    """

    handler: InjectHandler
    loader: Loader
    version: str
    reloader: Reloader | None = None
    certificates: CertificateSource | None = None
    health_file: HealthFile | None = None
    unserved: UnservedNames | None = None
    elsewhere: frozenset[str] = frozenset()
    pending: Callable[[], str] = str
    upgrades: Callable[[], list[dict[str, Any]]] | None = None

    async def serve(
        self,
        listen: ListenOptions,
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
        stop = _signals(self.reloader)
        lifecycle, supervisor, lag = self.handler.lifecycle, Supervisor(self.handler.metrics), LoopLag()
        certificates, limits = self.certificates, connection_limits()
        context, clients = (None, None) if certificates is None else (certificates.context, certificates.clients)
        webhook = Listener(self._requests(), clients, limits.webhook, read_buffer=PLAIN_REVIEW_BUFFER)
        ops = Listener(self._operations(supervisor, lag).answer, limit=limits.operations)
        try:
            ops_port = await ops.listen(listen.bind, listen.ops_port)
            port = await webhook.listen(listen.bind, listen.port, context)
            self._start_tasks(supervisor, lag, listen.bind, port)
            if await _wait_for_followers(supervisor, follow or {}, stop):
                supervisor.start("shadow", self.handler.shadows.run)
                if self.reloader is not None:
                    supervisor.start("configuration", self.reloader.run)
                lifecycle.phase = Phase.SERVING
                on_start(port, ops_port)
                received = await stop.get()
                lifecycle.phase = Phase.DRAINING
                await _delay(stop, listen.shutdown_delay, received)
                if remaining := await webhook.drain():
                    _log.warning("drain timed out with %d open connections, whose requests are incomplete", remaining)
        finally:
            lifecycle.phase = Phase.CLOSING
            await supervisor.stop()
            await webhook.close()
            await ops.close()

    def _requests(self) -> Answerer:
        handler = self.handler
        handler.metrics.waiting.set_function(handler.queue.waiting)
        unserved = UnservedHandler(handler.reader, handler.registry, handler.metrics, self.unserved, self.elsewhere)
        return webhook_requests(handler, unserved)

    def _operations(self, supervisor: Supervisor, lag: LoopLag) -> Operations:
        return Operations(
            self.handler,
            self.loader,
            self.version,
            supervisor,
            lag,
            certificates=self.certificates,
            unserved=self.unserved,
            pending=self.pending,
            upgrades=self.upgrades,
        )

    def _start_tasks(self, supervisor: Supervisor, lag: LoopLag, bind: str, port: int) -> None:
        """Start the background tasks that also run before the server is ready."""
        metrics = self.handler.metrics
        supervisor.start("lag", partial(lag.follow, metrics))
        if self.certificates is not None:
            supervisor.start("certificate", partial(self.certificates.follow, metrics))
            supervisor.start("probe", partial(SelfCheck(self.certificates, bind).follow, metrics, port))
        if self.health_file is not None:
            supervisor.start("health-file", partial(self.health_file.follow, lag.fault))


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


def _signals(reloader: Reloader | None) -> asyncio.Queue[signal.Signals]:
    """Handle signals: SIGHUP reloads, those that end the server are put into the returned queue."""
    received: asyncio.Queue[signal.Signals] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received.put_nowait, number)
    loop.add_signal_handler(signal.SIGHUP, (lambda: None) if reloader is None else reloader.reload)
    # The command line blocks them during start-up; a signal that arrived meanwhile is pending (cli/__init__.py).
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP, signal.SIGTERM})
    return received


def webhook_requests(handler: InjectHandler, unserved: UnservedHandler | None = None) -> Answerer:
    """Return the answerer of the requests of the webhook's port.

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

"""One port of the server: how it speaks HTTP and TLS, and how it ends."""

from __future__ import annotations

import asyncio
from asyncio import sslproto
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from injector.errors import InjectorError
from injector.webhook.arrivals import Arrivals
from injector.webhook.clients import Gate
from injector.webhook.connections import Connections
from injector.webhook.drain import empty

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Mapping

    from injector.webhook.clients import ClientAuthority

# The API server keeps an idle connection for 90 s (k8s.io/apimachinery, SetTransportDefaults): it must be the one
# that closes.
KEEPALIVE: Final = 120.0
# A path is at most 63 letters of name and Istio's pairs; the API server adds a query and a handful of headers.
MAX_LINE: Final = 8190
MAX_FIELD: Final = 8190
# What is open at the very end has not sent a whole request: aiohttp waits for it twice this long.
CUT: Final = 0.25

# Who is refused before his body has come reads why within this time, while what he sends is thrown away.
LINGER: Final = 2.0
# What asyncio reads of a connection with TLS at once. It keeps so much room for each, and fills it with zeros: 256 KiB unless told
# otherwise, which is 300 MB for a thousand silent ones. A review that is longer takes a few reads more.
TLS_BUFFER: Final = 4 * 1024

HTTP: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "access_log": None,
        # A compressed body is answered 415 before anything inflates it.
        "auto_decompress": False,
        "keepalive_timeout": KEEPALIVE,
        "lingering_time": LINGER,
        "max_line_size": MAX_LINE,
        "max_field_size": MAX_FIELD,
    }
)
"""How both ports speak HTTP: keywords of aiohttp's RequestHandler."""


class Port:
    """Serves an application on one port; where ``clients`` are given, to them alone."""

    def __init__(
        self, app: web.Application, clients: ClientAuthority | None = None, http: Mapping[str, Any] = HTTP
    ) -> None:
        self._runner = web.AppRunner(app, shutdown_timeout=CUT)
        self._clients = clients
        self._http = http
        self._connections: Connections | None = None
        self._listening: Arrivals | None = None
        self._watching: asyncio.Task[None] | None = None

    async def listen(self, bind: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen, and return the port; port 0 takes any free one.

        Raises:
            InjectorError: the address cannot be listened on.
        """
        await self._runner.setup()
        assert self._runner.server is not None  # noqa: S101 -- what setup() makes, for the type checker
        self._connections = Connections(self._runner.server, self._http)
        sslproto.SSLProtocol.max_size = TLS_BUFFER
        try:
            sockets = await _bound(bind, port)
        except OSError as error:
            raise InjectorError(
                f"cannot listen: {error.strerror or error}",
                where=f"{bind}:{port}",
                hint="choose another --bind or port",
            ) from error
        protocol = self._connections if self._clients is None else partial(Gate, self._connections, self._clients)
        self._listening = Arrivals(sockets, protocol, self._connections, tls)
        self._listening.begin()
        self._watching = asyncio.create_task(self._connections.watch(), name="connections")
        return int(sockets[-1].getsockname()[1])

    async def empty(self) -> int:
        """Stop listening and let what is under way end; return how many connections are left nevertheless."""
        if self._listening is None or self._connections is None:
            return 0
        return await empty(self._listening, self._connections)

    async def close(self) -> None:
        """Cut what is open."""
        if self._watching is not None:
            self._watching.cancel()
        if self._listening is not None:
            self._listening.close()
            self._listening.cut()
        await self._runner.cleanup()


async def _bound(bind: str, port: int) -> list[socket.socket]:
    """Return sockets of an address, as asyncio would listen on them: each of its addresses, IPv6 for itself, to be used again at once."""
    loop = asyncio.get_running_loop()
    made = await loop.create_server(asyncio.Protocol, bind or None, port, start_serving=False)
    try:
        return [each.dup() for each in made.sockets]
    finally:
        made.close()

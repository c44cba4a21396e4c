"""One port of the server: how it speaks HTTP and TLS, and how it ends."""

from __future__ import annotations

import asyncio
import os
import socket
from asyncio import selector_events, sslproto
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from injector.errors import InjectorError
from injector.webhook.clients import Gate
from injector.webhook.connections import Connections
from injector.webhook.drain import empty
from injector.webhook.patience import HANDSHAKE

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from injector.webhook.clients import ClientAuthority

# The API server keeps an idle connection for 90 s (k8s.io/apimachinery, SetTransportDefaults): it must be the one
# that closes.
KEEPALIVE: Final = 120.0
# A path is at most 63 letters of name and Istio's pairs; the API server adds a query and a handful of headers.
MAX_LINE: Final = 8190
MAX_FIELD: Final = 8190
# How many callers the kernel lets wait, and how many of them are let in at once by asyncio, which takes one number for
# both: with a thousand handshakes begun nobody who has asked already is answered before all are through.
BACKLOG: Final = 1024
LET_IN: Final = 16
# How long a peer may take to confirm the end of a TLS connection, after which it is cut: nothing is under way any more.
GOODBYE: Final = 1.0
# What is open at the very end has not sent a whole request: aiohttp waits for it twice this long.
CUT: Final = 0.25

# Who is refused before his body has come reads why within this time, while what he sends is thrown away.
LINGER: Final = 2.0
# What asyncio reads of a connection with TLS at once. It keeps so much room for each, and fills it with zeros: 256 KiB unless told
# otherwise, which is 300 MB for a thousand silent ones. A review that is longer takes a few reads more.
TLS_BUFFER: Final = 4 * 1024
# And without TLS. It takes so much memory for each read, and gives back the end that nothing came into: where what was kept of a
# request stands behind that, no such room is found there again. With its 256 KiB a process grew by 40 MB in a million requests.
PLAIN_BUFFER: Final = 16 * 1024

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
        self._listening: asyncio.Server | None = None
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
        selector_events._SelectorTransport.max_size = PLAIN_BUFFER  # type: ignore[attr-defined] # noqa: SLF001 -- no other name
        handshake, goodbye = (None, None) if tls is None else (HANDSHAKE, GOODBYE)
        try:
            self._listening = await asyncio.get_running_loop().create_server(
                self._connections if self._clients is None else partial(Gate, self._connections, self._clients),
                bind or None,
                port,
                ssl=tls,
                backlog=LET_IN,
                ssl_handshake_timeout=handshake,
                ssl_shutdown_timeout=goodbye,
            )
        except OSError as error:
            raise InjectorError(
                f"cannot listen: {error.strerror or error}",
                where=f"{bind}:{port}",
                hint="choose another --bind or port",
            ) from error
        _lengthen_backlog(self._listening)
        self._watching = asyncio.create_task(self._connections.watch(), name="connections")
        return int(self._listening.sockets[-1].getsockname()[1])

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
        await self._runner.cleanup()


def _lengthen_backlog(listening: asyncio.Server) -> None:
    for each in listening.sockets:
        with socket.socket(fileno=os.dup(each.fileno())) as again:
            again.listen(BACKLOG)

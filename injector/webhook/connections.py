"""The connections of the webhook's port: which of them are idle, so that a drain closes those and no others.

aiohttp's own shutdown turns deaf on every connection at once: what a caller has sent and nobody has read yet is lost,
and there is much of that while an event loop is busy. So a connection is closed here only where the kernel holds
nothing for it either.
"""

from __future__ import annotations

import asyncio
import select
import time
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from injector.webhook.patience import ARRIVAL, HASTE, LOOK, MOST, PIPELINED, TAKING, Unsent, reset, unsent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

# Who has connected has a request to send, as Go's net/http dials for one; and who has asked a moment ago is likely to ask
# again. A request that crosses the close of its connection is lost, so those are closed by an answer instead.
QUIET: Final = 1.0
# What asyncio reads at once of a connection without TLS. It takes so much memory for each read, and gives back the end that nothing came
# into: where what was kept of a request stands behind that, no such room is found there again. With its 256 KiB a process grew by 10 MB
# in three hundred thousand requests.
PLAIN_BUFFER: Final = 16 * 1024


class Connection(web.RequestHandler):
    """One connection, whether a request is under way on it, and whether none was answered so far."""

    __slots__ = ("__weakref__", "_began", "_crowd", "_unsent", "accepted_by", "newcomer", "quiet_since", "under_way")

    def __init__(
        self, server: web.Server, crowd: Connections, accepted_by: asyncio.Task[Any] | None, **options: Any
    ) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self._crowd = crowd
        self.accepted_by = accepted_by
        self.newcomer = True
        self._unsent = Unsent()
        self.quiet_since = self._began = time.monotonic()
        self.under_way = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that the handshake is done."""
        self._crowd.made(self)
        transport.max_size = PLAIN_BUFFER  # type: ignore[attr-defined] # of asyncio's own, which has no other name for it
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Note that it has ended."""
        self._crowd.lost(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Note that a request has begun, or a part of one."""
        if data and not self.under_way:
            self._began = time.monotonic()
            self.under_way = True
        super().data_received(data)
        if len(self._messages) > PIPELINED:
            # The one that is worked on is answered, and then it ends.
            self.close()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send an answer, and note that it is sent."""
        sent = await super().finish_response(request, resp, start_time)
        if isinstance(resp, web.Response):
            # aiohttp keeps it until the next request, which may be two minutes.
            resp.body = None
        self.under_way = self.newcomer = False
        self.quiet_since = time.monotonic()
        self._crowd.served(self)
        return sent

    def idle(self, now: float) -> bool:
        """Tell whether no request is under way, as far as this process knows, and none has been for a while."""
        return not self.under_way and now - self.quiet_since > QUIET

    @property
    def worked_on(self) -> bool:
        """Whether a request has come in full and is not answered yet."""
        request = self._current_request
        return self.under_way and request is not None and request.content.is_eof()

    def untaken(self, now: float) -> float:
        """Return for how many seconds the peer has left an answer where it is, as it was seen last."""
        return now - self._unsent.since if self._unsent.size else 0.0

    def overdue(self, now: float, patience: float = TAKING) -> bool:
        """Tell whether the peer takes too long to send a request, or longer than ``patience`` to take an answer."""
        if self.transport is None:
            return False
        if self._unsent.look(unsent(self.transport), now, patience):
            return True
        return self.under_way and not self.worked_on and now - self._began > ARRIVAL

    def cut(self) -> None:
        """End it now, whatever is under way; what the peer has not taken is forgotten by the kernel too."""
        if self.transport is not None:
            reset(self.transport)


class Connections:
    """Makes the connections of one server, and knows those that are open. It is an asyncio protocol factory.

    Args:
        server: what answers their requests.
        options: keywords of aiohttp's RequestHandler.
        most: how many there may be; who comes then takes the place of one that has been of no use for longest.
    """

    def __init__(
        self,
        server: web.Server,
        options: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
        most: int = MOST,
    ) -> None:
        self._server = server
        self._options = dict(options)
        self._clock = clock
        self._most = most
        # Each in the order in which they came: those with no connection yet, by what sees to it, and since when; open without an answer
        # so far; and those that had one.
        self._arriving: dict[asyncio.Task[Any], float] = {}
        self._strangers: dict[Connection, None] = {}
        self._known: dict[Connection, None] = {}

    def __call__(self) -> Connection:
        """Return the protocol of a connection that the present task makes."""
        accepting = asyncio.current_task()
        if accepting is not None and accepting not in self._arriving:
            self.arrive(accepting)
        return Connection(self._server, self, accepting, **self._options)

    def arrive(self, accepting: asyncio.Task[Any]) -> None:
        """Note that a caller was accepted, and by which task; where there is no room, end another one.

        The caller is gone where that task ends without a connection, and that task is cancelled where he is to go.
        """
        if self._taken() >= self._most:
            self._make_room()
        self._arriving[accepting] = self._clock()
        accepting.add_done_callback(self._leave)

    def _leave(self, accepting: asyncio.Task[Any]) -> None:
        self._arriving.pop(accepting, None)

    def made(self, connection: Connection) -> None:
        """Note that a connection is open."""
        if connection.accepted_by is not None:
            self._leave(connection.accepted_by)
            connection.accepted_by = None
        self._strangers[connection] = None

    def served(self, connection: Connection) -> None:
        """Note that a connection had an answer."""
        if self._strangers.pop(connection, self) is None:
            self._known[connection] = None

    def lost(self, connection: Connection) -> None:
        """Note that a connection has ended."""
        self._strangers.pop(connection, None)
        self._known.pop(connection, None)

    def close_idle(self) -> None:
        """Close every connection on which nothing is under way."""
        now = self._clock()
        for connection in unheard([each for each in self._made() if each.connected and each.idle(now)]):
            connection.force_close()

    def cut_overdue(self) -> None:
        """Cut every connection whose peer takes too long."""
        now = self._clock()
        patience = HASTE if self._taken() > self._most // 2 else TAKING
        for connection in [each for each in self._made() if each.overdue(now, patience)]:
            connection.cut()

    async def watch(self, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Cut for ever."""
        while True:
            await pause(LOOK)
            self.cut_overdue()

    def left(self) -> int:
        """Return how many are open, and who has come a moment ago."""
        now = self._clock()
        arriving = sum(now - since <= QUIET for since in self._arriving.values())
        return arriving + sum(each.connected for each in self._made())

    def _taken(self) -> int:
        return len(self._arriving) + len(self._strangers) + len(self._known)

    def _made(self) -> list[Connection]:
        return [*self._strangers, *self._known]

    def _make_room(self) -> None:
        """End one connection: the oldest that nobody was answered on, else who leaves an answer, else who is idle, for longest.

        None that is worked on for a peer that waits for it.
        """
        arriving = next(iter(self._arriving), None)
        stranger = next((each for each in self._strangers if not each.worked_on), None)
        if arriving is not None and (stranger is None or self._arriving[arriving] <= stranger.quiet_since):
            self._leave(arriving)
            arriving.cancel()
            return
        victim = stranger or self._leaving() or self._idlest()
        if victim is not None:
            self.lost(victim)
            victim.cut()

    def _leaving(self) -> Connection | None:
        """Return whose peer has left an answer for longest, if one has for a while."""
        now = self._clock()
        leaving = [each for each in self._made() if each.untaken(now) > QUIET]
        return max(leaving, key=lambda each: each.untaken(now), default=None)

    def _idlest(self) -> Connection | None:
        idle = (each for each in self._known if not each.under_way)
        return min(idle, key=lambda each: each.quiet_since, default=None)


def unheard(connections: Iterable[Connection]) -> list[Connection]:
    """Return those for which the kernel holds no bytes that were not read yet (poll(2))."""
    by_file = {file: each for each in connections if (file := _file(each)) >= 0}
    heard = readable(by_file)
    return [each for file, each in by_file.items() if file not in heard]


def readable(files: Iterable[int]) -> set[int]:
    """Return the files that a read would not wait for; a listening socket is one while a caller waits to be accepted."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return {file for file, _ in poll.poll(0)}


def _file(connection: Connection) -> int:
    transport = connection.transport
    socket = None if transport is None else transport.get_extra_info("socket")
    return -1 if socket is None else int(socket.fileno())

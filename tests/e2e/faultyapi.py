"""A proxy between the injector and an API server, on plain HTTP, that breaks what a test wants broken.

It counts what is asked of it, also while it is down: a connection is taken then, its request read and never answered.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import parse_qs, urlsplit

import aiohttp
from aiohttp import web

from tests.cluster.fakes import kubeconfig_of
from tests.e2e.cluster import Cluster
from tests.e2e.served import LIMIT
from tests.reliability.kubeapi import GARBAGE, GONE, HALF, ApiRequest

T = TypeVar("T")

# A line of a watch is an object, and an object may have 1.5 MB.
LONGEST_LINE = 4 * 1024 * 1024


class Then(Enum):
    """What comes after a line of a watch."""

    GO_ON = "go on"
    END = "end"
    CUT = "cut"


Lines: TypeAlias = "asyncio.Queue[tuple[bytes, Then]]"
"""What is said in one watch."""


@dataclass
class FaultyApi:
    """The proxy; its methods may be called by any thread."""

    cluster: Cluster
    kubeconfig: Path
    requests: list[ApiRequest] = field(default_factory=list)
    _down: bool = False
    _watches: dict[Lines, str] = field(default_factory=dict)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _end: asyncio.Event = field(default_factory=asyncio.Event)
    _started: threading.Event = field(default_factory=threading.Event)

    def down(self) -> float:
        """Cut every connection, and answer no new one; when that was."""
        return self._do(self._go_down())

    def up(self) -> float:
        """Answer again; when that was."""
        return self._do(self._go_up())

    def gone(self) -> float:
        """Say in every watch that its version is gone, and end it; when that was."""
        return self._do(self._say(GONE, Then.END))

    def garbage(self) -> float:
        """Say in every watch what is no event; when that was."""
        return self._do(self._say(GARBAGE, Then.GO_ON))

    def cut(self) -> float:
        """Say in every watch half an event, and close the connection; when that was."""
        return self._do(self._say(HALF, Then.CUT))

    def watched(self) -> list[str]:
        """The resources of the watches that are open."""
        return sorted(self._watches.values())

    def since(self, moment: float, **fields: Any) -> list[ApiRequest]:
        """What was asked after a moment; further keywords choose by fields."""
        return [
            request
            for request in self.requests
            if request.at > moment and all(getattr(request, name) == value for name, value in fields.items())
        ]

    async def serve(self) -> None:
        """Run until ``stop``."""
        server = web.Server(self._answer, handler_cancellation=True, access_log=None)
        listening = await self._loop.create_server(lambda: _Silent(self) if self._down else server(), "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        self.kubeconfig.write_text(kubeconfig_of(f"http://127.0.0.1:{port}"))
        connector = aiohttp.TCPConnector(ssl=self.cluster.tls)
        never = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=never, read_bufsize=LONGEST_LINE) as self._api:
            self._server = server
            self._started.set()
            await self._end.wait()
            listening.close()
            await server.shutdown(1)
            await listening.wait_closed()

    def work(self) -> None:
        """Run in a thread of its own."""
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self.serve())

    def started(self) -> None:
        """Wait until it listens."""
        assert self._started.wait(LIMIT)

    def stop(self) -> None:
        """End it."""
        self._loop.call_soon_threadsafe(self._end.set)

    def note(self, url: str, *, answered: bool) -> None:
        """Remember what was asked."""
        parts = urlsplit(url)
        watch = parse_qs(parts.query).get("watch") == ["true"]
        self.requests.append(ApiRequest(time.monotonic(), _resource(parts.path), watch, answered))

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT)

    async def _go_down(self) -> float:
        self._down = True
        for connection in list(self._server.connections):
            if connection.transport is not None:
                connection.transport.abort()
        return await self._say(b"", Then.CUT)

    async def _go_up(self) -> float:
        self._down = False
        return time.monotonic()

    async def _say(self, text: bytes, then: Then) -> float:
        for lines in self._watches:
            lines.put_nowait((text, then))
        return time.monotonic()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.note(request.path_qs, answered=True)
        async with self._api.get(f"{self.cluster.url}{request.path_qs}") as answer:
            if answer.status != 200 or "watch=true" not in request.query_string:
                body = await answer.read()
                return web.Response(body=body, status=answer.status, content_type="application/json")
            return await self._relay(request, answer)

    async def _relay(self, request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        """Pass on the lines of a watch, and between them what a test says."""
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        lines: Lines = asyncio.Queue()
        self._watches[lines] = _resource(request.path)
        hearing = asyncio.create_task(_hear(answer, lines))
        then = Then.GO_ON
        try:
            while then is Then.GO_ON:
                text, then = await lines.get()
                await response.write(text)
        except ConnectionError:
            then = Then.CUT
        finally:
            del self._watches[lines]
            hearing.cancel()
        if then is Then.CUT and request.transport is not None:
            request.transport.close()
        return response


async def _hear(answer: aiohttp.ClientResponse, lines: Lines) -> None:
    async for line in answer.content:
        lines.put_nowait((line, Then.GO_ON))
    lines.put_nowait((b"", Then.END))


class _Silent(asyncio.Protocol):
    """A connection of which one request is read and none answered."""

    def __init__(self, api: FaultyApi) -> None:
        self._api = api

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._api.note(data.split(b" ", 2)[1].decode(), answered=False)
        self._transport.abort()


def _resource(path: str) -> str:
    return path.rsplit("/", 1)[-1]


@contextmanager
def between(cluster: Cluster, folder: Path) -> Iterator[FaultyApi]:
    """The proxy, as long as the block runs."""
    api = FaultyApi(cluster, folder / "faulty.kubeconfig")
    thread = threading.Thread(target=api.work)
    thread.start()
    try:
        api.started()
        yield api
    finally:
        api.stop()
        thread.join(LIMIT)
    assert not thread.is_alive()

"""A client that calls a webhook as the API server does: Go's net/http as k8s.io/apiserver sets it up.

Up to 25 idle connections are kept for the Service, the one used last is used next, an answer that closes its connection
is believed, and nothing is tried twice: a request on a connection that ends before its answer has failed, as a POST has
in Go (net/http, Transport). A new connection goes to any replica that is ready, as through a Service.

With HTTP/1.1 a request is lost if its client sends it in the moment in which the server closes the idle connection. No server
can prevent that. A drain closes only connections that were idle for ``QUIET_TIME``, and a client that does not use one that was
idle for that long (``max_idle_time``) never meets such a moment.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from injector.webhook.listener import readable
from tests.factories import make_pod, make_review

# k8s.io/apiserver/pkg/util/webhook, ClientManager: what client-go's transport keeps by default.
MAX_IDLE: Final = 25
MAX_IDLE_TIME: Final = 90.0
TIMEOUT: Final = 10.0
HEAD_END: Final = b"\r\n\r\n"


@dataclass(frozen=True)
class Reply:
    """An answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes
    port: int

    @property
    def response(self) -> dict[str, Any]:
        """The response of the AdmissionReview."""
        response: dict[str, Any] = json.loads(self.body)["response"]
        return response


@dataclass
class _Connection:
    port: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    used: float = 0.0

    def has_ended(self) -> bool:
        """Return whether the server has closed it.

        Go's read loop notices this at once, in a goroutine of its own. Here the event loop may not have read the end yet, so the kernel
        is asked: an idle connection has nothing else to read.
        """
        sock = self.writer.get_extra_info("socket")
        return self.reader.at_eof() or self.reader.exception() is not None or bool(readable([sock.fileno()]))

    async def ask(self, request: bytes) -> Reply:
        self.writer.write(request)
        return await reply_of(self.reader, self.port)


@dataclass
class ApiServer:
    """Calls whichever replica ``ready`` names, and counts what came of it.

    A connection that was idle for ``max_idle_time`` seconds is not used again.
    """

    ready: Callable[[], Sequence[int]]
    tls: ssl.SSLContext | None = None
    max_idle_time: float = MAX_IDLE_TIME
    dialled: int = 0
    reused: int = 0
    _idle: list[_Connection] = field(default_factory=list)
    _closed: list[_Connection] = field(default_factory=list)

    async def post(self, path: str, body: bytes, timeout: float = TIMEOUT) -> Reply:  # noqa: ASYNC109 -- a part of the URL too
        """Return the answer to a review.

        Raises:
            OSError: there was none.
        """
        async with asyncio.timeout(timeout):
            connection = await self._connection()
            try:
                reply = await connection.ask(request_of(f"{path}?timeout={timeout:g}s", body))
            except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError) as error:
                self._drop(connection)
                if isinstance(error, asyncio.CancelledError):
                    raise
                raise ConnectionError(f"no answer from {connection.port}: {type(error).__name__}") from error
        if reply.headers.get("connection") == "close" or len(self._idle) >= MAX_IDLE:
            self._drop(connection)
        else:
            connection.used = time.monotonic()
            self._idle.append(connection)
        return reply

    async def _connection(self) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.has_ended() and time.monotonic() - connection.used < self.max_idle_time:
                self.reused += 1
                return connection
            self._drop(connection)
        self.dialled += 1
        port = random.choice(self.ready())  # noqa: S311 -- which replica a Service chooses
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=self.tls, server_hostname="localhost" if self.tls else None
        )
        return _Connection(port, reader, writer)

    def _drop(self, connection: _Connection) -> None:
        connection.writer.close()
        self._closed.append(connection)

    async def close(self) -> None:
        """Close what is kept, and wait until all connections have ended."""
        while self._idle:
            self._drop(self._idle.pop())
        await asyncio.gather(*(connection.writer.wait_closed() for connection in self._closed), return_exceptions=True)


async def reply_of(reader: asyncio.StreamReader, port: int = 0) -> Reply:
    """Read an answer."""
    head = (await reader.readuntil(HEAD_END)).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers["content-length"]))
    return Reply(int(head[0].split()[1]), headers, body, port)


def request_of(path: str, body: bytes) -> bytes:
    """A review as the API server sends it."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: injector.injector-system.svc:443\r\nUser-Agent: kube-apiserver-admission\r\n"
        f"Content-Length: {len(body)}\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n"
        "Accept-Encoding: gzip\r\n\r\n"
    )
    return head.encode() + body


def review_of(uid: str) -> bytes:
    """A review of a pod of its own."""
    return json.dumps(make_review(make_pod(f"pod-{uid}"), uid=uid)).encode()


@dataclass
class Load:
    """Admissions one after the other from several callers at once."""

    client: ApiServer
    review: Callable[[str], bytes] = review_of
    path: str = "/inject/stable"
    answered: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    _is_over: bool = False

    @asynccontextmanager
    async def calls(self, callers: int, pause: float, name: str = "c") -> AsyncIterator[None]:
        """Call by so many callers as long as the block runs, each with ``pause`` in between; all are answered by then."""
        tasks = [asyncio.create_task(self._call(f"{name}-{number}", pause)) for number in range(callers)]
        try:
            yield
        finally:
            self._is_over = True
            await asyncio.gather(*tasks)

    async def _call(self, name: str, pause: float) -> None:
        number = 0
        while not self._is_over:
            number += 1
            uid = f"{name}-{number}"
            try:
                self.check(uid, await self.client.post(self.path, self.review(uid)))
            except OSError as error:
                self.failures.append(f"{uid}: {error or type(error).__name__}")
            await asyncio.sleep(pause)

    def check(self, uid: str, reply: Reply) -> None:
        """Hold an answer: admitted, under its own uid, with the sidecar in the patch."""
        if reply.status != 200:
            self.failures.append(f"{uid}: {reply.status} {reply.body[:200]!r}")
            return
        response = reply.response
        patch = base64.b64decode(response.get("patch", ""))
        if (response["uid"], response["allowed"]) != (uid, True) or b"istio-proxy" not in patch:
            self.failures.append(f"{uid}: {str(response)[:200]}")
            return
        self.answered[reply.port] += 1

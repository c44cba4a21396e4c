"""Reading a request: what is checked before its body, the body itself within its bounds, and the answer to a refused request."""

from __future__ import annotations

import asyncio
import math
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from aiohttp import web

from injector.golang.time import parse_duration
from injector.webhook.listener import Connection
from injector.webhook.queue import DEADLINE, OVERLOAD
from injector.webhook.timeouts import READ

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from injector.webhook.lifecycle import Lifecycle
    from injector.webhook.queue import AdmissionQueue

JSON: Final = "application/json"
# Sixty thousand variables, more than an object of etcd's largest size holds. Each value that is decoded takes 60 bytes and more, and some
# 150 ns: without a bound a body of empty lists would hold the event loop for half a second, and 200 MB.
MAX_VALUES: Final = 250_000
SMALL: Final = 64 * 1024
"""Bytes of a body whose values need not be counted."""
RETRY_AFTER: Final = "1"

REJECTIONS: Final[Mapping[str, tuple[int, str]]] = {
    OVERLOAD: (429, "too many requests are waiting: try again"),
    DEADLINE: (503, "too many requests are waiting to answer this one before its timeout: try again"),
}
"""Status and message of a request that the admission queue rejects, by the reason."""


class Refusal(Exception):  # noqa: N818 -- an answer to the caller, not an error of the injector
    """A request that is answered by its HTTP status alone, since it has no uid; ``again`` says that a retry may help."""

    def __init__(self, status: int, reason: str, message: str, *, again: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.again = again


def rejection(reason: str) -> Refusal:
    """Return the refusal of a request that the admission queue rejects."""
    status, message = REJECTIONS[reason]
    return Refusal(status, reason, message, again=True)


# An API server sends a dozen different queries at most: one for each webhook.
@lru_cache(64)
def timeout_of(query: str) -> float:
    """Return the seconds that the caller waits for an answer, by the raw query of its URL; infinity if it does not say.

    Follows k8s.io/apiserver, pkg/admission/plugin/webhook/mutating/dispatcher.go: the webhook's ``timeoutSeconds`` as a Go duration,
    ``?timeout=10s``. The first of several counts, as in Go. One that is not a duration, or is 0, is ignored.
    """
    if not query:
        return math.inf
    try:
        first, *_ = parse_qs(query, max_num_fields=16).get("timeout", [""])
        nanoseconds = parse_duration(first)
    except ValueError:
        return math.inf
    return nanoseconds / 1e9 if nanoseconds > 0 else math.inf


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the requests of the webhook's port while there is memory for them, and answers those that are refused."""

    lifecycle: Lifecycle
    queue: AdmissionQueue

    @asynccontextmanager
    async def body(self, request: web.Request) -> AsyncIterator[bytes]:
        """Read the body of a request that may be a review. Its bytes count in the queue until the block ends.

        Raises:
            Refusal: it cannot be a review, it is too large, or it did not arrive.
        """
        self._check(request)
        read = _Read()
        try:
            yield await self._read(request, read)
        finally:
            self.queue.release(read.size)

    def _check(self, request: web.Request) -> None:
        """Raise ``Refusal`` if the headers say that this cannot be a review, or the server is about to end."""
        if not self.lifecycle.answers:
            raise Refusal(503, "draining", "this injector is shutting down: try again, another one answers", again=True)
        if request.content_type != JSON or "Content-Encoding" in request.headers:
            raise Refusal(415, "content_type", f"the content type must be {JSON}, without an encoding")
        if request.content_length is not None and request.content_length > request.client_max_size:
            raise _too_large(request.client_max_size)

    async def _read(self, request: web.Request, read: _Read) -> bytes:
        try:
            async with asyncio.timeout(READ):
                body = await self._chunks(request, read)
        except ConnectionError as error:
            raise Refusal(400, "disconnected", "the caller disconnected") from error
        except web.RequestPayloadError as error:
            raise Refusal(400, "undecodable", "the body is not valid HTTP") from error
        except TimeoutError as error:
            raise Refusal(408, "timeout", f"the body did not arrive within {READ:g} s") from error
        if len(body) > SMALL and sum(map(body.count, (b",", b"{", b"["))) > MAX_VALUES:
            raise Refusal(413, "too_large", f"the body has more than {MAX_VALUES} values")
        if not body:
            raise Refusal(400, "empty_body", "no body found: send an AdmissionReview")
        if isinstance(request.protocol, Connection):
            request.protocol.received()
        return body

    async def _chunks(self, request: web.Request, read: _Read) -> bytes:
        """Return the body. What has arrived counts, not what a header announces, so announcing a body takes no room."""
        chunks = []
        while chunk := await request.content.readany():
            fits = self.queue.hold(len(chunk), read.size)
            read.size += len(chunk)
            if not fits:
                raise rejection(OVERLOAD)
            if read.size > request.client_max_size:
                raise _too_large(request.client_max_size)
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def refused(self, refusal: Refusal) -> web.Response:
        """Return the answer to a request that is refused by its HTTP status alone."""
        response = web.Response(text=refusal.message, status=refusal.status)
        if refusal.again:
            response.headers["Retry-After"] = RETRY_AFTER
        if refusal.status in (web.HTTPRequestEntityTooLarge.status_code, web.HTTPRequestTimeout.status_code):
            response.force_close()
        return self.closing(response)

    def closing(self, response: web.Response) -> web.Response:
        """Return the answer; it ends its connection if connections are not kept any more."""
        if not self.lifecycle.keeps_connections:
            response.force_close()
        return response


class _Read:
    """How many bytes of a body have arrived."""

    size = 0


def _too_large(limit: int) -> Refusal:
    return Refusal(413, "too_large", f"the body is larger than {limit} bytes")

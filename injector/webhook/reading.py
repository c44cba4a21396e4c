"""Read requests: check the headers, read the body within its limits, and refuse requests by an HTTP status."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qs

from aiohttp import web
from aiohttp.hdrs import CONTENT_ENCODING

from injector.golang.time import parse_duration
from injector.webhook.lifecycle import Lifecycle, Phase
from injector.webhook.listener import Connection, send_continue
from injector.webhook.queue import OVERLOAD, AdmissionQueue, Refusal, Rejected

JSON: Final = "application/json"
MAX_BODY: Final = 8 * 1024 * 1024
"""Bytes. Objects have up to 3 MiB of protobuf (k8s.io/apiserver, MaxRequestBodyBytes), may come twice, and are larger as JSON."""
MAX_VALUES: Final = 250_000
"""More than the largest object of etcd has. Without the limit a body of empty lists would take half a second and 200 MB to decode."""
READ_TIMEOUT: Final = 6.0
"""Seconds for the body of a request. A slower request gets status 408. An API server sends a request at once."""
SMALL: Final = 64 * 1024
"""Bytes of a body whose values are not counted."""
RETRY_AFTER: Final = "1"


# An API server sends one query for each webhook.
@lru_cache(64)
def timeout_of(query: str) -> float:
    """Return the seconds that the client waits, from the raw query of its URL; infinity if it has no timeout.

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
    """Reads and refuses the requests of the webhook's port, within the memory limit of the queue."""

    lifecycle: Lifecycle
    queue: AdmissionQueue

    async def read(self, request: web.BaseRequest) -> bytes:
        """Return the body of a request. Its bytes are reserved in the queue until ``release``.

        Raises:
            Refusal: the request cannot be a review, is too large, or did not arrive.
        """
        self._check(request)
        chunks: list[bytes] = []
        try:
            if request.content.is_eof():
                # It arrived with the headers, so there is nothing to wait for.
                self._add(request.content.read_nowait(), 0, chunks)
            else:
                await send_continue(request)
                await self._receive_in_time(chunks, request)
            body = b"".join(chunks)
            _check_body(body)
        except BaseException as error:
            self.queue.release(sum(map(len, chunks)))
            if isinstance(error, ConnectionError):
                raise Refusal(400, "disconnected", "the client disconnected") from error
            if isinstance(error, web.RequestPayloadError):
                raise Refusal(400, "undecodable", "the body is not valid HTTP") from error
            raise
        if isinstance(request.protocol, Connection):
            request.protocol.enter_handler()
        return body

    def release(self, body: bytes) -> None:
        """Release a body that ``read`` returned."""
        self.queue.release(len(body))

    def _check(self, request: web.BaseRequest) -> None:
        """Raise ``Refusal`` if the headers are not those of a review, or the server is closing."""
        if self.lifecycle.phase is Phase.CLOSING:
            raise Refusal(503, "draining", "this injector is shutting down: try again, another one answers", retry=True)
        if request.content_type != JSON or CONTENT_ENCODING in request.headers:
            raise Refusal(415, "content_type", f"the content type must be {JSON}, without an encoding")
        if (announced := request.content_length) is not None and announced > MAX_BODY:
            raise _too_large()

    async def _receive_in_time(self, chunks: list[bytes], request: web.BaseRequest) -> None:
        size = 0
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                while chunk := await request.content.readany():
                    size = self._add(chunk, size, chunks)
        except TimeoutError as error:
            raise Refusal(408, "timeout", f"the body did not arrive within {READ_TIMEOUT:g} s") from error

    def _add(self, chunk: bytes, size: int, chunks: list[bytes]) -> int:
        """Append a chunk to those of a body, which have ``size`` bytes. Return the new size.

        The bytes are reserved when they arrive: announcing a length reserves nothing.
        """
        fits = self.queue.reserve(len(chunk), size)
        chunks.append(chunk)
        size += len(chunk)
        if not fits:
            raise Rejected(OVERLOAD)
        if size > MAX_BODY:
            raise _too_large()
        return size

    def refuse(self, refusal: Refusal) -> web.Response:
        """Return the response for a refusal."""
        response = web.Response(text=refusal.message, status=refusal.status)
        if refusal.retry:
            response.headers["Retry-After"] = RETRY_AFTER
        return self.close_unless_serving(response)

    def close_unless_serving(self, response: web.Response) -> web.Response:
        """Return the response; it closes its connection unless the server is serving."""
        if self.lifecycle.phase is not Phase.SERVING:
            response.force_close()
        return response


def _check_body(body: bytes) -> None:
    """Raise ``Refusal`` if a body is empty or has too many values."""
    if len(body) > SMALL and sum(map(body.count, (b",", b"{", b"["))) > MAX_VALUES:
        raise Refusal(413, "too_large", f"the body has more than {MAX_VALUES} values")
    if not body:
        raise Refusal(400, "empty_body", "no body found: send an AdmissionReview")


def _too_large() -> Refusal:
    return Refusal(413, "too_large", f"the body is larger than {MAX_BODY} bytes")

"""Reading a request: what is checked before its body, the body itself within its bounds, and the answer to a refused request."""

from __future__ import annotations

import asyncio
import math
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
    from collections.abc import Mapping

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

    async def read(self, request: web.Request) -> bytes:
        """Return the body of a request that may be a review. Its bytes count in the queue until ``done``.

        Raises:
            Refusal: it cannot be a review, it is too large, or it did not arrive.
        """
        self._check(request)
        chunks: list[bytes] = []
        try:
            await self._receive(chunks, request)
            body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
            _check_body(body)
        except BaseException:
            self.queue.release(sum(map(len, chunks)))
            raise
        if isinstance(request.protocol, Connection):
            request.protocol.received()
        return body

    def done(self, body: bytes) -> None:
        """Note that a body that ``read`` returned is not needed any more."""
        self.queue.release(len(body))

    def _check(self, request: web.Request) -> None:
        """Raise ``Refusal`` if the headers say that this cannot be a review, or the server is about to end."""
        if not self.lifecycle.answers:
            raise Refusal(503, "draining", "this injector is shutting down: try again, another one answers", again=True)
        if request.content_type != JSON or "Content-Encoding" in request.headers:
            raise Refusal(415, "content_type", f"the content type must be {JSON}, without an encoding")
        if request.content_length is not None and request.content_length > request.client_max_size:
            raise _too_large(request.client_max_size)

    async def _receive(self, chunks: list[bytes], request: web.Request) -> None:
        """Append the body to ``chunks``. What has arrived counts, not what a header announces, so announcing a body takes no room."""
        size = 0
        try:
            # A body that arrived together with the headers needs no timer.
            async with asyncio.timeout(None if request.content.is_eof() else READ):
                while chunk := await request.content.readany():
                    fits = self.queue.hold(len(chunk), size)
                    chunks.append(chunk)
                    size += len(chunk)
                    if not fits:
                        raise rejection(OVERLOAD)
                    if size > request.client_max_size:
                        raise _too_large(request.client_max_size)
        except ConnectionError as error:
            raise Refusal(400, "disconnected", "the caller disconnected") from error
        except web.RequestPayloadError as error:
            raise Refusal(400, "undecodable", "the body is not valid HTTP") from error
        except TimeoutError as error:
            raise Refusal(408, "timeout", f"the body did not arrive within {READ:g} s") from error

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


def _check_body(body: bytes) -> None:
    """Raise ``Refusal`` if a body cannot be a review, or holds more values than a Kubernetes object can."""
    if len(body) > SMALL and sum(map(body.count, (b",", b"{", b"["))) > MAX_VALUES:
        raise Refusal(413, "too_large", f"the body has more than {MAX_VALUES} values")
    if not body:
        raise Refusal(400, "empty_body", "no body found: send an AdmissionReview")


def _too_large(limit: int) -> Refusal:
    return Refusal(413, "too_large", f"the body is larger than {limit} bytes")

"""Read requests: check the headers, read the body within the limits of size, memory and time, and refuse requests by an HTTP status."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qs

from aiohttp import web
from aiohttp.hdrs import CONTENT_ENCODING

from injector.golang.time import parse_duration
from injector.webhook.lifecycle import Lifecycle, Phase
from injector.webhook.limits import BODY_TIMEOUT, MAX_BODIES, MAX_BODY, MAX_VALUES, RETRY_AFTER, SMALL_BODY
from injector.webhook.listener import Connection, send_continue
from injector.webhook.queue import OVERLOAD, Refusal, Rejected

JSON: Final = "application/json"


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


@dataclass(eq=False, slots=True)
class _Arrival:
    """A body that is arriving: its bytes so far, the time of the first one, and its time limit, which ends early if it is evicted."""

    began: float
    timeout: asyncio.Timeout
    size: int = 0
    is_evicted: bool = False


class Bodies:
    """The memory of the bodies of all requests, at most ``max_bytes``.

    Bodies that are still arriving may have half of it, so that those that never arrive leave room for complete ones. If they exceed it,
    the body that takes most memory for most time is evicted: that of an API server arrives within milliseconds.
    """

    def __init__(self, max_bytes: int = MAX_BODIES) -> None:
        self._max_bytes = max_bytes
        self._held = 0
        self._arriving: set[_Arrival] = set()
        self._arriving_bytes = 0

    def reserve(self, size: int, body: int = 0) -> bool:
        """Reserve ``size`` more bytes, until ``release``, for a body that has ``body`` bytes so far.

        Returns:
            Whether the body fits: it may have at most as many bytes as are free, so that large bodies are rejected first.
        """
        fits = body + size <= self._max_bytes - self._held
        self._held += size
        return fits

    def release(self, size: int) -> None:
        """Release bytes that ``reserve`` reserved, whether they fit or not."""
        self._held -= size

    def begin(self, timeout: asyncio.Timeout) -> _Arrival:
        """Return a body that begins to arrive, and has ``timeout`` to end."""
        arrival = _Arrival(asyncio.get_running_loop().time(), timeout)
        self._arriving.add(arrival)
        return arrival

    def end(self, arrival: _Arrival) -> None:
        """Note that nothing more of a body arrives. Its bytes stay reserved."""
        if arrival in self._arriving:
            self._arriving.discard(arrival)
            self._arriving_bytes -= arrival.size

    def receive(self, arrival: _Arrival, size: int) -> bool:
        """Reserve ``size`` more bytes for a body that is arriving, and return whether it fits; see ``reserve``."""
        fits = self.reserve(size, arrival.size)
        arrival.size += size
        if arrival in self._arriving:
            self._arriving_bytes += size
        while self._arriving_bytes > self._max_bytes // 2:
            self._evict()
        return fits and not arrival.is_evicted

    def _evict(self) -> None:
        now = asyncio.get_running_loop().time()
        victim = max(self._arriving, key=lambda arrival: arrival.size * (now - arrival.began))
        victim.is_evicted = True
        self.end(victim)
        # A time limit that has just ended cannot be set again: its task has not run since.
        if not victim.timeout.expired():
            victim.timeout.reschedule(now)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads and refuses the requests of the webhook's port, within the memory of ``bodies``."""

    lifecycle: Lifecycle
    bodies: Bodies = field(default_factory=Bodies)

    async def read(self, request: web.BaseRequest) -> bytes:
        """Return the body of a request. Its bytes are reserved until ``release``.

        Raises:
            Refusal: the request cannot be a review, is too large, or did not arrive.
        """
        self._check(request)
        chunks: list[bytes] = []
        try:
            if request.content.is_eof():
                # It arrived with the headers, so there is nothing to wait for.
                chunks.append(request.content.read_nowait())
                _check_room(fits=self.bodies.reserve(len(chunks[0])))
            else:
                await send_continue(request)
                await self._receive(chunks, request)
            body = b"".join(chunks)
            _check_body(body)
        except BaseException as error:
            self.bodies.release(sum(map(len, chunks)))
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
        self.bodies.release(len(body))

    def _check(self, request: web.BaseRequest) -> None:
        """Raise ``Refusal`` if the headers are not those of a review, or the server is closing."""
        if self.lifecycle.phase is Phase.CLOSING:
            raise Refusal(503, "draining", "this injector is shutting down: try again, another one answers", retry=True)
        if request.content_type != JSON or CONTENT_ENCODING in request.headers:
            raise Refusal(415, "content_type", f"the content type must be {JSON}, without an encoding")
        if (announced := request.content_length) is not None and announced > MAX_BODY:
            raise _too_large()

    async def _receive(self, chunks: list[bytes], request: web.BaseRequest) -> None:
        """Append the chunks of a body as they arrive. Their bytes are reserved then: announcing a length reserves nothing."""
        try:
            async with asyncio.timeout(BODY_TIMEOUT) as timeout:
                arrival = self.bodies.begin(timeout)
                try:
                    while chunk := await request.content.readany():
                        chunks.append(chunk)
                        _check_room(fits=self.bodies.receive(arrival, len(chunk)))
                        if arrival.size > MAX_BODY:
                            raise _too_large()
                finally:
                    self.bodies.end(arrival)
        except TimeoutError as error:
            if arrival.is_evicted:
                raise Rejected(OVERLOAD) from error
            raise Refusal(408, "timeout", f"the body did not arrive within {BODY_TIMEOUT:g} s") from error

    def refuse(self, refusal: Refusal) -> web.Response:
        """Return the response for a refusal."""
        response = web.Response(text=refusal.message, status=refusal.status)
        if refusal.retry:
            response.headers["Retry-After"] = str(RETRY_AFTER)
        return self.close_unless_serving(response)

    def close_unless_serving(self, response: web.Response) -> web.Response:
        """Return the response; it closes its connection unless the server is serving."""
        if self.lifecycle.phase is not Phase.SERVING:
            response.force_close()
        return response


def _check_body(body: bytes) -> None:
    """Raise ``Refusal`` if a body is empty or has too many values."""
    if len(body) > SMALL_BODY and sum(map(body.count, (b",", b"{", b"["))) > MAX_VALUES:
        raise Refusal(413, "too_large", f"the body has more than {MAX_VALUES} values")
    if not body:
        raise Refusal(400, "empty_body", "no body found: send an AdmissionReview")


def _check_room(*, fits: bool) -> None:
    if not fits:
        raise Rejected(OVERLOAD)


def _too_large() -> Refusal:
    return Refusal(413, "too_large", f"the body is larger than {MAX_BODY} bytes")

"""What stands between a connection and a review: the drain, the headers, the body, and what is told to who is turned away."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aiohttp import web

from injector.webhook.admittance import DEADLINE, OVERLOAD
from injector.webhook.body import Body, NoRoomError, TooLargeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.webhook.lifecycle import Lifecycle
    from injector.webhook.queue import AdmissionQueue

JSON: Final = "application/json"
# The API server waits 10 s by default, and sends a body at once: who takes longer is no API server.
READ_TIMEOUT: Final = 6.0
# Sixty thousand variables, more than an object of etcd's largest size holds. Each value that is decoded takes 60 bytes and more, and some
# 150 ns: without a bound a body of empty lists would hold the event loop for half a second, and 200 MB.
MAX_VALUES: Final = 250_000
FEW: Final = 64 * 1024
"""Bytes of a body that need not be looked through for values."""
RETRY_AFTER: Final = "1"

TURNED_AWAY: Final[Mapping[str, tuple[int, str]]] = {
    OVERLOAD: (429, "too many requests wait here: try again"),
    DEADLINE: (503, "too many requests wait here to answer this one in its time: try again"),
}
"""What is told to those who should not wait, by the reason."""


class Refusal(Exception):  # noqa: N818 -- not an error of the injector: an answer to a request that is no review
    """A request that is answered by its HTTP status alone, since it has no uid; ``again`` says that a retry may help."""

    def __init__(self, status: int, reason: str, message: str, *, again: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.again = again


def too_large(limit: int) -> Refusal:
    """Return the refusal of a body beyond the limit."""
    return Refusal(413, "too_large", f"the body is larger than {limit} bytes")


def turned_away(reason: str) -> Refusal:
    """Return the refusal of who should not wait."""
    status, message = TURNED_AWAY[reason]
    return Refusal(status, reason, message, again=True)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the requests of one port, as long as there is room, and answers those that are none."""

    lifecycle: Lifecycle
    admittance: AdmissionQueue

    def held(self, request: web.Request) -> Body:
        """Return the body to come of a request, which holds its room until the block ends.

        Raises:
            Refusal: what comes before the body says that it cannot be a review.
        """
        if not self.lifecycle.answers:
            raise Refusal(503, "draining", "this injector is shutting down: try again, another one answers", again=True)
        if request.content_type != JSON or "Content-Encoding" in request.headers:
            raise Refusal(415, "content_type", f"the content type must be {JSON}, without an encoding")
        if request.content_length is not None and request.content_length > request.client_max_size:
            raise too_large(request.client_max_size)
        return Body(request.content, self.admittance)

    async def read(self, held: Body, limit: int) -> bytes:
        """Return the body of a request that can be a review.

        Raises:
            Refusal: it cannot.
        """
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                body = await held.read(limit)
        except TooLargeError as error:
            raise too_large(limit) from error
        except NoRoomError as error:
            raise turned_away(OVERLOAD) from error
        except ConnectionError as error:
            raise Refusal(400, "disconnected", "the caller is gone") from error
        except web.RequestPayloadError as error:
            raise Refusal(400, "undecodable", "the body is not sent as HTTP has it") from error
        except TimeoutError as error:
            raise Refusal(408, "timeout", f"the body did not come within {READ_TIMEOUT:g} s") from error
        if len(body) > FEW and sum(map(body.count, (b",", b"{", b"["))) > MAX_VALUES:
            raise Refusal(413, "too_large", f"the body has more than {MAX_VALUES} values")
        if not body:
            raise Refusal(400, "empty_body", "no body found: send an AdmissionReview")
        return body

    def refused(self, refusal: Refusal) -> web.Response:
        """Return the answer to a request that is refused by its HTTP status alone."""
        response = web.Response(text=refusal.message, status=refusal.status)
        if refusal.again:
            response.headers["Retry-After"] = RETRY_AFTER
        if refusal.status in (web.HTTPRequestEntityTooLarge.status_code, web.HTTPRequestTimeout.status_code):
            response.force_close()
        return self.closing(response)

    def closing(self, response: web.Response) -> web.Response:
        """Return the answer, which ends its connection where connections are not kept any more."""
        if not self.lifecycle.keeps_connections:
            response.force_close()
        return response

"""Posts AdmissionReviews to the webhook of another injector, as the API server does: through its Service, or to a URL.

The Service is reached by the API server's proxy for Services, which does not check the certificate behind it. A URL is called directly, and
its certificate is checked. All requests and answers have limits.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from injector.cluster.client import read_up_to
from injector.cluster.tls import client_context
from injector.errors import ClusterError, DataError, UsageError
from injector.golang.json import dump_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.cluster.client import KubeClient

CONNECT_TIMEOUT: Final = 4.0
MAX_ANSWER: Final = 8 * 1024 * 1024
"""The bytes of one answer. A pod has at most 3 MiB in a request, and a patch in base64 a third more."""
_JSON: Final = {"Content-Type": "application/json"}
_OK: Final = 200
# Of the proxy of the API server (k8s.io/apimachinery/pkg/util/proxy/transport.go): the connection ended without an answer.
_DROPPED: Final = ("EOF", "connection reset", "broken pipe")


class NoAnswerError(DataError):
    """A review that was not answered, or not with an AdmissionReview that belongs to it. Another one may be.

    ``what`` may quote what came in place of an answer, and so the pod that was sent.
    """


class DroppedError(NoAnswerError):
    """A review whose connection was closed without an answer."""


@dataclass(frozen=True, slots=True)
class WebhookAddress:
    """The address of a webhook: a Service with its port, or else a URL. ``path`` is that of the requests.

    ``ca`` are the PEM certificates that the certificate of a URL is checked with; without any, those of this machine.
    """

    path: str
    service: str = ""
    namespace: str = ""
    port: int = 443
    url: str = ""
    ca: str = ""

    def __str__(self) -> str:
        return self.url or f"Service {self.namespace}/{self.service}, port {self.port}, path {self.path}"

    @property
    def proxied(self) -> str:
        """The name of the Service for the API server's proxy, which RBAC rules name too."""
        return f"https:{self.service}:{self.port}"


class ReviewClient:
    """Posts reviews. ``client`` is that of the API server, which only addresses of Services need.

    ``post`` raises NoAnswerError if this review has no answer, and ClusterError if no other would have one either.
    """

    def __init__(self, client: KubeClient | None, *, timeout: float) -> None:
        self._client = client
        self._timeout = timeout
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    async def post(self, address: WebhookAddress, review: Mapping[str, Any]) -> bytes:
        """Return the answer to a review. A dropped one is sent once more: the server may have closed the connection for its age."""
        post = self._post_to_url if address.url else self._post_to_service
        try:
            answer = await post(address, review)
        except DroppedError:
            answer = await post(address, review)
        if len(answer) > MAX_ANSWER:
            raise NoAnswerError(f"its answer has more than {MAX_ANSWER} bytes", where=str(address))
        return answer

    async def close(self) -> None:
        """Close every connection."""
        for session in self._sessions.values():
            await session.close()

    async def _post_to_service(self, address: WebhookAddress, review: Mapping[str, Any]) -> bytes:
        if self._client is None:
            raise UsageError("a Service is reached through the API server, and none is configured", where=str(address))
        path = f"/api/v1/namespaces/{address.namespace}/services/{address.proxied}/proxy{address.path}"
        try:
            return await self._client.post_to_proxy(path, review, seconds=self._timeout, limit=MAX_ANSWER)
        except ClusterError as error:
            raise self._proxy_fault(address, error) from error

    def _proxy_fault(self, address: WebhookAddress, error: ClusterError) -> Exception:
        where, what = str(address), error.what
        match error.reason:
            case "forbidden":
                permission = (
                    f"the verb `create` on the resource `services/proxy`, name `{address.proxied}`, "
                    f"in namespace {address.namespace}"
                )
                return _systemic(f"the API server forbids it: {what}", where, f"grant the account {permission}")
            case "idle":
                return NoAnswerError(f"no answer within {self._timeout:g} s", where=where)
            case "missing" if "services " in what:
                return _systemic(what, where, "check the webhook's Service, or give --istiod-url")
            case "missing" | "refused" | "throttled" | "conflict" | "gone" if not _is_of_proxy(what):
                return NoAnswerError(f"it answers with HTTP status {error.status}", where=where)
            case "server" if any(sign in what for sign in _DROPPED):
                return DroppedError("it closes the connection without an answer", where=where)
            case "server" if not _is_of_proxy(what):
                return NoAnswerError(f"it answers with HTTP status {error.status}", where=where)
            case "server" | "refused":
                return _systemic(
                    what,
                    where,
                    "check that istiod is running; the proxy reaches only pods: for an istiod elsewhere, give --istiod-url",
                )
            case _:
                return error

    async def _post_to_url(self, address: WebhookAddress, review: Mapping[str, Any]) -> bytes:
        where = address.url
        try:
            request = self._session(address.ca).post(
                address.url, data=dump_json(review), headers=_JSON, allow_redirects=False
            )
            async with request as response:
                answer = await read_up_to(response.content, MAX_ANSWER + 1)
        except TimeoutError as error:
            if isinstance(error, aiohttp.ConnectionTimeoutError):
                raise _unreachable(where, "no connection in time") from error
            raise NoAnswerError(f"no answer within {self._timeout:g} s", where=where) from error
        except aiohttp.ClientSSLError as error:
            raise _tls_fault(where, error) from error
        except aiohttp.ClientConnectorError as error:
            raise _unreachable(where, error.strerror or type(error).__name__) from error
        except aiohttp.InvalidURL as error:
            raise UsageError("not a URL", where=where, hint="write https://HOST:PORT/inject") from error
        except (aiohttp.ClientError, OSError) as error:
            raise DroppedError("it closes the connection without an answer", where=where) from error
        if response.status != _OK:
            said = answer.decode(errors="replace")
            raise NoAnswerError(f"it answers with HTTP status {response.status}: {said}", where=where)
        return answer

    def _session(self, ca: str) -> aiohttp.ClientSession:
        if ca not in self._sessions:
            try:
                context = client_context(ca)
            except (ssl.SSLError, ValueError) as error:
                raise UsageError(
                    "no PEM certificate can be read", where="the webhook's CA", hint="give another --istiod-ca FILE"
                ) from error
            timeout = aiohttp.ClientTimeout(total=self._timeout, sock_connect=CONNECT_TIMEOUT)
            self._sessions[ca] = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context), timeout=timeout)
        return self._sessions[ca]


def _is_of_proxy(what: str) -> bool:
    """Return whether an error is of the API server's proxy, and not of the webhook behind it, whose errors are no Status."""
    return ": " in what


def _systemic(what: str, where: str, hint: str) -> ClusterError:
    # With the reason `refused`, the hint stays: a session has hints of its own for the others.
    return ClusterError(what, where=where, hint=hint, reason="refused")


def _unreachable(where: str, detail: str) -> ClusterError:
    return _systemic(f"it cannot be reached: {detail}", where, "check the host, the port and the network")


def _tls_fault(where: str, error: aiohttp.ClientSSLError) -> ClusterError:
    cause = getattr(error, "certificate_error", None) or error.__cause__ or error
    detail = getattr(cause, "verify_message", "") or getattr(cause, "reason", "") or type(cause).__name__
    return _systemic(
        f"TLS failed: {detail}",
        where,
        "give the CA of its certificate by --istiod-ca FILE, and a host of that certificate",
    )

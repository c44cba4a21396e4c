"""Health: the event loop's lag, the server's own TLS client, the old health file, and the operations port.

The operations port is plain HTTP and read only. ``/livez`` and ``/healthz`` say that the event loop runs in time. ``/readyz`` says that a
pod that is created now would get its sidecar: the server serves at least one revision, with a certificate that API servers accept, and
no background task is down. ``/metrics`` and the status page are here too.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from injector.metrics import CONTENT_TYPE
from injector.webhook.lifecycle import Phase
from injector.webhook.shadow import Shadows
from injector.webhook.status import request_rows, status
from injector.webhook.statuspage import DATA_HEADERS, HEADERS, status_page

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from injector.metrics import Metrics
    from injector.revisions.registry import Registry
    from injector.revisions.reload import Loader
    from injector.revisions.unservednames import UnservedNames
    from injector.webhook.lifecycle import Lifecycle
    from injector.webhook.supervisor import Supervisor
    from injector.webhook.tls import Certificates

_log = logging.getLogger(__name__)

# An idle server shall sleep: each measurement wakes it.
LAG_INTERVAL: Final = 5.0
# Prometheus scrapes each minute unless told otherwise: what the gauge shows must last until then.
LAGS: Final = 12
# An API server waits for 10 s unless told otherwise (admissionregistration/v1, timeoutSeconds): whatever arrived
# while a loop stood for that long is lost.
MAX_LAG: Final = 10.0


class LoopLag:
    """Measures the lag of the loop that runs ``follow``.

    Args:
        clock: tells the seconds, from any start.
        pause: waits for so many of them.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._pause = pause
        self._due: float | None = None
        self._last: deque[float] = deque(maxlen=LAGS)

    async def follow(self, metrics: Metrics) -> None:
        """Measure for ever."""
        while True:
            self._due = self._clock() + LAG_INTERVAL
            await self._pause(LAG_INTERVAL)
            self._last.append(max(0.0, self._clock() - self._due))
            metrics.event_loop_lag(max(self._last))

    def fault(self) -> str:
        """Return how long the loop is stuck, or was until now; nothing where it is not."""
        if self._due is None:
            return ""
        late = max(self._clock() - self._due, self._last[-1] if self._last else 0.0)
        return f"the event loop is stuck: {late:.1f} s late" if late > MAX_LAG else ""


@dataclass(frozen=True, slots=True)
class HealthFile:
    """A file, and the seconds between two writings."""

    path: Path
    interval: float

    async def follow(
        self, fault: Callable[[], str], *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        """Write the file for ever, unless ``fault`` says that the injector does not live.

        Why it cannot be written is logged once, until it could be.
        """
        told = ""
        while True:
            if not fault():
                trouble = await asyncio.to_thread(self._write)
                if trouble and trouble != told:
                    _log.error("cannot write --healthCheckFile %s: %s", self.path, trouble)
                told = trouble
            await pause(self.interval)

    def _write(self) -> str:
        """Write the file; return why that was not possible."""
        try:
            self.path.write_text("ok", encoding="utf-8")
        except OSError as error:
            return error.strerror or str(error)
        return ""


PROBE_INTERVAL: Final = 30.0
# What an API server waits for a handshake (k8s.io/client-go/transport, TLSHandshakeTimeout).
PROBE_TIMEOUT: Final = 10.0
_LOOPBACK: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 -- what is bound to everywhere


@dataclass
class SelfProbe:
    """Asks for the certificate of ``certificates`` at the address that the port is bound to."""

    certificates: Certificates
    bind: str
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def follow(self, metrics: Metrics, port: int) -> None:
        """Probe for ever; tell the metrics each time, and the log when it begins to fail and when it is well again."""
        known = ""
        while True:
            if self.certificates.certificate is not None:
                fault = await self.fault(port)
                metrics.tls_probe(success=not fault)
                if fault and not known:
                    _log.error("the injector's own client is not served on port %d: %s", port, fault)
                elif known and not fault:
                    _log.info("the injector's own client is served again")
                known = fault
            await self.pause(PROBE_INTERVAL)

    async def fault(self, port: int) -> str:
        """Return what is wrong with what the port shows; nothing where a client that trusts the bundle takes it."""
        certificate, bundle = self.certificates.certificate, self.certificates.bundle
        if certificate is None:
            return "there is no certificate yet"
        name = certificate.names[0].replace("*", "any", 1)
        try:
            async with asyncio.timeout(PROBE_TIMEOUT):
                shown = await _shown(_LOOPBACK.get(self.bind, self.bind), port, name, _client(bundle))
        except (OSError, ValueError) as error:
            reason = getattr(error, "verify_message", None) or getattr(error, "strerror", None)
            return str(reason or type(error).__name__)
        # It may have been renewed since it was asked for.
        own = {each.fingerprint for each in (certificate, self.certificates.certificate) if each is not None}
        return "" if shown in own else "another certificate than the injector's is served"


def _client(bundle: bytes | None) -> ssl.SSLContext:
    if bundle is not None:
        context = ssl.create_default_context(cadata=bundle.decode("latin-1"))
        # As Go, which API servers are written in: whatever is in the bundle is trusted, an intermediate authority too.
        context.verify_flags = (context.verify_flags | ssl.VERIFY_X509_PARTIAL_CHAIN) & ~ssl.VERIFY_X509_STRICT
        return context
    # Nobody said whom API servers trust; what is shown is compared all the same.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _shown(host: str, port: int, name: str, client: ssl.SSLContext) -> str:
    """Return the SHA-256 of the certificate that a handshake shows."""
    _, writer = await asyncio.open_connection(host, port, ssl=client, server_hostname=name)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()
    return sha256(shown).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class Operations:
    """The handlers of the operations port, and what they tell of."""

    registry: Registry
    loader: Loader
    metrics: Metrics
    lifecycle: Lifecycle
    version: str
    shadows: Shadows | None = None
    supervisor: Supervisor | None = None
    lag: LoopLag = field(default_factory=LoopLag)
    certificates: Certificates | None = None
    unserved: UnservedNames | None = None
    clock: Callable[[], float] = time.time

    async def live(self, request: web.Request) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer 200, or 503 where the event loop is stuck: admissions wait for it as this does."""
        return _probed(self.lag.fault())

    async def ready(self, request: web.Request) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer 200, or 503 with the reason."""
        return _probed(self._unready())

    async def series(self, request: web.Request) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer every series, as Prometheus reads them."""
        return web.Response(body=self.metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    async def page(self, request: web.Request) -> web.Response:
        """Answer the status as a page, or as JSON with ``?format=json``."""
        if request.query.get("format") == "json":
            return await self.status(request)
        # The page of a large fleet takes a tenth of a second to render: not on the event loop.
        text = await asyncio.to_thread(status_page, self._status())
        return web.Response(text=text, content_type="text/html", headers=HEADERS)

    async def status(self, request: web.Request) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer the status as JSON."""
        return web.json_response(self._status(), headers=DATA_HEADERS)

    def _status(self) -> dict[str, Any]:
        shadows = self.shadows or Shadows(self.metrics)
        found = status(self.registry.snapshot, self.loader.report, self.lifecycle.phase, shadows, version=self.version)
        found["certificate"] = None if self.certificates is None else self.certificates.shown()
        found["unserved"] = None if self.unserved is None else self.unserved.to_dict()
        found["time"] = self.clock()
        found["requests"] = request_rows(self.metrics)
        return found

    def _unready(self) -> str:
        if self.lifecycle.phase is not Phase.SERVING:
            return str(self.lifecycle.phase.value)
        if not self.registry.snapshot.revisions:
            return "no revision is served"
        fault = "" if self.certificates is None else self.certificates.fault()
        return fault or ("" if self.supervisor is None else self.supervisor.fault())


def _probed(fault: str) -> web.Response:
    return web.Response(text=fault or "ok", status=503 if fault else 200)

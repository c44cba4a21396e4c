"""The TLS self-check: a client that connects to the webhook's port like an API server."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from injector.metrics import Metrics
    from injector.webhook.tls.source import CertificateSource

_log = logging.getLogger(__name__)

INTERVAL: Final = 30.0
TIMEOUT: Final = 10.0
"""An API server's timeout for a handshake (k8s.io/client-go/transport, TLSHandshakeTimeout)."""
_LOOPBACK: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 -- addresses of listeners


@dataclass
class SelfCheck:
    """Checks that the port on address ``bind`` serves the current certificate of ``certificates``."""

    certificates: CertificateSource
    bind: str
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def follow(self, metrics: Metrics, port: int) -> None:
        """Check until cancelled; show the result in the metrics, and log when it changes."""
        last = ""
        while True:
            if self.certificates.certificate is not None:
                fault = await self.fault(port)
                metrics.tls_probe.set(not fault)
                if fault and not last:
                    _log.error("TLS self-check failed on port %d: %s", port, fault)
                elif last and not fault:
                    _log.info("TLS self-check succeeded on port %d", port)
                last = fault
            await self.sleep(INTERVAL)

    async def fault(self, port: int) -> str:
        """Return why a client that trusts the bundle rejects the port's certificate; empty if it accepts it."""
        certificate, bundle = self.certificates.certificate, self.certificates.bundle
        if certificate is None:
            return "there is no certificate yet"
        name = certificate.names[0].replace("*", "any", 1)
        host = _LOOPBACK.get(self.bind, self.bind)
        try:
            async with asyncio.timeout(TIMEOUT):
                fingerprint = await _served_fingerprint(host, port, name, _client(bundle))
        except (OSError, ValueError) as error:
            reason = getattr(error, "verify_message", None) or getattr(error, "strerror", None)
            return str(reason or type(error).__name__)
        # The certificate may have been renewed during the handshake.
        current = (certificate, self.certificates.certificate)
        own = {each.fingerprint for each in current if each is not None}
        return "" if fingerprint in own else "the port serves another certificate than the injector's"


def _client(bundle: bytes | None) -> ssl.SSLContext:
    if bundle is not None:
        context = ssl.create_default_context(cadata=bundle.decode("latin-1"))
        # Like API servers, which are written in Go, trust every certificate in the bundle, also an intermediate CA.
        context.verify_flags = (context.verify_flags | ssl.VERIFY_X509_PARTIAL_CHAIN) & ~ssl.VERIFY_X509_STRICT
        return context
    # The CA is not known. The certificate is still compared.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _served_fingerprint(host: str, port: int, name: str, client: ssl.SSLContext) -> str:
    _, writer = await asyncio.open_connection(host, port, ssl=client, server_hostname=name)
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()
    return sha256(certificate).hexdigest()

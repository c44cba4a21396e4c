"""A client of the injector's own: connects to the webhook's port now and then, and looks what certificate it is shown.

It trusts what API servers are told to trust and asks for the name that they ask for, so it notices what no look at files
does: a port that somebody else serves, a chain that its own bundle does not lead to.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from injector.metrics import Metrics
    from injector.webhook.handshakes import Certificates

_log = logging.getLogger(__name__)

INTERVAL: Final = 30.0
# What an API server waits for a handshake (k8s.io/client-go/transport, TLSHandshakeTimeout).
PATIENCE: Final = 10.0
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
            await self.pause(INTERVAL)

    async def fault(self, port: int) -> str:
        """Return what is wrong with what the port shows; nothing where a client that trusts the bundle takes it."""
        certificate, bundle = self.certificates.certificate, self.certificates.bundle
        if certificate is None:
            return "there is no certificate yet"
        name = certificate.names[0].replace("*", "any", 1)
        try:
            async with asyncio.timeout(PATIENCE):
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

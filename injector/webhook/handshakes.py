"""The TLS contexts of the webhook's port, one to listen with and one for the handshakes of each certificate.

The port listens with one context for as long as it lives; each handshake is handed the context of the newest pair. A
pair is not loaded into a context that is in use: OpenSSL keeps a slot for each kind of key, so after a change from
ECDSA to RSA it would go on showing the old certificate, and a load that fails half-way would leave none.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from injector.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from injector.metrics import Metrics
    from injector.webhook.certificate import Certificate, Pair
    from injector.webhook.clients import ClientAuthority


class Certificates(Protocol):
    """Where the certificate of a port comes from."""

    @property
    def context(self) -> ssl.SSLContext:
        """What the port listens with."""

    @property
    def certificate(self) -> Certificate | None:
        """What a handshake is shown now."""

    @property
    def bundle(self) -> bytes | None:
        """The PEM of what API servers have to trust; None where nobody said."""

    def fault(self) -> str:
        """Return why no API server would take the certificate now; nothing where it would."""

    def shown(self) -> dict[str, Any]:
        """Return what the status page tells of it."""

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` on the event loop whenever the certificate or the bundle may have changed."""

    async def follow(self, metrics: Metrics) -> None:
        """Keep it up to date for ever."""


class Handshakes:
    """The context that a port listens with, and the one that its handshakes get.

    Args:
        clients: whose certificates are demanded; None demands none.
    """

    def __init__(self, clients: ClientAuthority | None = None) -> None:
        self._clients = clients
        self._handed: ssl.SSLContext | None = None
        self.context = _context()
        if clients is not None:
            clients.demand(self.context)
        self.context.sni_callback = self._hand_over

    def use(self, context: ssl.SSLContext) -> None:
        """Give this context to every handshake from now on."""
        self._handed = context

    def load(self, pair: Pair, *, where: str) -> ssl.SSLContext:
        """Return a context of a pair that was read; ``where`` names it.

        Raises:
            ConfigError: OpenSSL refuses it.
        """
        context = _context()
        if self._clients is not None:
            self._clients.demand(context)
        try:
            with _readable(pair.chain) as chain, _readable(pair.key) as key:
                context.load_cert_chain(chain, key, password=_no_password)
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(
                f"OpenSSL refuses it ({getattr(error, 'reason', None) or error})", where=where, hint="have it reissued"
            ) from error
        return context

    @property
    def demands_clients(self) -> bool:
        """Whether clients need a certificate, so that ``clients_changed`` is worth a call now and then."""
        return self._clients is not None

    def clients_changed(self) -> bool | None:
        """Tell whether the file of the clients' CA has changed, so that new contexts are needed; None if it cannot be used."""
        return False if self._clients is None else self._clients.poll()

    def _hand_over(self, handshake: ssl.SSLObject, name: str | None, listening: ssl.SSLContext) -> int | None:  # noqa: ARG002 -- ssl's signature
        if self._handed is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        handshake.context = self._handed
        return None


def _context() -> ssl.SSLContext:
    """Return a context without a certificate: TLS 1.2 at least, HTTP/1.1 alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


@contextmanager
def _readable(content: bytes) -> Iterator[str]:
    """Give a path that ``content`` can be read from: OpenSSL's door for PEM. It is memory, so no key gets on a disk."""
    anonymous = hasattr(os, "memfd_create")  # on Linux; elsewhere a file without a name, which is for development
    with os.fdopen(os.memfd_create("tls"), "w+b") if anonymous else tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield f"/dev/fd/{file.fileno()}"


def _no_password() -> str:
    """Keep OpenSSL from asking on the terminal for the password of an encrypted key."""
    return ""

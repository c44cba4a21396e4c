"""The certificate of a port, and how handshakes get it.

The port listens with one context for as long as it lives. Each handshake is given the context of the newest pair (``sni_callback``), so
open connections keep theirs. A pair is never loaded into a context that is in use: OpenSSL has one slot for each kind of key, so after a
change from ECDSA to RSA it would still show the old certificate, and a failed load would leave none. If a pair is not valid, the last good
one stays in use.
"""

from __future__ import annotations

import os
import ssl
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from injector.metrics import Metrics
    from injector.webhook.tls.certificate import Certificate, Pair
    from injector.webhook.tls.clients import ClientAuthority

SUCCESS: Final = "success"
FAILURE: Final = "failure"


class Handshakes:
    """The context that a port listens with, and the one that its handshakes get.

    Args:
        clients: verifies client certificates; None requires none.
    """

    def __init__(self, clients: ClientAuthority | None = None) -> None:
        self._clients = clients
        self._current: ssl.SSLContext | None = None
        self.context = self._new_context()
        self.context.sni_callback = self._select_context

    def use(self, context: ssl.SSLContext) -> None:
        """Give this context to every handshake from now on."""
        self._current = context

    def load(self, pair: Pair, *, where: str) -> ssl.SSLContext:
        """Return a context with a certificate and its key; ``where`` names them in errors.

        Raises:
            ConfigError: OpenSSL rejects the pair.
        """
        context = self._new_context()
        try:
            with _as_file(pair.chain) as chain, _as_file(pair.key) as key:
                context.load_cert_chain(chain, key, password=_no_password)
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(
                f"OpenSSL rejects it ({getattr(error, 'reason', None) or error})", where=where, hint="have it reissued"
            ) from error
        return context

    @property
    def clients_file(self) -> Path | None:
        """The file of the client CA, if client certificates are verified."""
        return None if self._clients is None else self._clients.path

    def clients_changed(self) -> bool | None:
        """Return whether the client CA has changed, so that new contexts are needed; None if a new one was rejected."""
        return False if self._clients is None else self._clients.poll()

    def _new_context(self) -> ssl.SSLContext:
        """Return a context without a certificate: TLS 1.2 or later, HTTP/1.1 only."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if self._clients is not None:
            self._clients.require(context)
        return context

    def _select_context(self, handshake: ssl.SSLObject, name: str | None, listening: ssl.SSLContext) -> int | None:  # noqa: ARG002 -- ssl's signature
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        handshake.context = self._current
        return None


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield a path from which OpenSSL can read ``content``. The file is in memory, so no key is written to a disk."""
    in_memory = hasattr(os, "memfd_create")  # Linux; elsewhere an unlinked temporary file, for development
    with os.fdopen(os.memfd_create("tls"), "w+b") if in_memory else tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield f"/dev/fd/{file.fileno()}"


def _no_password() -> str:
    """Keep OpenSSL from asking for the password of an encrypted key on the terminal."""
    return ""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A pair in use, with its certificate and context, and the time it was loaded in seconds since the epoch."""

    pair: Pair
    certificate: Certificate
    context: ssl.SSLContext
    loaded_at: float


class CertificateSource(ABC):
    """Loads the certificate of a port and keeps it up to date.

    Args:
        handshakes: the contexts of the port.
        clock: returns seconds since the epoch.

    Attributes:
        changed: called after each change of the certificate or the CA bundle.
    """

    def __init__(self, handshakes: Handshakes | None, clock: Callable[[], float] = time.time) -> None:
        self._handshakes = handshakes or Handshakes()
        self._clock = clock
        self._loaded: Loaded | None = None
        self.changed: Callable[[], None] = lambda: None

    @property
    def context(self) -> ssl.SSLContext:
        """The context that the port listens with."""
        return self._handshakes.context

    @property
    def certificate(self) -> Certificate | None:
        """The certificate that handshakes get now."""
        return None if self._loaded is None else self._loaded.certificate

    @property
    @abstractmethod
    def bundle(self) -> bytes | None:
        """The PEM bundle that API servers have to trust; None if it is not known."""

    @abstractmethod
    async def follow(self, metrics: Metrics) -> None:
        """Keep the certificate up to date until cancelled."""

    def fault(self) -> str:
        """Return why API servers would reject the certificate; empty if they accept it."""
        if self._loaded is None:
            return "there is no certificate yet: the Secret of the CA has not been read"
        fault = self._loaded.certificate.fault(self._clock())
        return f"the certificate cannot be used: {fault}" if fault else ""

    def status(self) -> dict[str, Any]:
        """Return the certificate and its fault as JSON data."""
        fault = self.fault()
        if self._loaded is None:
            return {"valid": False, "error": fault}
        certificate = self._loaded.certificate
        return {
            "valid": not fault,
            "error": fault or None,
            "names": list(certificate.names),
            "notBefore": certificate.not_before,
            "notAfter": certificate.not_after,
            "fingerprint": certificate.fingerprint,
            "loadedAt": self._loaded.loaded_at,
        }

    def _use(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._handshakes.use(loaded.context)

    def _reload_clients(self, where: str) -> str | None:
        """Use the client CA as it is now; return the outcome if it has changed."""
        changed = self._handshakes.clients_changed()
        if changed and self._loaded is not None:
            self._use(replace(self._loaded, context=self._handshakes.load(self._loaded.pair, where=where)))
        return {True: SUCCESS, None: FAILURE}.get(changed)

"""The certificate of a port, and how handshakes get it.

The port listens with one context for as long as it lives. Each handshake is given the context of the newest pair (``sni_callback``), so
open connections keep theirs. A pair is never loaded into a context that is in use: OpenSSL has one slot for each kind of key, so after a
change from ECDSA to RSA it would still show the old certificate, and a failed load would leave none. If a pair is not valid, the last good
one stays in use. ``FileSource`` reads the pair again when its files change. ``SelfCheck`` is a client that connects to the port like an API
server.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ConfigError, InjectorError, detach
from injector.memoryfiles import file_in_memory
from injector.regularfiles import DAEMON_THREADS, read_file
from injector.revisions.files import FileWatch, TimedReads
from injector.webhook.tls.certificate import Certificate, CertificateFiles, Pair, read_certificates, read_pair, trust

if TYPE_CHECKING:
    from pathlib import Path

    from injector.metrics import Metrics
    from injector.webhook.tls.certificate import ClientAuthority

_log = logging.getLogger(__name__)

SUCCESS: Final = "success"
FAILURE: Final = "failure"


class Handshakes:
    """The context that a port listens with, and the one that its handshakes get. Without ``clients``, a client needs no certificate."""

    def __init__(self, clients: ClientAuthority | None = None) -> None:
        self.clients = clients
        self.current: ssl.SSLContext | None = None
        self.context = self._new_context()
        self.context.sni_callback = self._select_context

    def use(self, context: ssl.SSLContext) -> None:
        """Give this context to every handshake from now on."""
        self.current = context

    def load(self, pair: Pair, *, where: str) -> ssl.SSLContext:
        """Return a context with a certificate and its key. Raises ConfigError, which names ``where``, if OpenSSL rejects them."""
        context = self._new_context()
        try:
            with file_in_memory(pair.chain) as chain, file_in_memory(pair.key) as key:
                context.load_cert_chain(chain, key, password=_no_password)
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(
                f"OpenSSL rejects it ({getattr(error, 'reason', None) or error})", where=where, hint="have it reissued"
            ) from error
        return context

    def _new_context(self) -> ssl.SSLContext:
        """Return a context without a certificate: TLS 1.2 or later, HTTP/1.1 only."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if self.clients is not None:
            self.clients.require(context)
        return context

    def _select_context(self, handshake: ssl.SSLObject, name: str | None, listening: ssl.SSLContext) -> int | None:  # noqa: ARG002 -- ssl's signature
        if self.current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        handshake.context = self.current
        return None


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

    ``changed`` is called after each change of the certificate or the CA bundle.
    """

    def __init__(self, handshakes: Handshakes | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._handshakes = handshakes or Handshakes()
        self._clock = clock
        self.loaded: Loaded | None = None
        """The pair in use."""
        self.error: InjectorError | None = None
        """Why what should be used now cannot be; None if nothing is wrong."""
        self.changed: Callable[[], None] = lambda: None

    @property
    def context(self) -> ssl.SSLContext:
        """The context that the port listens with."""
        return self._handshakes.context

    @property
    def clients(self) -> ClientAuthority | None:
        """The CA of client certificates; None if a client needs none."""
        return self._handshakes.clients

    @property
    def certificate(self) -> Certificate | None:
        """The certificate that handshakes get now."""
        return None if self.loaded is None else self.loaded.certificate

    @property
    @abstractmethod
    def bundle(self) -> bytes | None:
        """The PEM bundle that API servers have to trust; None if it is not known."""

    @abstractmethod
    async def follow(self, metrics: Metrics) -> None:
        """Keep the certificate up to date until cancelled."""

    def fault(self) -> str:
        """Return why API servers would reject the certificate; empty if they accept it."""
        if self.loaded is None:
            return f"there is no certificate yet: {self.error or 'the Secret of the CA has not been read'}"
        fault = self.loaded.certificate.fault(self._clock())
        return f"the certificate cannot be used: {fault}" if fault else ""

    def status(self) -> dict[str, Any]:
        """Return the certificate as JSON data, and its fault, or why the one in use stays."""
        fault = self.fault() or str(self.error or "")
        if self.loaded is None:
            return {"valid": False, "error": fault}
        certificate = self.loaded.certificate
        return {
            "valid": not fault,
            "error": fault or None,
            "names": list(certificate.names),
            "notBefore": certificate.not_before,
            "notAfter": certificate.not_after,
            "fingerprint": certificate.fingerprint,
            "loadedAt": self.loaded.loaded_at,
        }

    def _use(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self._handshakes.use(loaded.context)

    def _reload_clients(self, where: str) -> str | None:
        """Use the client CA as it is now; return the outcome if it has changed."""
        clients = self._handshakes.clients
        changed = clients is not None and clients.poll()
        if changed and self.loaded is not None:
            self._use(replace(self.loaded, context=self._handshakes.load(self.loaded.pair, where=where)))
        return {True: SUCCESS, None: FAILURE}.get(changed)


# A mounted Secret changes all its files at once, by one rename, so of two readings in a row the second is complete.
_READINGS: Final = 3
_UNWATCHED_INTERVAL: Final = 60.0
"""Seconds between two readings of files that do not change: the watch for changes cannot report that a mount hangs."""


class FileSource(CertificateSource):
    """The certificate from files. Raises ConfigError if they have no valid pair.

    ``poll`` runs in one thread at a time. Handshakes in other threads see its result as one reference. With an ``interval`` of 0, the files
    are read only once.
    """

    def __init__(
        self,
        files: CertificateFiles,
        *,
        interval: float = 0.0,
        handshakes: Handshakes | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(handshakes, clock=clock)
        self._files = files
        self._interval = interval
        self._rejected: Pair | str = ""
        self._reads = TimedReads()
        self._last_read: tuple[Pair | None, Certificate | ConfigError] = None, ConfigError("nothing was read")
        self._use(self._load(self._read_stable()))

    @property
    def _current(self) -> Loaded:
        assert self.loaded is not None  # noqa: S101 -- set by __init__, for the type checker
        return self.loaded

    @property
    def certificate(self) -> Certificate:
        """The certificate that handshakes get now."""
        return self._current.certificate

    @property
    def bundle(self) -> bytes | None:
        """The CA of the certificate; None without --caCertFile."""
        return self._current.pair.authority

    def poll(self) -> str | None:
        """Read the files, and use their content if it is new and valid.

        Returns:
            ``SUCCESS`` if a new pair or client CA is in use, ``FAILURE`` if one was rejected (once for the same content), else None.
        """
        outcome, pair = self._reload_clients(str(self._files.chain)), None
        try:
            pair = self._read_stable()
            if pair != self._current.pair:
                self._use(self._load(pair, self.certificate))
                _log.info("new certificate: %s", self.certificate)
                outcome = SUCCESS
        except ConfigError as error:
            return self._reject(pair or str(error), error) or outcome
        self.error, self._rejected = None, ""
        return outcome

    async def follow(self, metrics: Metrics) -> None:
        """Poll in a thread whenever the files may have changed, and count the outcomes."""
        metrics.certificate(self.certificate.not_after)
        clients = self.clients
        files = self._files.chain, self._files.key, self._files.authority, None if clients is None else clients.path
        if not self._interval:
            return
        async with FileWatch([file for file in files if file is not None], self._interval) as watch:
            while True:
                with suppress(TimeoutError):
                    # A rejected pair may become valid with time.
                    async with asyncio.timeout(_UNWATCHED_INTERVAL if self.error is None else self._interval):
                        await watch.wait()
                try:
                    outcome = await asyncio.get_running_loop().run_in_executor(DAEMON_THREADS, self.poll)
                except Exception as error:  # noqa: BLE001 -- the next poll may succeed
                    _log.error("cannot poll the certificate: %s", type(error).__name__)
                    outcome = FAILURE
                if outcome is not None:
                    metrics.certificate(self.certificate.not_after, outcome)
                    self.changed()

    def _reject(self, content: Pair | str, error: ConfigError) -> str | None:
        detach(error)
        self.error = error
        if content == self._rejected:
            return None
        self._rejected = content
        _log.error("rejected new certificate, keeping the current one: %s", error)
        return FAILURE

    def _read_stable(self) -> Pair:
        """Read the files until two readings in a row are equal, to avoid a half-written pair."""
        pair = self._read()
        for _ in range(_READINGS):
            before, pair = pair, self._read()
            if before == pair:
                break
        return pair

    def _read(self) -> Pair:
        return self._reads.read(partial(_read, self._files), "the certificate", where=str(self._files.chain))

    def _load(self, pair: Pair, current: Certificate | None = None) -> Loaded:
        """Check a pair and load it; ``current`` is the certificate to replace."""
        certificate, now, where = self._facts(pair), self._clock(), str(self._files.chain)
        if fault := certificate.fault(now):
            raise ConfigError(fault, where=where, hint="have it renewed, or correct the clock")
        if current is not None and not current.fault(now) and not set(current.names) & set(certificate.names):
            raise ConfigError(
                f"it is for {', '.join(certificate.names)}, and the current one for {', '.join(current.names)}",
                where=where,
                hint="restart the injector if API servers now call it by another name",
            )
        return Loaded(pair, certificate, self._handshakes.load(pair, where=where), now)

    def _facts(self, pair: Pair) -> Certificate:
        """Return the result of ``read_pair``, cached for the last pair: a rejected one is polled every second, and RSA keys take 0.3 s."""
        known, result = self._last_read
        if known != pair:
            try:
                result = read_pair(pair, self._files)
            except ConfigError as error:
                result = error
            self._last_read = pair, result
        if isinstance(result, ConfigError):
            # A new object, since an error that is raised again gets a longer traceback each time.
            raise ConfigError(result.what, where=result.where, hint=result.hint)
        return result


def _read(files: CertificateFiles) -> Pair:
    authority = None if files.authority is None else _bytes(files.authority, "--caCertFile")
    return Pair(_bytes(files.chain, "--tlsCertFile"), _bytes(files.key, "--tlsKeyFile"), authority)


def _bytes(path: Path, flag: str) -> bytes:
    try:
        return read_file(path)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path), hint=f"correct {flag}") from error


CHECK_INTERVAL: Final = 30.0
_HANDSHAKE_TIMEOUT: Final = 10.0
"""An API server's timeout for a handshake (k8s.io/client-go/transport, TLSHandshakeTimeout)."""
_LOOPBACK: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 -- addresses of listeners


@dataclass
class SelfCheck:
    """Checks that the port on address ``bind`` serves the current certificate of ``certificates``."""

    certificates: CertificateSource
    bind: str

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
            await asyncio.sleep(CHECK_INTERVAL)

    async def fault(self, port: int) -> str:
        """Return why a client that trusts the bundle rejects the port's certificate; empty if it accepts it."""
        certificate, bundle = self.certificates.certificate, self.certificates.bundle
        if certificate is None:
            return "there is no certificate yet"
        name = certificate.names[0].replace("*", "any", 1)
        host = _LOOPBACK.get(self.bind, self.bind)
        try:
            async with asyncio.timeout(_HANDSHAKE_TIMEOUT):
                fingerprint = await _served_fingerprint(host, port, name, _client_context(bundle))
        except (OSError, ValueError) as error:
            reason = getattr(error, "verify_message", None) or getattr(error, "strerror", None)
            return str(reason or type(error).__name__)
        # The certificate may have been renewed during the handshake.
        current = (certificate, self.certificates.certificate)
        own = {known.fingerprint for known in current if known is not None}
        return "" if fingerprint in own else "the port serves another certificate than the injector's"


def _client_context(bundle: bytes | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if bundle is not None:
        trust(context, read_certificates(bundle))
    else:
        # The CA is not known. The certificate is still compared.
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

"""TLS of the webhook's port: its contexts, which clients it admits, and the certificate that comes from files.

The port listens with one context for as long as it lives. Each handshake is given the context of the newest pair (``sni_callback``), so
open connections keep theirs. A pair is not loaded into a context that is in use. OpenSSL keeps a slot for each kind of key, so after a
change from ECDSA to RSA it would go on to show the old certificate, and a load that fails half-way would leave none. If a pair is invalid,
the last good one stays in use.

An API server shows a client certificate if its admission configuration says so (``--admission-control-config-file``,
https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#authenticate-apiservers). OpenSSL refuses clients
without a certificate of the known authority. It cannot check names, so a certificate of another name is refused after the handshake.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from injector.errors import ConfigError, detach
from injector.webhook.ca import read_certificates
from injector.webhook.certificate import Certificate, Pair, read_pair

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from injector.metrics import Metrics
    from injector.webhook.certificate import CertificateFiles

_log = logging.getLogger(__name__)

SUCCESS: Final = "success"
FAILURE: Final = "failure"
# A mounted Secret changes all its files at once, by one rename, so of two readings in a row the second is whole.
_READINGS: Final = 3
# The files are read at least every so many looks, even if nothing about them seems to have changed.
_LOOKS: Final = 60


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

    changed: Callable[[], None]
    """Called after each change of the certificate or the bundle."""

    def fault(self) -> str:
        """Return why no API server would accept the certificate now; empty if it would."""

    def shown(self) -> dict[str, Any]:
        """Return what the status page tells of it."""

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
    def clients_file(self) -> Path | None:
        """The file of the client CA, if clients are verified."""
        return None if self._clients is None else self._clients.path

    def clients_changed(self) -> bool | None:
        """Look whether other clients are allowed now, so that contexts have to be made anew; None where that failed."""
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


class ClientAuthority:
    """The authority that clients' certificates are of, read from a file and kept up to date with it.

    Args:
        path: the PEM file of the authority, or of several.
        names: the common names that are allowed; any with none.

    Raises:
        ConfigError: it cannot be read, or holds no certificate.
    """

    def __init__(self, path: Path, names: Sequence[str] = ()) -> None:
        self.path = path
        self._names = frozenset(names)
        self._pem = self._read()
        self._refused = ""

    def demand(self, context: ssl.SSLContext) -> None:
        """Let a context refuse whoever shows no certificate of the authority."""
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # an intermediate authority may be the one to trust
        context.load_verify_locations(cadata=self._pem)
        # A session that is resumed is not verified again: the authority may have changed meanwhile. What TLS 1.2 resumes
        # without a ticket ends at the gate.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0

    def poll(self) -> bool | None:
        """Read the file; tell whether it holds another authority, or None where that cannot be used."""
        try:
            pem = self._read()
        except ConfigError as error:
            if self._refused != str(error):
                self._refused = str(error)
                _log.error("rejected new client CA, keeping the current one: %s", error)
                return None
            return False
        self._refused = ""
        if pem == self._pem:
            return False
        self._pem = pem
        _log.info("new client authority: %s", self.path)
        return True

    def allows(self, certificate: Mapping[str, Any] | None) -> bool:
        """Tell whether a client's certificate, as ``getpeercert`` gives it, has an allowed name."""
        subject = (certificate or {}).get("subject", ())
        named = {value for part in subject for key, value in part if key == "commonName"}
        return not self._names or not self._names.isdisjoint(named)

    def admits(self, transport: asyncio.BaseTransport) -> bool:
        """Tell whether the client of a connection showed a certificate in this handshake, and one with an allowed name."""
        # The certificate of a session that is resumed was verified in an earlier handshake.
        if transport.get_extra_info("ssl_object").session_reused:
            return False
        if self.allows(transport.get_extra_info("peercert")):
            return True
        _log.warning("a client's certificate has a name that is not allowed: connection closed")
        return False

    def _read(self) -> str:
        try:
            text = self.path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"cannot be read: {error.strerror}", where=str(self.path), hint="correct --client-ca-file"
            ) from error
        if not read_certificates(text):
            raise ConfigError(
                "it is no PEM certificate", where=str(self.path), hint="give the CA of the clients' certificates"
            )
        return text.decode("latin-1")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A pair in use: what the files held, its certificate, its context, and since when, in seconds since the epoch."""

    pair: Pair
    certificate: Certificate
    context: ssl.SSLContext
    loaded_at: float

    def shown(self, fault: str) -> dict[str, Any]:
        """Return it as ``/status.json`` shows it, with what is wrong."""
        return {
            "valid": not fault,
            "error": fault or None,
            "names": list(self.certificate.names),
            "notBefore": self.certificate.not_before,
            "notAfter": self.certificate.not_after,
            "fingerprint": self.certificate.fingerprint,
            "loadedAt": self.loaded_at,
        }


class CertificateSource:
    """The certificate for handshakes, read from files and reloaded when they change.

    ``changed`` is called after each change. ``poll`` is for one thread at a time. Handshakes in another take its result by one reference.

    Args:
        files: where the pair is.
        interval: seconds between two reads; 0 reads the files only once.
        handshakes: the contexts of the port.
        clock: tells the time, in seconds since the epoch.

    Raises:
        ConfigError: there is no pair that can be used.
    """

    def __init__(
        self,
        files: CertificateFiles,
        *,
        interval: float = 1.0,
        handshakes: Handshakes | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._files = files
        self._interval = interval
        self._clock = clock
        self._refused = ""
        self._read_before: tuple[str, Certificate | ConfigError] = "", ConfigError("nothing was read")
        self.error: ConfigError | None = None
        self.changed: Callable[[], None] = lambda: None
        self._handshakes = handshakes or Handshakes()
        self._use(self._load(self._whole()))

    @property
    def context(self) -> ssl.SSLContext:
        """What the port listens with."""
        return self._handshakes.context

    @property
    def certificate(self) -> Certificate:
        """The certificate that a handshake gets now."""
        return self._current.certificate

    @property
    def bundle(self) -> bytes | None:
        """The authority that signed the certificate in use; None without --caCertFile."""
        return self._current.pair.authority

    def fault(self) -> str:
        """Return why no API server would take the certificate now; nothing where it would."""
        fault = self.certificate.fault(self._clock())
        return f"the certificate cannot be used: {fault}" if fault else ""

    def poll(self) -> str | None:
        """Read the files, and use what they hold if it is new and good.

        Returns:
            ``success`` for a pair or an authority of clients that was not in use and now is, ``failure`` for one that
            is refused, once for as long as the files hold it; else None.
        """
        changed = self._handshakes.clients_changed()
        if changed:
            context = self._handshakes.load(self._current.pair, where=str(self._files.chain))
            self._use(replace(self._current, context=context))
        outcome = self._poll()
        return outcome or {True: SUCCESS, None: FAILURE}.get(changed)

    def _poll(self) -> str | None:
        try:
            pair = self._whole()
        except ConfigError as error:
            return self._refuse(str(error), error)
        if pair == self._current.pair:
            self.error, self._refused = None, ""
            return None
        try:
            self._use(self._load(pair, before=self.certificate))
        except ConfigError as error:
            return self._refuse(pair.fingerprint, error)
        self.error, self._refused = None, ""
        _log.info("new certificate: %s", self.certificate)
        return SUCCESS

    async def follow(self, metrics: Metrics, *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Poll for ever, in a thread and only if the files may have changed, and count the result."""
        metrics.certificate(self.certificate.not_after)
        looks, seen = 0, None
        while self._interval:
            await pause(self._interval)
            looks, before, seen = looks + 1, seen, self._stamps()
            # A pair that is refused may be accepted later: its time may come.
            if seen == before and self.error is None and looks % _LOOKS:
                continue
            try:
                outcome = await asyncio.to_thread(self.poll)
            except Exception as error:  # noqa: BLE001 -- the loop of a task: the next poll may succeed
                _log.error("cannot poll the certificate: %s", type(error).__name__)
                outcome = FAILURE
            if outcome is not None:
                metrics.certificate(self.certificate.not_after, outcome)
                self.changed()

    def _stamps(self) -> list[tuple[int, int, int]]:
        """Return what differs if a file has changed, without reading any."""
        files = (self._files.chain, self._files.key, self._files.authority, self._handshakes.clients_file)
        return [_stamp(each) for each in files if each is not None]

    def shown(self) -> dict[str, Any]:
        """Return the certificate as ``/status.json`` shows it; ``error`` says why the files are not in use."""
        return self._current.shown(self.fault() or ("" if self.error is None else str(self.error)))

    def _use(self, loaded: Loaded) -> None:
        self._current = loaded
        self._handshakes.use(loaded.context)

    def _refuse(self, refused: str, error: ConfigError) -> str | None:
        detach(error)
        self.error = error
        if refused == self._refused:
            return None
        self._refused = refused
        _log.error("rejected new certificate, keeping the current one: %s", error)
        return FAILURE

    def _whole(self) -> Pair:
        """Read the files until two readings in a row are equal, so that no half-written pair is used."""
        pair = _read(self._files)
        for _ in range(_READINGS):
            before, pair = pair, _read(self._files)
            if before == pair:
                break
        return pair

    def _load(self, pair: Pair, before: Certificate | None = None) -> Loaded:
        """Check a pair and load it; ``before`` is the certificate that it would replace."""
        certificate, now, where = self._facts(pair), self._clock(), str(self._files.chain)
        if fault := certificate.fault(now):
            raise ConfigError(fault, where=where, hint="have it renewed, or set the clock right")
        if before is not None and not before.fault(now) and not set(before.names) & set(certificate.names):
            raise ConfigError(
                f"it is for {', '.join(certificate.names)}, and the one in use for {', '.join(before.names)}",
                where=where,
                hint="restart the injector if API servers call it by another name now",
            )
        context = self._handshakes.load(pair, where=where)
        return Loaded(pair, certificate, context, now)

    def _facts(self, pair: Pair) -> Certificate:
        """Return the result of ``read_pair``, from memory if the last pair was the same: one that is refused stays on disk.

        Raises:
            ConfigError: the pair cannot be used. It is a new object each time: one that is raised again and again gets a longer
                traceback each time.
        """
        fingerprint, found = self._read_before
        if fingerprint != pair.fingerprint:
            try:
                found = read_pair(pair, self._files)
            except ConfigError as error:
                found = error
            self._read_before = pair.fingerprint, found
        if isinstance(found, ConfigError):
            raise ConfigError(found.what, where=found.where, hint=found.hint)
        return found


def _read(files: CertificateFiles) -> Pair:
    authority = None if files.authority is None else _bytes(files.authority, "--caCertFile")
    return Pair(_bytes(files.chain, "--tlsCertFile"), _bytes(files.key, "--tlsKeyFile"), authority)


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_mtime_ns, found.st_size)


def _bytes(path: Path, flag: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path), hint=f"correct {flag}") from error

"""The certificate from files, reloaded when they change."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ConfigError, detach
from injector.revisions.files import file_states
from injector.webhook.tls.certificate import Certificate, CertificateFiles, Pair, read_pair
from injector.webhook.tls.source import FAILURE, SUCCESS, CertificateSource, Handshakes, Loaded

if TYPE_CHECKING:
    from pathlib import Path

    from injector.metrics import Metrics

_log = logging.getLogger(__name__)

# A mounted Secret changes all its files at once, by one rename, so of two readings in a row the second is complete.
_READINGS: Final = 3


class FileSource(CertificateSource):
    """The certificate from files.

    ``poll`` runs in one thread at a time. Handshakes in other threads see its result as one reference.

    Args:
        files: the paths of the pair.
        interval: seconds between two polls; 0 reads the files only once.
        handshakes: the contexts of the port.
        clock: returns seconds since the epoch.

    Raises:
        ConfigError: the files have no valid pair.
    """

    def __init__(
        self,
        files: CertificateFiles,
        *,
        interval: float = 1.0,
        handshakes: Handshakes | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(handshakes, clock)
        self._files = files
        self._interval = interval
        self._rejected = ""
        self._last_read: tuple[str, Certificate | ConfigError] = "", ConfigError("nothing was read")
        self.error: ConfigError | None = None
        self._use(self._load(self._read_stable()))

    @property
    def _current(self) -> Loaded:
        assert self._loaded is not None  # noqa: S101 -- set by __init__, for the type checker
        return self._loaded

    @property
    def certificate(self) -> Certificate:
        """The certificate that handshakes get now."""
        return self._current.certificate

    @property
    def bundle(self) -> bytes | None:
        """The CA of the certificate; None without --caCertFile."""
        return self._current.pair.authority

    def status(self) -> dict[str, Any]:
        """Return the certificate, and its fault or why the files are rejected, as JSON data."""
        status = super().status()
        if self.error is not None and status["valid"]:
            status |= {"valid": False, "error": str(self.error)}
        return status

    def poll(self) -> str | None:
        """Read the files, and use their content if it is new and valid.

        Returns:
            ``SUCCESS`` if a new pair or client CA is in use, ``FAILURE`` if one was rejected (once for the same content), else None.
        """
        clients = self._reload_clients(str(self._files.chain))
        try:
            pair = self._read_stable()
        except ConfigError as error:
            return self._reject(str(error), error) or clients
        if pair == self._current.pair:
            self.error, self._rejected = None, ""
            return clients
        try:
            self._use(self._load(pair, self.certificate))
        except ConfigError as error:
            return self._reject(pair.fingerprint, error) or clients
        self.error, self._rejected = None, ""
        _log.info("new certificate: %s", self.certificate)
        return SUCCESS

    async def follow(self, metrics: Metrics, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Poll in a thread whenever the files may have changed, and count the outcomes."""
        metrics.certificate(self.certificate.not_after)
        files = self._files.chain, self._files.key, self._files.authority, self._handshakes.clients_file
        paths = [each for each in files if each is not None]
        states = None
        while self._interval:
            await sleep(self._interval)
            before, states = states, file_states(paths)
            # A rejected pair may become valid with time.
            if states == before and self.error is None:
                continue
            try:
                outcome = await asyncio.to_thread(self.poll)
            except Exception as error:  # noqa: BLE001 -- the next poll may succeed
                _log.error("cannot poll the certificate: %s", type(error).__name__)
                outcome = FAILURE
            if outcome is not None:
                metrics.certificate(self.certificate.not_after, outcome)
                self.changed()

    def _reject(self, content: str, error: ConfigError) -> str | None:
        detach(error)
        self.error = error
        if content == self._rejected:
            return None
        self._rejected = content
        _log.error("rejected new certificate, keeping the current one: %s", error)
        return FAILURE

    def _read_stable(self) -> Pair:
        """Read the files until two readings in a row are equal, to avoid a half-written pair."""
        pair = _read(self._files)
        for _ in range(_READINGS):
            before, pair = pair, _read(self._files)
            if before == pair:
                break
        return pair

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
        fingerprint, result = self._last_read
        if fingerprint != pair.fingerprint:
            try:
                result = read_pair(pair, self._files)
            except ConfigError as error:
                result = error
            self._last_read = pair.fingerprint, result
        if isinstance(result, ConfigError):
            # A new object, since an error that is raised again gets a longer traceback each time.
            raise ConfigError(result.what, where=result.where, hint=result.hint)
        return result


def _read(files: CertificateFiles) -> Pair:
    authority = None if files.authority is None else _bytes(files.authority, "--caCertFile")
    return Pair(_bytes(files.chain, "--tlsCertFile"), _bytes(files.key, "--tlsKeyFile"), authority)


def _bytes(path: Path, flag: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path), hint=f"correct {flag}") from error

"""The certificate of the webhook's port where it comes from files, and how it follows them.

A pair that cannot be used leaves the last good one in its place. Connections that are open keep theirs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ConfigError, detach
from injector.webhook.certificate import Certificate, Pair, read_pair
from injector.webhook.handshakes import Handshakes

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from injector.metrics import Metrics
    from injector.webhook.certificate import CertificateFiles

_log = logging.getLogger(__name__)

SUCCESS: Final = "success"
FAILURE: Final = "failure"
# A mounted Secret changes all its files at once, by one rename, so of two readings in a row the second is whole.
_READINGS: Final = 3


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
    """The certificate that handshakes get, read from files and kept up to date with them.

    ``poll`` is for one thread at a time; handshakes in another take what it has found by one reference.

    Args:
        files: where the pair is.
        interval: the seconds between two looks at them; 0 never looks again.
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
        self._handshakes = handshakes or Handshakes()
        self._listeners: list[Callable[[], None]] = []
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
        """Poll for ever, in a thread, and count what that comes to."""
        metrics.certificate(self.certificate.not_after)
        while self._interval:
            await pause(self._interval)
            try:
                outcome = await asyncio.to_thread(self.poll)
            except Exception as error:  # noqa: BLE001 -- the loop of the task: the next look deserves its turn
                _log.error("cannot look at the certificate: %s", type(error).__name__)
                outcome = FAILURE
            if outcome is not None:
                metrics.certificate(self.certificate.not_after, outcome)
            if outcome == SUCCESS:
                for listener in self._listeners:
                    listener()

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` on the event loop after each change of the certificate."""
        self._listeners.append(listener)

    def shown(self) -> dict[str, Any]:
        """Return the certificate as ``/status.json`` shows it; ``error`` is why the files are not what is in use."""
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
        """Read the files until two readings in a row agree: halves of two pairs are nobody's fault."""
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


def _bytes(path: Path, flag: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path), hint=f"correct {flag}") from error

"""Self-signed mode: certificates of the injector's own CA, and the Secret in which all replicas share the CA.

Each replica issues its certificate in memory. A new CA signs only once API servers trust it.
The Secret is polled rather than watched: nothing waits for a change, and reading one Secret by name needs the fewest permissions. A replica
that finds the Secret missing, broken or due for a change writes the next state with the version that it read.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ClusterError, ConfigError, InjectorError, whereabouts
from injector.webhook.tls.ca import (
    BACKDATED,
    BUNDLE,
    Authority,
    CaRotation,
    Lifetimes,
    advance,
    data_of,
    new_ca,
    read_rotation,
    restore,
)
from injector.webhook.tls.certificate import CertificateFiles, not_after, read_pair
from injector.webhook.tls.source import FAILURE, SUCCESS, CertificateSource, Handshakes, Loaded

if TYPE_CHECKING:
    from cryptography import x509

    from injector.cluster.secrets import SecretStore, Stored
    from injector.metrics import Metrics

_log = logging.getLogger(__name__)

PATCHED_DELAY: Final = 5.0
"""Seconds until API servers use a patched webhook. Each watches the configurations, and gets a change within a second."""
EXTERNAL_DELAY: Final = 600.0
"""Seconds until API servers use a bundle that someone else distributes: kubelets take two minutes, GitOps tools three."""
RENEWAL_INTERVAL: Final = 10.0
"""Seconds between two checks for renewal. They use the wall clock, since clocks jump and processes are suspended."""
SECRET_INTERVAL: Final = 15.0
"""Seconds between two readings of the Secret."""
RETRIES: Final = (1.0, 2.0, 4.0)
"""Seconds until the next try after errors of the API server. A new replica is ready within 5 s after the end of an outage."""
JITTER: Final = 0.125
MAX_CONFLICTS: Final = 8
"""How often in a row another replica may write the Secret first."""
_CONFLICT_WAIT: Final = 0.2

_WHERE: Final = "the self-signed certificate"
_FILES: Final = CertificateFiles(Path(_WHERE), Path(_WHERE))


class BundleRollout:
    """Tracks since when every webhook has a CA bundle, which the caBundle loop notes here.

    Args:
        delay: seconds until API servers use it.
        clock: returns monotonic seconds.
    """

    def __init__(self, delay: float = PATCHED_DELAY, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._delay = delay
        self._clock = clock
        self._bundle: bytes | None = None
        self._since = 0.0

    def note(self, bundle: bytes | None) -> None:
        """Note the bundle that every webhook has now; None if they differ or are not known."""
        if bundle != self._bundle:
            self._bundle, self._since = bundle, self._clock()

    def is_trusted(self, bundle: bytes) -> bool:
        """Return whether API servers trust a bundle by now."""
        return bundle == self._bundle and self._clock() - self._since >= self._delay


class ExternalRollout(BundleRollout):
    """The rollout of a bundle that something else distributes: API servers trust it some time after it was created."""

    def __init__(self, delay: float = EXTERNAL_DELAY, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(delay, clock=clock)

    def is_trusted(self, bundle: bytes) -> bool:
        """Return whether the first question about this bundle was long enough ago."""
        self.note(bundle)
        return super().is_trusted(bundle)


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """Return the DNS names by which API servers and pods call a Service."""
    return (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local")


class SelfSigned(CertificateSource):
    """A certificate of the signing CA, renewed after two thirds of its life.

    Args:
        names: its DNS names.
        rollout: tells whether API servers trust a bundle.
        times: the lifetimes.
        handshakes: the contexts of the port.
        clock: returns seconds since the epoch.
    """

    def __init__(
        self,
        names: Sequence[str],
        rollout: BundleRollout,
        *,
        times: Lifetimes | None = None,
        handshakes: Handshakes | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(handshakes, clock)
        self._names = tuple(names)
        self._rollout = rollout
        self._times = times or Lifetimes()
        self._rotation: CaRotation | None = None
        self._issuer: Authority | None = None
        self._woken = asyncio.Event()

    @property
    def bundle(self) -> bytes | None:
        """The PEM bundle that API servers have to trust; None before the Secret was read."""
        return None if self._rotation is None else self._rotation.bundle

    @property
    def issuers(self) -> tuple[x509.Certificate, ...]:
        """The CAs that may have signed certificates which replicas serve now, as far as this replica knows."""
        issuer = () if self._issuer is None else (self._issuer.certificate,)
        rotation = self._rotation
        known = () if rotation is None else (rotation.signing.certificate, *rotation.retired)
        return tuple(dict.fromkeys((*issuer, *known)))

    def use_rotation(self, rotation: CaRotation) -> None:
        """Use the CAs as the Secret has them now."""
        if rotation == self._rotation:
            return
        self._rotation = rotation
        self._woken.set()
        self.changed()

    def renew_if_due(self) -> str | None:
        """Renew the certificate if that is due, and use a changed client CA.

        Returns:
            ``SUCCESS`` if a new certificate or client CA is in use, ``FAILURE`` if a client CA was rejected, else None.
        """
        rotation, now = self._rotation, self._clock()
        if rotation is None:
            return None
        issuer = self._select_issuer(rotation, now)
        if self._is_due(now) or issuer != self._issuer:
            return self._renew(issuer, now)
        return self._reload_clients(_WHERE)

    async def follow(self, metrics: Metrics, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Renew the certificate in time, and at once if the CAs have changed; count the outcomes."""
        while True:
            try:
                outcome = self.renew_if_due()
            except Exception as error:  # noqa: BLE001 -- the next try may succeed
                _log.error("cannot renew the certificate: %s", type(error).__name__)
                outcome = FAILURE
            if self._loaded is not None and self._rotation is not None:
                metrics.certificate(self._loaded.certificate.not_after, outcome or "")
                metrics.ca_expiry.set(not_after(self._rotation.signing.certificate))
            await self._wait(sleep)

    async def _wait(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Wait for the next check, or until the CAs change."""
        sleeping, woken = asyncio.ensure_future(sleep(RENEWAL_INTERVAL)), asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait([sleeping, woken], return_when=asyncio.FIRST_COMPLETED)
            if sleeping.done():
                await sleeping
        finally:
            sleeping.cancel()
            woken.cancel()
        self._woken.clear()

    def status(self) -> dict[str, Any]:
        """Return the certificate, its fault and its CA as JSON data."""
        status = super().status()
        if self._loaded is not None and self._rotation is not None:
            status["authorityNotAfter"] = not_after(self._rotation.signing.certificate)
            status["authorityChanges"] = self._rotation.next is not None
        return status

    def _select_issuer(self, rotation: CaRotation, now: float) -> Authority:
        """Return the CA that signs: the former one as long as API servers do not trust the new one."""
        former = self._issuer
        if former is None or former == rotation.signing or not former.usable(now):
            return rotation.signing
        return rotation.signing if self._rollout.is_trusted(rotation.bundle) else former

    def _is_due(self, now: float) -> bool:
        if self._loaded is None or self._loaded.certificate.fault(now):
            return True
        created = self._loaded.certificate.not_before + BACKDATED
        return now >= created + self._times.share * (self._loaded.certificate.not_after - created)

    def _renew(self, issuer: Authority, now: float) -> str | None:
        if not issuer.usable(now):
            return None  # API servers would reject its certificates; the rotation replaces it
        pair = issuer.issue(self._names, now=now, life=self._times.leaf)
        certificate = read_pair(pair, _FILES)
        self._use(Loaded(pair, certificate, self._handshakes.load(pair, where=_WHERE), now))
        self._issuer = issuer
        _log.info("new certificate: %s", certificate)
        return SUCCESS


@dataclass
class CaSecret:
    """Keeps the CAs of ``certificates`` equal to those in the Secret of ``store``.

    ``clock`` returns seconds since the epoch, ``chance`` a random number from 0 to 1.
    """

    store: SecretStore
    certificates: SelfSigned
    rollout: BundleRollout
    times: Lifetimes = field(default_factory=Lifetimes)
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    async def follow(self, settled: asyncio.Event) -> None:
        """Reconcile until cancelled; ``settled`` is set after the first success.

        Raises:
            InjectorError: an error before that which a retry cannot correct: no permission, or a foreign Secret.
        """
        failures = 0
        while True:
            try:
                await self.reconcile()
            except Exception as error:
                if not settled.is_set() and _is_permanent(error):
                    raise
                if not failures:
                    cause = error if isinstance(error, InjectorError) else whereabouts(error)
                    _log.warning("%s: keeping the last known state: %s", self.store, cause)
                wait = RETRIES[min(failures, len(RETRIES) - 1)]
                failures += 1
            else:
                failures, wait = 0, SECRET_INTERVAL
                settled.set()
            await self.sleep(wait * (1 + JITTER * self.chance()))

    async def reconcile(self) -> None:
        """Read the Secret, write the next state if one is due, and use it.

        Raises:
            ClusterError: the API server cannot be reached, or refuses.
            ConfigError: the Secret is not the injector's.
        """
        for attempt in range(MAX_CONFLICTS):
            stored = await self.store.read()
            rotation = None if stored is None else read_rotation(stored.data, where=str(self.store))
            wanted = self._next(rotation)
            is_damaged = (
                rotation is not None and stored is not None and stored.data.get(BUNDLE) != data_of(rotation)[BUNDLE]
            )
            if is_damaged:
                wanted = restore(wanted, self.certificates.issuers, now=self.clock())
            if (wanted == rotation and not is_damaged) or await self._write(
                wanted, stored, last=attempt == MAX_CONFLICTS - 1
            ):
                break
            await self.sleep(_CONFLICT_WAIT * self.chance())
        self.certificates.use_rotation(wanted)

    def _next(self, rotation: CaRotation | None) -> CaRotation:
        now = self.clock()
        if rotation is None:
            return new_ca(now, self.times, self.certificates.issuers)
        return advance(rotation, self.times, now=now, trusted=self.rollout.is_trusted(rotation.bundle))

    async def _write(self, wanted: CaRotation, stored: Stored | None, *, last: bool) -> bool:
        """Write the Secret; return False if another replica was first."""
        try:
            await self.store.write(data_of(wanted), stored)
        except ClusterError as error:
            if error.reason != "conflict" or last:
                raise
            return False
        _log.info("%s: %s", self.store, "changed" if stored else "created")
        return True


def _is_permanent(error: Exception) -> bool:
    return isinstance(error, ConfigError) or (isinstance(error, ClusterError) and error.reason == "forbidden")

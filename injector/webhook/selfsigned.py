"""Self-signed mode: the certificate that the injector's own authority signs, and the Secret that all replicas share.

Each replica makes its certificate in memory. A new authority signs only once API servers trust it.
The Secret is read every 15 seconds rather than watched: nothing waits for it, and reading one Secret by its name needs the fewest
permissions. A replica that finds it missing, broken or due for a change writes the next state with the version that it read. A replica
that is late is told so by the API server, and reads again.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from injector.errors import ClusterError, ConfigError, InjectorError, whereabouts
from injector.webhook.ca import BACKDATED, Lifetimes, advance, data_of, ends, new_ca, read_rotation
from injector.webhook.certificate import CertificateFiles, read_pair
from injector.webhook.tls import FAILURE, SUCCESS, Handshakes, Loaded

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Sequence

    from cryptography import x509

    from injector.cluster.secrets import SecretStore, Stored
    from injector.metrics import Metrics
    from injector.webhook.ca import Authority, CaRotation
    from injector.webhook.certificate import Certificate

_log = logging.getLogger(__name__)

# API servers see a changed webhook by a watch, within the second; each of several has its own.
SETTLED: Final = 5.0
# What somebody else distributes is not seen from here. A mounted Secret or ConfigMap takes up to two minutes
# (kubelet's sync period and its cache), a GitOps tool some three.
ELSEWHERE: Final = 600.0


class Rollout(Protocol):
    """Who knows how far a bundle has got."""

    def reached(self, bundle: bytes) -> bool:
        """Tell whether API servers have it."""


class BundleRollout:
    """The bundle of which the caBundle loop says that every webhook has it."""

    def __init__(self, *, settled: float = SETTLED, clock: Callable[[], float] = time.monotonic) -> None:
        self._settled = settled
        self._clock = clock
        self._bundle: bytes | None = None
        self._since = 0.0

    def note(self, bundle: bytes | None) -> None:
        """Take what every webhook has now; None where one has another, or where that is not known."""
        if bundle != self._bundle:
            self._bundle, self._since = bundle, self._clock()

    def reached(self, bundle: bytes) -> bool:
        """Tell whether they all have had it for long enough."""
        return bundle == self._bundle and self._clock() - self._since >= self._settled


class ExternalRollout:
    """Somebody else gives the bundle to the API servers: they have it some time after it was made."""

    def __init__(self, *, settled: float = ELSEWHERE, clock: Callable[[], float] = time.monotonic) -> None:
        self._spread = BundleRollout(settled=settled, clock=clock)

    def reached(self, bundle: bytes) -> bool:
        """Tell whether it was first asked for long enough ago."""
        self._spread.note(bundle)
        return self._spread.reached(bundle)


# By the wall clock, not slept until the moment: a clock may jump, and a process may be stopped over the moment.
LOOK: Final = 10.0
"""Seconds between two looks at whether the certificate is due for renewal, if nothing else asks for one."""
_WHERE: Final = "the self-signed certificate"
_MADE_HERE: Final = CertificateFiles(Path(_WHERE), Path(_WHERE))


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """Return the names that API servers, and pods, call a Service by."""
    return (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local")


class SelfSigned:
    """A certificate of the authority that signs, renewed at two thirds of its life.

    Args:
        names: the DNS names that it is for.
        reach: knows whether API servers have a bundle.
        times: how long it is valid, and at which share of that it is renewed.
        handshakes: the contexts of the port.
        clock: tells the time, in seconds since the epoch.
    """

    def __init__(
        self,
        names: Sequence[str],
        reach: Rollout,
        *,
        times: Lifetimes | None = None,
        handshakes: Handshakes | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._names = tuple(names)
        self._reach = reach
        self._times = times or Lifetimes()
        self._handshakes = handshakes or Handshakes()
        self._clock = clock
        self._held: CaRotation | None = None
        self._issuer: Authority | None = None
        self._loaded: Loaded | None = None
        self._woken = asyncio.Event()
        self.changed: Callable[[], None] = lambda: None

    @property
    def context(self) -> ssl.SSLContext:
        """What the port listens with."""
        return self._handshakes.context

    @property
    def certificate(self) -> Certificate | None:
        """The certificate that a handshake gets now; None before there is an authority."""
        return None if self._loaded is None else self._loaded.certificate

    @property
    def bundle(self) -> bytes | None:
        """What API servers have to trust."""
        return None if self._held is None else self._held.bundle

    @property
    def served(self) -> tuple[x509.Certificate, ...]:
        """The authorities that may have signed what some replica serves, as far as this one knows."""
        issuer = () if self._issuer is None else (self._issuer.certificate,)
        held = () if self._held is None else (self._held.signing.certificate, *self._held.retired)
        return tuple(dict.fromkeys((*issuer, *held)))

    def hold(self, held: CaRotation) -> None:
        """Take the authorities as they are now."""
        if held == self._held:
            return
        self._held = held
        self._woken.set()
        self.changed()

    def fault(self) -> str:
        """Return why no API server would take the certificate now; nothing where it would."""
        if self._loaded is None:
            return "there is no certificate yet: the Secret of the CA is not known"
        fault = self._loaded.certificate.fault(self._clock())
        return f"the certificate cannot be used: {fault}" if fault else ""

    def look(self) -> str | None:
        """Make a new certificate where that is due, and tell whether it was; take what clients are allowed now."""
        held, now = self._held, self._clock()
        if held is None:
            return None
        issuer = self._signing(held, now)
        if self._due(now) or issuer != self._issuer:
            return self._renew(issuer, now)
        changed = self._handshakes.clients_changed()
        if changed and self._loaded is not None:
            self._handshakes.use(self._handshakes.load(self._loaded.pair, where=_WHERE))
        return {True: SUCCESS, None: FAILURE}.get(changed)

    async def follow(self, metrics: Metrics, *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Look for ever, at once if the authorities have changed, and count the result."""
        while True:
            try:
                outcome = self.look()
            except Exception as error:  # noqa: BLE001 -- the loop of the task: the next look deserves its turn
                _log.error("cannot renew the certificate: %s", type(error).__name__)
                outcome = FAILURE
            if self._loaded is not None and self._held is not None:
                metrics.certificate(self._loaded.certificate.not_after, outcome or "")
                metrics.authority(ends(self._held.signing.certificate))
            await self._wait(pause)

    async def _wait(self, pause: Callable[[float], Awaitable[None]]) -> None:
        """Wait until it is time to look again."""
        pausing, woken = asyncio.ensure_future(pause(LOOK)), asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait([pausing, woken], return_when=asyncio.FIRST_COMPLETED)
            if pausing.done():
                await pausing
        finally:
            pausing.cancel()
            woken.cancel()
        self._woken.clear()

    def shown(self) -> dict[str, Any]:
        """Return the certificate as ``/status.json`` shows it."""
        loaded, held, fault = self._loaded, self._held, self.fault()
        if loaded is None or held is None:
            return {"valid": False, "error": fault}
        authority = {"authorityNotAfter": ends(held.signing.certificate), "authorityChanges": held.next is not None}
        return {**loaded.shown(fault), **authority}

    def _signing(self, held: CaRotation, now: float) -> Authority:
        """Return who signs: the former authority for as long as API servers do not trust the new one."""
        former = self._issuer
        if former is None or former == held.signing or not former.usable(now):
            return held.signing
        return held.signing if self._reach.reached(held.bundle) else former

    def _due(self, now: float) -> bool:
        if self._loaded is None or self._loaded.certificate.fault(now):
            return True
        made = self._loaded.certificate.not_before + BACKDATED
        return now >= made + self._times.share * (self._loaded.certificate.not_after - made)

    def _renew(self, issuer: Authority, now: float) -> str | None:
        if not issuer.usable(now):
            return None  # what it signs would be of no use; another one follows on it
        pair = issuer.issue(self._names, now=now, life=self._times.leaf)
        certificate = read_pair(pair, _MADE_HERE)
        context = self._handshakes.load(pair, where=_WHERE)
        self._issuer, self._loaded = issuer, Loaded(pair, certificate, context, now)
        self._handshakes.use(context)
        _log.info("new certificate: %s", certificate)
        return SUCCESS


SECRET_INTERVAL: Final = 15.0
"""Seconds between two readings of the Secret."""
WAITS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Between tries while the API server is away or refuses, in seconds."""
JITTER: Final = 0.25
TRIES: Final = 8
"""How often in a row somebody else may have been first."""
_SOON: Final = 0.2


@dataclass
class CaSecret:
    """Keeps the authorities of ``certificates`` as the Secret of ``store`` has them.

    ``clock`` tells the time in seconds since the epoch, ``chance`` a number from 0 to 1, anew at each call.
    """

    store: SecretStore
    certificates: SelfSigned
    reach: Rollout
    times: Lifetimes = field(default_factory=Lifetimes)
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    async def follow(self, settled: asyncio.Event) -> None:
        """Keep them for ever; ``settled`` is set once they are known.

        Raises:
            InjectorError: before that, what waiting does not mend: it is forbidden, or the Secret is somebody else's.
        """
        faults = 0
        while True:
            try:
                await self.agree()
            except Exception as error:
                if not settled.is_set() and _lasts(error):
                    raise
                self._say(error, faults)
                wait = WAITS[min(faults, len(WAITS) - 1)]
                faults += 1
            else:
                faults, wait = 0, SECRET_INTERVAL
                settled.set()
            await self.sleep(wait * (1 + JITTER * self.chance()))

    async def agree(self) -> None:
        """Read the Secret, bring it up to date where that is due, and take what it holds then.

        Raises:
            ClusterError: the API server cannot be reached, or refuses.
            ConfigError: the Secret is somebody else's.
        """
        for turn in range(TRIES):
            stored = await self.store.read()
            held = None if stored is None else read_rotation(stored.data, where=str(self.store))
            wanted = self._wanted(held)
            if wanted == held or await self._written(wanted, stored, last=turn == TRIES - 1):
                break
            await self.sleep(_SOON * self.chance())
        self.certificates.hold(wanted)

    def _wanted(self, held: CaRotation | None) -> CaRotation:
        now = self.clock()
        if held is None:
            return new_ca(now, self.times, self.certificates.served)
        return advance(held, self.times, now=now, spread=self.reach.reached(held.bundle))

    async def _written(self, wanted: CaRotation, stored: Stored | None, *, last: bool) -> bool:
        """Write; tell whether nobody else was first."""
        try:
            await self.store.write(data_of(wanted), stored)
        except ClusterError as error:
            if error.reason != "conflict" or last:
                raise
            return False
        _log.info("%s: %s", self.store, "changed" if stored else "created")
        return True

    def _say(self, error: Exception, faults: int) -> None:
        if not faults:
            told = error if isinstance(error, InjectorError) else whereabouts(error)
            _log.warning("%s: what is known of it stays: %s", self.store, told)


def _lasts(error: Exception) -> bool:
    return isinstance(error, ConfigError) or (isinstance(error, ClusterError) and error.reason == "forbidden")

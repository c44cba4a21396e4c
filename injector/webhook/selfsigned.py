"""The certificate of the webhook's port where the injector's own authority signs it: made in memory by each replica.

A new authority signs only once API servers trust it. The certificate is compared with the wall clock every ``TICK`` seconds instead
of at the computed time: after the clock has jumped, or the process was stopped, it is renewed within that time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from injector.webhook.authority import BACKDATED, ends
from injector.webhook.certificate import CertificateFiles, read_pair
from injector.webhook.handshakes import Handshakes
from injector.webhook.succession import Lifetimes
from injector.webhook.tls import FAILURE, SUCCESS, Loaded

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from cryptography import x509

    from injector.metrics import Metrics
    from injector.webhook.authority import Authority
    from injector.webhook.certificate import Certificate
    from injector.webhook.spread import Reach
    from injector.webhook.succession import Succession

_log = logging.getLogger(__name__)

TICK: Final = 15.0
"""Seconds between two comparisons with the wall clock."""
WAITING: Final = 1.0
"""Seconds between two looks while API servers are to trust a new authority, and at the file of the clients' CA."""
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
        tick: replaces ``TICK``.
    """

    def __init__(
        self,
        names: Sequence[str],
        reach: Reach,
        *,
        times: Lifetimes | None = None,
        handshakes: Handshakes | None = None,
        clock: Callable[[], float] = time.time,
        tick: float = TICK,
    ) -> None:
        self._names = tuple(names)
        self._reach = reach
        self._times = times or Lifetimes()
        self._handshakes = handshakes or Handshakes()
        self._clock = clock
        self._tick = tick
        self._listeners: list[Callable[[], None]] = []
        self._woken = asyncio.Event()
        self._held: Succession | None = None
        self._issuer: Authority | None = None
        self._loaded: Loaded | None = None

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

    def hold(self, held: Succession) -> None:
        """Take the authorities as they are now."""
        if held == self._held:
            return
        self._held = held
        self._woken.set()
        for listener in self._listeners:
            listener()

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever the authorities have changed."""
        self._listeners.append(listener)

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

    async def follow(self, metrics: Metrics) -> None:
        """Renew the certificate when it is due, for ever, and count that."""
        while True:
            self._woken.clear()
            try:
                outcome = self.look()
            except Exception as error:  # noqa: BLE001 -- the loop of the task: the next look deserves its turn
                _log.error("cannot renew the certificate: %s", type(error).__name__)
                outcome = FAILURE
            if self._loaded is not None and self._held is not None:
                metrics.certificate(self._loaded.certificate.not_after, outcome or "")
                metrics.authority(ends(self._held.signing.certificate))
            with suppress(TimeoutError):
                async with asyncio.timeout(self._wait()):
                    await self._woken.wait()

    def _wait(self) -> float:
        """Return after how many seconds to look again, whatever happens."""
        changes = self._held is not None and self._issuer != self._held.signing
        return min(self._tick, WAITING) if changes or self._handshakes.demands_clients else self._tick

    def shown(self) -> dict[str, Any]:
        """Return the certificate as ``/status.json`` shows it."""
        loaded, held, fault = self._loaded, self._held, self.fault()
        if loaded is None or held is None:
            return {"valid": False, "error": fault}
        authority = {"authorityNotAfter": ends(held.signing.certificate), "authorityChanges": held.next is not None}
        return {**loaded.shown(fault), **authority}

    def _signing(self, held: Succession, now: float) -> Authority:
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

"""The certificate of the webhook's port where the injector's own authority signs it: made in memory by each replica.

It is looked at by the wall clock each second, not slept until: after a clock that jumps, or a process that was stopped
over the moment, it is made anew within that second. A new authority signs only once API servers trust it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from injector.webhook.authority import BACKDATED, ends
from injector.webhook.certificate import CertificateFiles, read_pair
from injector.webhook.handshakes import Handshakes
from injector.webhook.succession import Lifetimes
from injector.webhook.tls import FAILURE, SUCCESS, Loaded

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Sequence

    from cryptography import x509

    from injector.metrics import Metrics
    from injector.webhook.authority import Authority
    from injector.webhook.certificate import Certificate
    from injector.webhook.spread import Reach
    from injector.webhook.succession import Succession

_log = logging.getLogger(__name__)

LOOK: Final = 1.0
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
        reach: Reach,
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
        self._held = held

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
        """Look each second, for ever, and count what that comes to."""
        while True:
            try:
                outcome = self.look()
            except Exception as error:  # noqa: BLE001 -- the loop of the task: the next look deserves its turn
                _log.error("cannot renew the certificate: %s", type(error).__name__)
                outcome = FAILURE
            if self._loaded is not None and self._held is not None:
                metrics.certificate(self._loaded.certificate.not_after, outcome or "")
                metrics.authority(ends(self._held.signing.certificate))
            await pause(LOOK)

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

"""Which certificate authorities a Secret holds, and which one comes after which; pure, the time is given.

An authority is replaced in two phases, so that no API server ever meets a certificate that it does not trust yet::

    signing --two thirds of its life are over--> signing + next        both are in the bundle, nothing is signed by next
            --the overlap is over, and the bundle is everywhere--> next signs, the former one is retired
            --everything that it signed has expired--> retired ones leave the bundle

Every replica decides so from the same Secret and writes what it decides with the version that it read, so whoever
comes second reads again: they agree without a leader.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from injector.errors import ConfigError
from injector.webhook.authority import Authority, begins, ends, new_authority, pem_of, read_authority, read_certificates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cryptography import x509

BUNDLE: Final = "ca.crt"
SIGNING: Final = ("tls.crt", "tls.key")
NEXT: Final = ("next.crt", "next.key")
SINCE: Final = "signing-since"
"""When the signing one began to sign, in seconds since the epoch; by this key the Secret is known as the injector's."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long things last, in seconds, and at which share of its life something is renewed."""

    authority: float = 365 * 86400.0
    leaf: float = 7 * 86400.0
    overlap: float = 86400.0
    share: float = 2 / 3


@dataclass(frozen=True, slots=True)
class Succession:
    """The authorities: the one that signs and since when, the next one, and those that signed what may still be served."""

    signing: Authority
    since: float
    next: Authority | None = None
    retired: tuple[x509.Certificate, ...] = ()

    @property
    def bundle(self) -> bytes:
        """Every certificate to trust, as PEM; the order does not change when the next one begins to sign."""
        following = () if self.next is None else (self.next.certificate,)
        known = {self.signing.certificate, *following, *self.retired}
        return b"".join(pem for _, pem in sorted((begins(each), pem_of(each)) for each in known))


def founded(now: float, times: Lifetimes, retired: Iterable[x509.Certificate] = ()) -> Succession:
    """Return a new authority, with those that may still have signed what is served."""
    return Succession(new_authority(now, times.authority), float(int(now)), retired=_distinct(retired, now))


def succeeded(held: Succession, times: Lifetimes, *, now: float, spread: bool) -> Succession:
    """Return what follows on ``held``; the same where nothing does.

    Args:
        held: the authorities as they are.
        times: how long things last.
        now: seconds since the epoch.
        spread: whether the bundle is known to be where API servers look.
    """
    following = held.next if held.next is not None and held.next.usable(now) else None
    if not held.signing.usable(now):
        if following is None:
            return founded(now, times, (held.signing.certificate, *held.retired))
        return _promoted(held, following, now)
    if held.next is None and now >= held.signing.renewal(times.share):
        return replace(held, next=new_authority(now, times.authority))
    if following is not None and spread and now >= following.made + times.overlap:
        return _promoted(held, following, now)
    kept = _distinct(held.retired, now) if now < held.since + times.leaf else ()
    return held if kept == held.retired else replace(held, retired=kept)


def data_of(held: Succession) -> dict[str, str]:
    """Return a Secret's data; ``ca.crt`` is what anyone else may want of it."""
    pairs = {SIGNING: held.signing, NEXT: held.next}
    plain = {BUNDLE: held.bundle, SINCE: f"{held.since:.0f}".encode()}
    for (certificate, key), authority in pairs.items():
        if authority is not None:
            plain |= {certificate: authority.pem, key: authority.key_pem}
    return {name: base64.b64encode(value).decode() for name, value in plain.items()}


def read_succession(data: Mapping[str, str], *, where: str) -> Succession | None:
    """Return the authorities of a Secret's data; None where it holds none, or what cannot be used.

    Raises:
        ConfigError: it is somebody else's.
    """
    if not data:
        return None
    if SINCE not in data:
        raise ConfigError(
            f"it is not the injector's own ({SINCE} is missing)", where=where, hint="give another --ca-secret"
        )
    try:
        plain = {name: base64.b64decode(value, validate=True) for name, value in data.items()}
        since = float(plain[SINCE])
        signing = read_authority(*(plain[name] for name in SIGNING), where=where)
        following = read_authority(*(plain[name] for name in NEXT), where=where) if NEXT[0] in plain else None
    except (binascii.Error, ValueError, KeyError, ConfigError):
        return None
    own = {each.certificate for each in (signing, following) if each is not None}
    others = tuple(each for each in read_certificates(plain.get(BUNDLE, b"")) if each not in own)
    return Succession(signing, since, following, others)


def _promoted(held: Succession, following: Authority, now: float) -> Succession:
    return Succession(following, float(int(now)), retired=_distinct((held.signing.certificate, *held.retired), now))


def _distinct(certificates: Iterable[x509.Certificate], now: float) -> tuple[x509.Certificate, ...]:
    """Return each certificate once, without those that nobody can trust any more."""
    return tuple(dict.fromkeys(each for each in certificates if ends(each) > now))

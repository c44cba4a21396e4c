"""Self-signed mode: the injector's own CA, its rotation, the certificates it issues, and the Secret in which replicas share it.

Each replica issues its certificate in memory. A new CA signs only once API servers trust it.
The Secret is polled rather than watched: nothing waits for a change, and reading one Secret by name needs the fewest permissions. A replica
that finds the Secret missing, broken or due for a change writes the next state with the version that it read.

Keys are ECDSA P-256, which every API server accepts. Certificates are valid from an hour before their creation, for clients with a slow
clock.

A CA is replaced in two phases, so that no API server ever gets a certificate that it does not trust yet::

    signing --after two thirds of its life--> signing + next             both are in the bundle, next signs nothing yet
            --after the overlap, once API servers trust next--> next signs, the former CA is retired
            --after everything that it signed has expired--> the retired CA leaves the bundle

Every replica derives the next state from the same Secret, and writes it with the version that it read. If another replica was first, the
API server rejects the write and the replica reads again. So the replicas agree without a leader.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import datetime as dt
import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from injector.backoff import backoff
from injector.errors import ClusterError, ConfigError, InjectorError, InternalError, detach, whereabouts
from injector.webhook.tls.certificate import (
    CertificateFiles,
    Pair,
    not_after,
    not_before,
    pem_of,
    read_certificates,
    read_pair,
)
from injector.webhook.tls.certificatesource import FAILURE, SUCCESS, CertificateSource, Handshakes, Loaded

if TYPE_CHECKING:
    from injector.cluster.secrets import SecretStore
    from injector.metrics import Metrics

_log = logging.getLogger(__name__)

BACKDATED: Final = 3600.0
"""How many seconds before its creation a certificate is valid."""


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA: a certificate that signs others, and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False, compare=False)

    @property
    def pem(self) -> bytes:
        """The certificate as PEM."""
        return pem_of(self.certificate)

    @property
    def key_pem(self) -> bytes:
        """The key as PEM; only for the Secret."""
        return _key_pem(self.key)

    @property
    def created(self) -> float:
        """The time of creation in seconds since the epoch."""
        return not_before(self.certificate) + BACKDATED

    def renewal(self, share: float) -> float:
        """Return the time after ``share`` of its life."""
        return self.created + share * (not_after(self.certificate) - self.created)

    def usable(self, now: float) -> bool:
        """Return whether the CA is within its validity period."""
        return not_before(self.certificate) <= now < not_after(self.certificate)

    def issue(self, names: Sequence[str], *, now: float, life: float) -> Pair:
        """Issue a certificate for ``names`` with a new key; it expires with the CA at the latest."""
        key = ec.generate_private_key(ec.SECP256R1())
        # The names may exceed the 64 letters of a common name, which API servers ignore anyway.
        builder = _builder(_x509_name("revision-injector"), key, now, min(now + life, not_after(self.certificate)))
        certificate = (
            builder.issuer_name(self.certificate.subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return Pair(pem_of(certificate), _key_pem(key))


def new_authority(now: float, life: float) -> Authority:
    """Create a self-signed CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    # A unique name, by which clients find the issuer among several CAs.
    name = _x509_name(f"revision-injector CA {identifier.digest.hex()[:16]}")
    certificate = (
        _builder(name, key, now, now + life)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate, key)


def read_authority(certificate: bytes, key: bytes, *, where: str) -> Authority:
    """Read a CA from its PEM certificate and PEM key. Raises ConfigError if they are not PEM, or the key belongs to another certificate."""
    try:
        read = x509.load_pem_x509_certificate(certificate)
        private_key = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _unreadable(where) from error
    if not isinstance(private_key, ec.EllipticCurvePrivateKey) or private_key.public_key() != read.public_key():
        raise _unreadable(where)
    return Authority(read, private_key)


def _unreadable(where: str) -> ConfigError:
    return ConfigError(
        "not a CA certificate with its ECDSA key", where=where, hint="delete the Secret; a new CA is then generated"
    )


def _builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey, now: float, until: float) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(dt.datetime.fromtimestamp(int(now - BACKDATED), dt.UTC))
        .not_valid_after(dt.datetime.fromtimestamp(int(until), dt.UTC))
    )


def _x509_name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=key_cert_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


BUNDLE: Final = "ca.crt"
SIGNING: Final = ("tls.crt", "tls.key")
NEXT: Final = ("next.crt", "next.key")
SINCE: Final = "signing-since"
"""When the signing CA began to sign, in seconds since the epoch. This key marks the Secret as the injector's."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Lifetimes in seconds, and the share of a lifetime after which a certificate is renewed."""

    authority: float = 365 * 86400.0
    leaf: float = 7 * 86400.0
    overlap: float = 86400.0
    share: float = 2 / 3


@dataclass(frozen=True, slots=True)
class CaRotation:
    """The signing CA and since when it signs, the next one, and retired ones that signed certificates which may still be served."""

    signing: Authority
    since: float
    next: Authority | None = None
    retired: tuple[x509.Certificate, ...] = ()

    @property
    def bundle(self) -> bytes:
        """The PEM bundle that API servers have to trust. The order does not change when the next CA begins to sign."""
        following = () if self.next is None else (self.next.certificate,)
        known = {self.signing.certificate, *following, *self.retired}
        return b"".join(
            pem for _, pem in sorted((not_before(certificate), pem_of(certificate)) for certificate in known)
        )


def new_ca(now: float, times: Lifetimes, retired: Iterable[x509.Certificate] = ()) -> CaRotation:
    """Create a CA; ``retired`` are those that signed certificates which may still be served."""
    return CaRotation(new_authority(now, times.authority), float(int(now)), retired=_distinct(retired, now))


def advance(held: CaRotation, times: Lifetimes, *, now: float, trusted: bool) -> CaRotation:
    """Return the next state of a rotation; the same object if nothing is due.

    ``trusted`` is whether API servers are known to trust the current bundle.
    """
    following = held.next if held.next is not None and held.next.usable(now) else None
    if not held.signing.usable(now):
        if following is None:
            return new_ca(now, times, (held.signing.certificate, *held.retired))
        return _promote(held, following, now)
    if held.next is None and now >= held.signing.renewal(times.share):
        return replace(held, next=new_authority(now, times.authority))
    if following is not None and trusted and now >= following.created + times.overlap:
        return _promote(held, following, now)
    retired = _distinct(held.retired, now) if now < held.since + times.leaf else ()
    return held if retired == held.retired else replace(held, retired=retired)


def restore(held: CaRotation, known: Iterable[x509.Certificate], *, now: float) -> CaRotation:
    """Return a rotation with the CAs that a replica knows to have signed certificates lately, if its bundle lacks them."""
    own = {authority.certificate for authority in (held.signing, held.next) if authority is not None}
    return replace(
        held, retired=_distinct((certificate for certificate in (*held.retired, *known) if certificate not in own), now)
    )


def data_of(held: CaRotation) -> dict[str, str]:
    """Return the data of the Secret. Others may use its ``ca.crt``."""
    pairs = {SIGNING: held.signing, NEXT: held.next}
    plain = {BUNDLE: held.bundle, SINCE: f"{held.since:.0f}".encode()}
    for (certificate, key), authority in pairs.items():
        if authority is not None:
            plain |= {certificate: authority.pem, key: authority.key_pem}
    return {name: base64.b64encode(value).decode() for name, value in plain.items()}


def read_rotation(data: Mapping[str, str], *, where: str) -> CaRotation | None:
    """Read a rotation from a Secret's data; None if it is empty or unusable. Raises ConfigError if the Secret is not the injector's."""
    if not data:
        return None
    if SINCE not in data:
        raise ConfigError(
            f"the Secret belongs to something else ({SINCE} is missing)", where=where, hint="give another --ca-secret"
        )
    try:
        plain = {name: base64.b64decode(value, validate=True) for name, value in data.items()}
        since = float(plain[SINCE])
        signing = read_authority(*(plain[name] for name in SIGNING), where=where)
        following = read_authority(*(plain[name] for name in NEXT), where=where) if NEXT[0] in plain else None
    except (binascii.Error, ValueError, KeyError, ConfigError):
        return None
    own = {authority.certificate for authority in (signing, following) if authority is not None}
    others = tuple(certificate for certificate in read_certificates(plain.get(BUNDLE, b"")) if certificate not in own)
    return CaRotation(signing, since, following, others)


def _promote(held: CaRotation, following: Authority, now: float) -> CaRotation:
    return CaRotation(following, float(int(now)), retired=_distinct((held.signing.certificate, *held.retired), now))


def _distinct(certificates: Iterable[x509.Certificate], now: float) -> tuple[x509.Certificate, ...]:
    """Return each certificate once, without expired ones."""
    return tuple(dict.fromkeys(certificate for certificate in certificates if not_after(certificate) > now))


PATCHED_DELAY: Final = 5.0
"""Seconds until API servers use a patched webhook. Each watches the configurations, and gets a change within a second."""
EXTERNAL_DELAY: Final = 600.0
"""Seconds until API servers use a bundle that someone else distributes: kubelets take two minutes, GitOps tools three."""
RENEWAL_INTERVAL: Final = 10.0
"""Seconds between two checks for renewal. They use the wall clock, since clocks jump and processes are suspended."""
SECRET_INTERVAL: Final = 15.0
"""Seconds between two readings of the Secret."""
MAX_RETRY_WAIT: Final = 4.0
"""Maximum seconds until the next try after errors of the API server. A new replica is ready within 5 s after the end of an outage."""
_JITTER: Final = 0.125
MAX_CONFLICTS: Final = 8
"""How often in a row another replica may write the Secret first."""
_CONFLICT_WAIT: Final = 0.2

WATCH: Final = "secrets"
"""The label of the Secret in the metrics of watches."""
_WHERE: Final = "the self-signed certificate"
_FILES: Final = CertificateFiles(Path(_WHERE), Path(_WHERE))


class BundleRollout:
    """Tracks since when every webhook has a CA bundle, which the caBundle loop notes here. API servers use it ``delay`` seconds later."""

    def __init__(self, delay: float = PATCHED_DELAY) -> None:
        self._delay = delay
        self._bundle: bytes | None = None
        self._since = 0.0

    def note(self, bundle: bytes | None) -> None:
        """Note the bundle that every webhook has now; None if they differ or are not known."""
        if bundle != self._bundle:
            self._bundle, self._since = bundle, asyncio.get_running_loop().time()

    def is_trusted(self, bundle: bytes) -> bool:
        """Return whether API servers trust a bundle by now."""
        return bundle == self._bundle and asyncio.get_running_loop().time() - self._since >= self._delay


class ExternalRollout(BundleRollout):
    """The rollout of a bundle that something else distributes: API servers trust it some time after it was created."""

    def __init__(self, delay: float = EXTERNAL_DELAY) -> None:
        super().__init__(delay)

    def is_trusted(self, bundle: bytes) -> bool:
        """Return whether the first question about this bundle was long enough ago."""
        self.note(bundle)
        return super().is_trusted(bundle)


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """Return the DNS names by which API servers and pods call a Service."""
    return (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local")


class SelfSigned(CertificateSource):
    """A certificate of the signing CA for DNS names, renewed after two thirds of its life."""

    def __init__(
        self,
        names: Sequence[str],
        rollout: BundleRollout,
        *,
        times: Lifetimes | None = None,
        handshakes: Handshakes | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(handshakes, clock=clock)
        self.names = tuple(names)
        self.rollout = rollout
        self._times = times or Lifetimes()
        self._rotation: CaRotation | None = None
        self.issuer: Authority | None = None
        self._woken = asyncio.Event()

    @property
    def bundle(self) -> bytes | None:
        """The PEM bundle that API servers have to trust; None before the Secret was read."""
        return None if self._rotation is None else self._rotation.bundle

    @property
    def issuers(self) -> tuple[x509.Certificate, ...]:
        """The CAs that may have signed certificates which replicas serve now, as far as this replica knows, its own first."""
        issuer = () if self.issuer is None else (self.issuer.certificate,)
        rotation = self._rotation
        known = () if rotation is None else (rotation.signing.certificate, *rotation.retired)
        return tuple(dict.fromkeys((*issuer, *known)))

    def next_rotation(self, rotation: CaRotation | None, *, is_damaged: bool) -> CaRotation:
        """Return the state that the Secret should have, from the one that it has, if any; whether its bundle is damaged."""
        now = self._clock()
        if rotation is None:
            wanted = new_ca(now, self._times, self.issuers)
        else:
            wanted = advance(rotation, self._times, now=now, trusted=self.rollout.is_trusted(rotation.bundle))
        # Another replica that did not know this one's CA may have created the Secret.
        return restore(wanted, self.issuers if is_damaged else self.issuers[:1], now=now)

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
        if self._is_due(now) or issuer != self.issuer:
            return self._renew(issuer, now)
        return self._reload_clients(_WHERE)

    async def follow(self, metrics: Metrics) -> None:
        """Renew the certificate in time, and at once if the CAs have changed; count the outcomes."""
        while True:
            try:
                outcome = self.renew_if_due()
            except Exception as error:  # noqa: BLE001 -- the next try may succeed
                _log.error("cannot renew the certificate: %s", type(error).__name__)
                outcome = FAILURE
            if self.loaded is not None and self._rotation is not None:
                metrics.certificate(self.loaded.certificate.not_after, outcome or "")
                metrics.ca_expiry.set(not_after(self._rotation.signing.certificate))
            with suppress(TimeoutError):
                async with asyncio.timeout(RENEWAL_INTERVAL):
                    await self._woken.wait()
            self._woken.clear()

    def status(self) -> dict[str, Any]:
        """Return the certificate, its fault and its CA as JSON data."""
        status = super().status()
        if self.loaded is not None and self._rotation is not None:
            status["authorityNotAfter"] = not_after(self._rotation.signing.certificate)
            status["authorityChanges"] = self._rotation.next is not None
        return status

    def _select_issuer(self, rotation: CaRotation, now: float) -> Authority:
        """Return the CA that signs: the former one as long as API servers do not trust the new one."""
        former = self.issuer
        if former is None or former == rotation.signing or not former.usable(now):
            return rotation.signing
        return rotation.signing if self.rollout.is_trusted(rotation.bundle) else former

    def _is_due(self, now: float) -> bool:
        if self.loaded is None or self.loaded.certificate.fault(now):
            return True
        created = self.loaded.certificate.not_before + BACKDATED
        return now >= created + self._times.share * (self.loaded.certificate.not_after - created)

    def _renew(self, issuer: Authority, now: float) -> str | None:
        if not issuer.usable(now):
            return None  # API servers would reject its certificates; the rotation replaces it
        pair = issuer.issue(self.names, now=now, life=self._times.leaf)
        certificate = read_pair(pair, _FILES)
        self._use(Loaded(pair, certificate, self._handshakes.load(pair, where=_WHERE), now))
        self.issuer = issuer
        _log.info("new certificate: %s", certificate)
        return SUCCESS


@dataclass
class CaSecret:
    """Keeps the CAs of ``certificates`` equal to those in the Secret of ``store``."""

    store: SecretStore
    certificates: SelfSigned
    metrics: Metrics
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def follow(self, ready: asyncio.Event) -> None:
        """Reconcile until cancelled; ``ready`` is set after the first success.

        Raises:
            InjectorError: an error before that which a retry cannot correct: no permission, or a foreign Secret.
        """
        failures = 0
        while True:
            try:
                await self.reconcile()
            except Exception as error:
                if not ready.is_set() and _is_permanent(error):
                    raise
                fault = error if isinstance(error, InjectorError) else InternalError(whereabouts(error))
                detach(fault)
                self.certificates.error = fault
                self.metrics.watch_faults.labels(WATCH, _reason(fault)).inc()
                self.metrics.watch_synced.labels(WATCH).set(0)
                if not failures:
                    _log.warning("%s: keeping the last known state: %s", self.store, fault)
                wait = backoff(failures, MAX_RETRY_WAIT)
                failures += 1
            else:
                self.certificates.error = None
                self.metrics.watch_synced.labels(WATCH).set(1)
                if failures:
                    _log.info("%s: reading it again", self.store)
                failures, wait = 0, SECRET_INTERVAL
                ready.set()
            await asyncio.sleep(wait * (1 + _JITTER * random.random()))  # noqa: S311 -- jitter

    async def refresh(self) -> None:
        """Reconcile now. Errors are left to ``follow``, which reports them."""
        with suppress(Exception):
            await self.reconcile()

    async def reconcile(self) -> None:
        """Read the Secret, write the next state if one is due, and use it. Raises ConfigError if the Secret is not the injector's."""
        async with self._lock:
            self.certificates.use_rotation(await self._reconcile_secret())

    async def _reconcile_secret(self) -> CaRotation:
        for attempt in range(MAX_CONFLICTS):
            stored = await self.store.read()
            data = (stored or {}).get("data") or {}
            rotation = read_rotation(data, where=str(self.store))
            is_damaged = rotation is not None and data.get(BUNDLE) != data_of(rotation)[BUNDLE]
            wanted = self.certificates.next_rotation(rotation, is_damaged=is_damaged)
            if (wanted == rotation and not is_damaged) or await self._write(
                wanted, stored, last=attempt == MAX_CONFLICTS - 1
            ):
                break
            await asyncio.sleep(_CONFLICT_WAIT * random.random())  # noqa: S311 -- jitter
        return wanted

    async def _write(self, wanted: CaRotation, stored: Mapping[str, Any] | None, *, last: bool) -> bool:
        """Write the Secret; return False if another replica was first."""
        try:
            await self.store.write(data_of(wanted), stored)
        except ClusterError as error:
            if error.reason != "conflict" or last:
                raise
            return False
        _log.info("%s: %s", self.store, "changed" if stored else "created")
        return True


def _reason(error: InjectorError) -> str:
    """Return the reason of a fault for the metric."""
    if isinstance(error, ClusterError):
        return error.reason
    return "foreign" if isinstance(error, ConfigError) else "internal"


def _is_permanent(error: Exception) -> bool:
    return isinstance(error, ConfigError) or (isinstance(error, ClusterError) and error.reason == "forbidden")

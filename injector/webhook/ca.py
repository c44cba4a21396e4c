"""The injector's own certificate authority: the certificates that it issues, and how it is replaced. Pure: the time is an argument.

Keys are ECDSA P-256, which every API server accepts. A certificate begins an hour before it is made, for clients whose clock is slow.

An authority is replaced in two phases, so that no API server ever meets a certificate that it does not trust yet::

    signing --two thirds of its life are over--> signing + next        both are in the bundle, next signs nothing yet
            --the overlap is over, and the bundle is everywhere--> next signs, the former one is retired
            --everything that it signed has expired--> retired ones leave the bundle

Every replica decides this from the same Secret, and writes its decision with the version that it read. A replica that is late reads again,
so they agree without a leader.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from injector.errors import ConfigError
from injector.webhook.certificate import Pair

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

BACKDATED: Final = 3600.0
"""How long before it is made a certificate begins."""


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate that signs others, and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False, compare=False)

    @property
    def pem(self) -> bytes:
        """The certificate."""
        return pem_of(self.certificate)

    @property
    def key_pem(self) -> bytes:
        """The key; for the Secret and nothing else."""
        return _key_pem(self.key)

    @property
    def made(self) -> float:
        """When it was made."""
        return begins(self.certificate) + BACKDATED

    def renewal(self, share: float) -> float:
        """Return when this share of its life is over."""
        return self.made + share * (ends(self.certificate) - self.made)

    def usable(self, now: float) -> bool:
        """Tell whether what it signs is trusted now by who trusts it."""
        return begins(self.certificate) <= now < ends(self.certificate)

    def issue(self, names: Sequence[str], *, now: float, life: float) -> Pair:
        """Return a new certificate for ``names`` with its key; it does not outlive the authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        # The common name takes 64 letters, which a Service and its namespace may exceed, and API servers ignore it.
        builder = _builder(_named("revision-injector"), key, now, min(now + life, ends(self.certificate)))
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
    """Make one that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    # A name of its own, so that among several a client finds the issuer by it.
    name = _named(f"revision-injector CA {identifier.digest.hex()[:16]}")
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
    """Return the authority of a PEM certificate and its PEM key.

    Raises:
        ConfigError: they are none, or do not belong together.
    """
    try:
        read = x509.load_pem_x509_certificate(certificate)
        found = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _unreadable(where) from error
    if not isinstance(found, ec.EllipticCurvePrivateKey) or found.public_key() != read.public_key():
        raise _unreadable(where)
    return Authority(read, found)


def read_certificates(text: bytes) -> tuple[x509.Certificate, ...]:
    """Return the certificates of a bundle; none where it cannot be read."""
    try:
        return tuple(x509.load_pem_x509_certificates(text))
    except ValueError:
        return ()


def pem_of(certificate: x509.Certificate) -> bytes:
    """Return a certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def begins(certificate: x509.Certificate) -> float:
    """Return from when on a certificate is valid."""
    return certificate.not_valid_before_utc.timestamp()


def ends(certificate: x509.Certificate) -> float:
    """Return until when a certificate is valid."""
    return certificate.not_valid_after_utc.timestamp()


def _unreadable(where: str) -> ConfigError:
    return ConfigError(
        "it holds no certificate authority with its ECDSA key", where=where, hint="delete it, and one is made anew"
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


def _named(common_name: str) -> x509.Name:
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
"""When the signing one began to sign, in seconds since the epoch; by this key the Secret is known as the injector's."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long things last, in seconds, and at which share of its life something is renewed."""

    authority: float = 365 * 86400.0
    leaf: float = 7 * 86400.0
    overlap: float = 86400.0
    share: float = 2 / 3


@dataclass(frozen=True, slots=True)
class CaRotation:
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


def new_ca(now: float, times: Lifetimes, retired: Iterable[x509.Certificate] = ()) -> CaRotation:
    """Return a new authority, with those that may still have signed what is served."""
    return CaRotation(new_authority(now, times.authority), float(int(now)), retired=_distinct(retired, now))


def advance(held: CaRotation, times: Lifetimes, *, now: float, spread: bool) -> CaRotation:
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
            return new_ca(now, times, (held.signing.certificate, *held.retired))
        return _promoted(held, following, now)
    if held.next is None and now >= held.signing.renewal(times.share):
        return replace(held, next=new_authority(now, times.authority))
    if following is not None and spread and now >= following.made + times.overlap:
        return _promoted(held, following, now)
    kept = _distinct(held.retired, now) if now < held.since + times.leaf else ()
    return held if kept == held.retired else replace(held, retired=kept)


def data_of(held: CaRotation) -> dict[str, str]:
    """Return a Secret's data; ``ca.crt`` is what anyone else may want of it."""
    pairs = {SIGNING: held.signing, NEXT: held.next}
    plain = {BUNDLE: held.bundle, SINCE: f"{held.since:.0f}".encode()}
    for (certificate, key), authority in pairs.items():
        if authority is not None:
            plain |= {certificate: authority.pem, key: authority.key_pem}
    return {name: base64.b64encode(value).decode() for name, value in plain.items()}


def read_rotation(data: Mapping[str, str], *, where: str) -> CaRotation | None:
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
    return CaRotation(signing, since, following, others)


def _promoted(held: CaRotation, following: Authority, now: float) -> CaRotation:
    return CaRotation(following, float(int(now)), retired=_distinct((held.signing.certificate, *held.retired), now))


def _distinct(certificates: Iterable[x509.Certificate], now: float) -> tuple[x509.Certificate, ...]:
    """Return each certificate once, without those that nobody can trust any more."""
    return tuple(dict.fromkeys(each for each in certificates if ends(each) > now))

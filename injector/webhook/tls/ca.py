"""The injector's own CA: the certificates that it issues, and its rotation. Pure: the time is an argument.

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

import base64
import binascii
import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from injector.errors import ConfigError
from injector.webhook.tls.certificate import Pair, not_after, not_before, pem_of, read_certificates

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
        builder = _builder(_named("revision-injector"), key, now, min(now + life, not_after(self.certificate)))
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
    """Read a CA from its PEM certificate and PEM key.

    Raises:
        ConfigError: they are not PEM, or the key belongs to another certificate.
    """
    try:
        read = x509.load_pem_x509_certificate(certificate)
        found = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _unreadable(where) from error
    if not isinstance(found, ec.EllipticCurvePrivateKey) or found.public_key() != read.public_key():
        raise _unreadable(where)
    return Authority(read, found)


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
        return b"".join(pem for _, pem in sorted((not_before(each), pem_of(each)) for each in known))


def new_ca(now: float, times: Lifetimes, retired: Iterable[x509.Certificate] = ()) -> CaRotation:
    """Create a CA; ``retired`` are those that signed certificates which may still be served."""
    return CaRotation(new_authority(now, times.authority), float(int(now)), retired=_distinct(retired, now))


def advance(held: CaRotation, times: Lifetimes, *, now: float, trusted: bool) -> CaRotation:
    """Return the next state of a rotation; the same object if nothing is due.

    Args:
        held: the current state.
        times: the lifetimes.
        now: seconds since the epoch.
        trusted: whether API servers are known to trust the current bundle.
    """
    following = held.next if held.next is not None and held.next.usable(now) else None
    if not held.signing.usable(now):
        if following is None:
            return new_ca(now, times, (held.signing.certificate, *held.retired))
        return _promoted(held, following, now)
    if held.next is None and now >= held.signing.renewal(times.share):
        return replace(held, next=new_authority(now, times.authority))
    if following is not None and trusted and now >= following.created + times.overlap:
        return _promoted(held, following, now)
    kept = _distinct(held.retired, now) if now < held.since + times.leaf else ()
    return held if kept == held.retired else replace(held, retired=kept)


def restore(held: CaRotation, known: Iterable[x509.Certificate], *, now: float) -> CaRotation:
    """Return a rotation whose bundle was damaged, with the CAs that a replica knows to have signed certificates lately."""
    own = {each.certificate for each in (held.signing, held.next) if each is not None}
    return replace(held, retired=_distinct((each for each in (*held.retired, *known) if each not in own), now))


def data_of(held: CaRotation) -> dict[str, str]:
    """Return the data of the Secret. Others may use its ``ca.crt``."""
    pairs = {SIGNING: held.signing, NEXT: held.next}
    plain = {BUNDLE: held.bundle, SINCE: f"{held.since:.0f}".encode()}
    for (certificate, key), authority in pairs.items():
        if authority is not None:
            plain |= {certificate: authority.pem, key: authority.key_pem}
    return {name: base64.b64encode(value).decode() for name, value in plain.items()}


def read_rotation(data: Mapping[str, str], *, where: str) -> CaRotation | None:
    """Read a rotation from the data of a Secret; None if it is empty or cannot be used.

    Raises:
        ConfigError: the Secret is not the injector's.
    """
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
    own = {each.certificate for each in (signing, following) if each is not None}
    others = tuple(each for each in read_certificates(plain.get(BUNDLE, b"")) if each not in own)
    return CaRotation(signing, since, following, others)


def _promoted(held: CaRotation, following: Authority, now: float) -> CaRotation:
    return CaRotation(following, float(int(now)), retired=_distinct((held.signing.certificate, *held.retired), now))


def _distinct(certificates: Iterable[x509.Certificate], now: float) -> tuple[x509.Certificate, ...]:
    """Return each certificate once, without expired ones."""
    return tuple(dict.fromkeys(each for each in certificates if not_after(each) > now))

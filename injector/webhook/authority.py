"""A certificate authority of the injector's own, and the certificates that it issues; pure, the time is given.

Keys are ECDSA P-256, which every API server takes. A certificate begins an hour before it is made, for clients whose
clock is slow.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from injector.errors import ConfigError
from injector.webhook.certificate import Pair

if TYPE_CHECKING:
    from collections.abc import Sequence

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

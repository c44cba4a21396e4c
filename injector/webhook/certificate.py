"""What a pair of certificate and key must be before a handshake may use it; pure, from bytes to facts or an error.

An API server takes the first certificate of the chain, wants a name in its ``subjectAltName`` (it ignores the common
name) and the present within its dates.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization

from injector.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Where a chain, its key and, if it is known, its authority are; all PEM."""

    chain: Path
    key: Path
    authority: Path | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """What the files hold."""

    chain: bytes
    key: bytes
    authority: bytes | None = None

    @property
    def fingerprint(self) -> str:
        """What differs when any of the three does."""
        parts = (self.chain, self.key, self.authority or b"")
        return sha256(b"".join(sha256(part).digest() for part in parts)).hexdigest()


@dataclass(frozen=True, slots=True)
class Certificate:
    """The certificate that a handshake shows.

    ``names`` are the DNS names and addresses that it is for, ``fingerprint`` is the SHA-256 of it, and the dates are
    seconds since the epoch.
    """

    names: tuple[str, ...]
    not_before: float
    not_after: float
    fingerprint: str

    def __str__(self) -> str:
        return f"for {', '.join(self.names)}, until {shown_time(self.not_after)}, SHA-256 {self.fingerprint}"

    def fault(self, now: float) -> str:
        """Return why it cannot be used now; nothing where it can."""
        if now > self.not_after:
            return f"it expired at {shown_time(self.not_after)}"
        return f"it is not valid before {shown_time(self.not_before)}" if now < self.not_before else ""


def shown_time(seconds: float) -> str:
    """Return a time as ``2026-01-31T12:00:00Z``."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_pair(pair: Pair, files: CertificateFiles) -> Certificate:
    """Return the facts of a pair that belongs together, whatever the time is.

    Raises:
        ConfigError: the certificate or key is no PEM, the two do not belong together, the certificate has no name, or
            the authority did not sign it.
    """
    chain = _certificates(pair.chain, files.chain)
    _check_key(pair.key, chain[0], files)
    names = _names(chain[0])
    if not names:
        raise ConfigError(
            "it has no DNS name, and an API server takes none from the common name",
            where=str(files.chain),
            hint="have it issued with a subjectAltName such as DNS:injector.injector-system.svc",
        )
    if pair.authority is not None and files.authority is not None:
        _check_authority(chain, _certificates(pair.authority, files.authority), files)
    return Certificate(
        names,
        chain[0].not_valid_before_utc.timestamp(),
        chain[0].not_valid_after_utc.timestamp(),
        chain[0].fingerprint(hashes.SHA256()).hex(),
    )


def _certificates(text: bytes, path: Path) -> list[x509.Certificate]:
    try:
        found = x509.load_pem_x509_certificates(text)
    except ValueError as error:
        raise ConfigError("it is no PEM certificate", where=str(path), hint="give a certificate chain") from error
    if len(found) != text.count(_BEGIN):
        raise ConfigError("a certificate of it is cut short", where=str(path), hint="write it anew")
    return found


def _check_key(text: bytes, certificate: x509.Certificate, files: CertificateFiles) -> None:
    try:
        key: Any = serialization.load_pem_private_key(text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        what = "it is encrypted" if isinstance(error, TypeError) else "it is no PEM key"
        raise ConfigError(what, where=str(files.key), hint=f"give the unencrypted key of {files.chain}") from error
    if key.public_key() != certificate.public_key():
        raise ConfigError(
            "it is not the key of the certificate", where=str(files.key), hint=f"give the key of {files.chain}"
        )


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    addresses = names.get_values_for_type(x509.IPAddress)
    return (*names.get_values_for_type(x509.DNSName), *map(str, addresses))


def _check_authority(
    chain: Sequence[x509.Certificate], authority: Sequence[x509.Certificate], files: CertificateFiles
) -> None:
    if not any(one == root or _issued(one, root) for one in chain for root in authority):
        raise ConfigError(
            f"it did not sign the certificate of {files.chain}",
            where=str(files.authority),
            hint="give the certificate authority that did",
        )


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True

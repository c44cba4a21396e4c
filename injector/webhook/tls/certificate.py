"""Certificates: how they are read, the checks of a pair of certificate and key, and the CA of client certificates.

An API server verifies the first certificate of the chain. It requires a name in ``subjectAltName`` and ignores the common name.

An API server shows a client certificate if its admission configuration says so (``--admission-control-config-file``,
https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#authenticate-apiservers). OpenSSL refuses clients
without a certificate of the CA. It does not check names, so a certificate with another name is refused after the handshake.
"""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization

from injector.errors import ConfigError
from injector.golang.time import utc_text
from injector.regularfiles import read_file
from injector.revisions.files import TimedReads

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

_log = logging.getLogger(__name__)

_BEGIN: Final = re.compile(rb"-----BEGIN (?:X509 )?CERTIFICATE-----")


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """The paths of a certificate chain, its key and, if known, its CA; all PEM."""

    chain: Path
    key: Path
    authority: Path | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """The content of these files."""

    chain: bytes
    key: bytes
    authority: bytes | None = None


@dataclass(frozen=True, slots=True)
class Certificate:
    """The facts of a server certificate.

    ``names`` are its DNS names and addresses, ``fingerprint`` is its SHA-256, and the dates are seconds since the epoch.
    """

    names: tuple[str, ...]
    not_before: float
    not_after: float
    fingerprint: str

    def __str__(self) -> str:
        return f"for {', '.join(self.names)}, until {utc_text(self.not_after)}, SHA-256 {self.fingerprint}"

    def fault(self, now: float) -> str:
        """Return why it cannot be used now; empty if it can."""
        if now > self.not_after:
            return f"it expired at {utc_text(self.not_after)}"
        return f"it is not valid before {utc_text(self.not_before)}" if now < self.not_before else ""


def read_pair(pair: Pair, files: CertificateFiles) -> Certificate:
    """Check a pair, except for its dates, and return the facts of its certificate. The paths are for errors.

    Raises:
        ConfigError: the certificate or key is not PEM, the key is that of another certificate, the certificate has no name, or
            the CA did not sign it.
    """
    chain = _certificates(pair.chain, files.chain)
    _check_key(pair.key, chain[0], files)
    names = _names(chain[0])
    if not names:
        raise ConfigError(
            "it has no DNS name, and API servers ignore the common name",
            where=str(files.chain),
            hint="have it issued with a subjectAltName such as DNS:injector.injector-system.svc",
        )
    if pair.authority is not None and files.authority is not None:
        _check_authority(chain, _certificates(pair.authority, files.authority), files)
    return Certificate(names, not_before(chain[0]), not_after(chain[0]), chain[0].fingerprint(hashes.SHA256()).hex())


def read_certificates(text: bytes) -> tuple[x509.Certificate, ...]:
    """Return the certificates of a PEM bundle; empty if it cannot be read."""
    try:
        return tuple(x509.load_pem_x509_certificates(text))
    except (ValueError, x509.InvalidVersion):
        return ()


def trust(context: ssl.SSLContext, certificates: Iterable[x509.Certificate]) -> None:
    """Make a context trust each of these certificates, also an intermediate CA, as Go does."""
    # Not as PEM: Python refuses comments that are not ASCII, which such files often have.
    context.load_verify_locations(
        cadata=b"".join(certificate.public_bytes(serialization.Encoding.DER) for certificate in certificates)
    )
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def pem_of(certificate: x509.Certificate) -> bytes:
    """Return a certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def not_before(certificate: x509.Certificate) -> float:
    """Return the start of the validity period in seconds since the epoch."""
    return certificate.not_valid_before_utc.timestamp()


def not_after(certificate: x509.Certificate) -> float:
    """Return the end of the validity period in seconds since the epoch."""
    return certificate.not_valid_after_utc.timestamp()


def _certificates(text: bytes, path: Path, hint: str = "give a certificate chain") -> tuple[x509.Certificate, ...]:
    certificates = read_certificates(text)
    if not certificates:
        raise ConfigError("not a PEM certificate", where=str(path), hint=hint)
    if len(certificates) != len(_BEGIN.findall(text)):
        raise ConfigError("the PEM file is truncated", where=str(path), hint="write the file again")
    return certificates


def _check_key(text: bytes, certificate: x509.Certificate, files: CertificateFiles) -> None:
    try:
        key: Any = serialization.load_pem_private_key(text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        what = "it is encrypted" if isinstance(error, TypeError) else "not a PEM key"
        raise ConfigError(what, where=str(files.key), hint=f"give the unencrypted key of {files.chain}") from error
    try:
        public_key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        hint = "have it issued with a key of a usual kind: ECDSA P-256 or RSA"
        raise ConfigError("the kind of its key is not supported", where=str(files.chain), hint=hint) from error
    if key.public_key() != public_key:
        raise ConfigError(
            "the key belongs to another certificate", where=str(files.key), hint=f"give the key of {files.chain}"
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
    if not any(one == root or _is_issued_by(one, root) for one in chain for root in authority):
        raise ConfigError(
            f"it did not sign the certificate of {files.chain}",
            where=str(files.authority),
            hint="give the CA that signed it",
        )


def _is_issued_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


class ClientAuthority:
    """The CA of client certificates, kept up to date with its PEM file, which has one or more certificates.

    A client certificate must have one of the common names, if there are any.

    Raises:
        ConfigError: the file cannot be read, or has no certificate.
    """

    def __init__(self, path: Path, names: Sequence[str] = ()) -> None:
        self.path = path
        self._names = frozenset(names)
        self._reads = TimedReads()
        self._trusted = self._read()
        self._rejected = ""

    def require(self, context: ssl.SSLContext) -> None:
        """Make a context refuse clients without a certificate of the CA."""
        context.verify_mode = ssl.CERT_REQUIRED
        trust(context, self._trusted)
        # A resumed session is not verified again, although the CA may have changed. ``admits`` refuses those that TLS 1.2 resumes
        # without a ticket.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0

    def poll(self) -> bool | None:
        """Read the file. Return whether the CA has changed, or None if the new content is rejected, once per error."""
        try:
            trusted = self._read()
        except ConfigError as error:
            if self._rejected == str(error):
                return False
            self._rejected = str(error)
            _log.error("rejected new client CA, keeping the current one: %s", error)
            return None
        self._rejected = ""
        if trusted == self._trusted:
            return False
        self._trusted = trusted
        _log.info("new client CA: %s", self.path)
        return True

    def allows(self, certificate: Mapping[str, Any] | None) -> bool:
        """Return whether a client certificate, in the form of ``getpeercert``, has an allowed common name."""
        subject = (certificate or {}).get("subject", ())
        names = {value for part in subject for key, value in part if key == "commonName"}
        return not self._names or not self._names.isdisjoint(names)

    def admits(self, transport: asyncio.BaseTransport) -> bool:
        """Return whether the client showed a certificate with an allowed name in this very handshake."""
        if transport.get_extra_info("ssl_object").session_reused:
            return False
        if self.allows(transport.get_extra_info("peercert")):
            return True
        _log.warning("connection closed: the name in the client certificate is not allowed")
        return False

    def _read(self) -> tuple[x509.Certificate, ...]:
        try:
            text = self._reads.read(partial(read_file, self.path), "the client CA", where=str(self.path))
        except OSError as error:
            raise ConfigError(
                f"cannot be read: {error.strerror}", where=str(self.path), hint="correct --client-ca-file"
            ) from error
        return _certificates(text, self.path, "give the CA of the client certificates")

"""Certificates for tests, made on the spot."""

from __future__ import annotations

import datetime as dt
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from injector.webhook.tls.certificate import CertificateFiles
from injector.webhook.tls.certificatesource import FileSource
from tests.mounts import mount


def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass(frozen=True)
class Issued:
    """A certificate, and the key of it."""

    certificate: x509.Certificate
    key: Any

    @property
    def chain_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return pem_of(self.key, serialization.NoEncryption())

    @property
    def fingerprint(self) -> str:
        return self.certificate.fingerprint(hashes.SHA256()).hex()

    def write(self, folder: Path, name: str = "tls") -> tuple[Path, Path]:
        """Write both; the paths of both."""
        certificate_path, key_path = folder / f"{name}.crt", folder / f"{name}.key"
        certificate_path.write_bytes(self.chain_pem)
        key_path.write_bytes(self.key_pem)
        return certificate_path, key_path


@dataclass(frozen=True)
class Order:
    """What certificate to make: its names, its dates in hours from now, and its kind of key."""

    names: tuple[str, ...] = ("localhost",)
    since: float = -1
    until: float = 24
    key: Callable[[], Any] = ec_key
    common_name: str = "tls"
    organization: str = ""
    extension: x509.ExtensionType | None = None
    now: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))


def issue(order: Order | None = None, issuer: Issued | None = None) -> Issued:
    """Make a certificate, signed by ``issuer`` or by itself."""
    order = order or Order()
    key = order.key()
    names = {NameOID.ORGANIZATION_NAME: order.organization, NameOID.COMMON_NAME: order.common_name}
    subject = x509.Name([x509.NameAttribute(oid, name) for oid, name in names.items() if name])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(order.now + dt.timedelta(hours=order.since))
        .not_valid_after(order.now + dt.timedelta(hours=order.until))
    )
    if order.names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_name(name) for name in order.names]), False)
    if order.extension is not None:
        builder = builder.add_extension(order.extension, critical=isinstance(order.extension, x509.BasicConstraints))
    return Issued(builder.sign(key if issuer is None else issuer.key, hashes.SHA256()), key)


def _name(text: str) -> x509.GeneralName:
    return x509.IPAddress(ip_address(text)) if text[0].isdigit() else x509.DNSName(text)


def authority(name: str = "authority") -> Issued:
    """Make a certificate authority."""
    return issue(Order((), -2, 240, common_name=name, extension=x509.BasicConstraints(ca=True, path_length=None)))


def write_certificate(folder: Path, name: str = "tls") -> tuple[Path, Path]:
    """Write a self-signed certificate for localhost and its key; the paths of both."""
    return issue(Order(common_name=name)).write(folder, name)


def pem_of(key: Any, protection: serialization.KeySerializationEncryption) -> bytes:
    pem: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)
    return pem


@dataclass
class MountedSecret:
    """A mounted Secret."""

    folder: Path
    root: Issued = field(default_factory=authority)
    now: float = field(default_factory=Order().now.timestamp)

    @property
    def files(self) -> CertificateFiles:
        return CertificateFiles(self.folder / "tls.crt", self.folder / "tls.key", self.folder / "ca.crt")

    def put(self, order: Order | None = None) -> Issued:
        """Mount a new certificate."""
        issued = issue(order, self.root)
        self.put_bytes(issued.chain_pem, issued.key_pem)
        return issued

    def put_bytes(self, chain: bytes, key: bytes) -> None:
        mount(self.folder, {"tls.crt": chain, "tls.key": key, "ca.crt": self.root.chain_pem})

    def source(self, interval: float = 1.0) -> FileSource:
        return FileSource(self.files, interval=interval, clock=lambda: self.now)

    def client(self) -> ssl.SSLContext:
        """Trusts the authority, and demands the name."""
        return ssl.create_default_context(cadata=self.root.chain_pem.decode())


def _mismatched(secret: MountedSecret) -> None:
    secret.put_bytes(issue(issuer=secret.root).chain_pem, issue(issuer=secret.root).key_pem)


def _half(secret: MountedSecret, of: str) -> None:
    issued = issue(issuer=secret.root)
    chain, key = issued.chain_pem, issued.key_pem
    secret.put_bytes(chain[: len(chain) // 2] if of == "chain" else chain, key[:40] if of == "key" else key)


def _self_signed(secret: MountedSecret) -> None:
    issued = issue()
    secret.put_bytes(issued.chain_pem, issued.key_pem)


BAD_PAIRS: dict[str, Callable[[MountedSecret], Any]] = {
    "the key belongs to another certificate": _mismatched,
    "it expired at": lambda secret: secret.put(Order(until=-0.5)),
    "it is not valid before": lambda secret: secret.put(Order(since=1)),
    "not a PEM certificate": lambda secret: _half(secret, "chain"),
    "tls.crt: not a PEM certificate": lambda secret: secret.put_bytes(b"", b""),
    "not a PEM key": lambda secret: _half(secret, "key"),
    "it has no DNS name": lambda secret: secret.put(Order(names=())),
    "it is for a.example, and the current one for localhost": lambda secret: secret.put(Order(names=("a.example",))),
    "it did not sign the certificate": _self_signed,
    "cannot be read: No such file": lambda secret: (secret.folder / "..data" / "tls.key").unlink(),
}
"""Ways to mount a pair that is not valid, by the error."""

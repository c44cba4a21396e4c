"""Passwords, keys and certificates (sprig's crypto.go), by the ``cryptography`` package.

The package is imported on first use: it takes longer to load than a whole injection, and few templates ask for it.
"""

# ruff: noqa: PLC0415 - see above
from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from injector.gotemplate import costs
from injector.gotemplate.budget import reserve
from injector.gotemplate.errors import FuncError
from injector.gotemplate.fmt import sprint
from injector.gotemplate.functions import FuncMap
from injector.gotemplate.values import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from injector.gotemplate.sprig.randoms import Source

FUNCTIONS: Final = FuncMap()

_BCRYPT_COST: Final = 10
_SCRYPT_COST: Final = 32768
_SCRYPT_BLOCK: Final = 8
_SLOW_KEYS: Final = ("", "rsa", "dsa")
_AES_KEY: Final = 32
_AES_BLOCK: Final = 16
# The password templates of Lyndir's Master Password algorithm, version 0, which sprig implements.
_TEMPLATES: Final = {
    "maximum": "anoxxxxxxxxxxxxxxxxx axxxxxxxxxxxxxxxxxno",
    "long": (
        "CvcvnoCvcvCvcv CvcvCvcvnoCvcv CvcvCvcvCvcvno CvccnoCvcvCvcv CvccCvcvnoCvcv CvccCvcvCvcvno CvcvnoCvccCvcv "
        "CvcvCvccnoCvcv CvcvCvccCvcvno CvcvnoCvcvCvcc CvcvCvcvnoCvcc CvcvCvcvCvccno CvccnoCvccCvcv CvccCvccnoCvcv "
        "CvccCvccCvcvno CvcvnoCvccCvcc CvcvCvccnoCvcc CvcvCvccCvccno CvccnoCvcvCvcc CvccCvcvnoCvcc CvccCvcvCvccno"
    ),
    "medium": "CvcnoCvc CvcCvcno",
    "short": "Cvcn",
    "basic": "aaanaaan aannaaan aaannaaa",
    "pin": "nnnn",
}
_VOWELS: Final = "aeiou"
_CONSONANTS: Final = "bcdfghjklmnpqrstvwxyz"
_LETTERS: Final = _VOWELS.upper() + _VOWELS + _CONSONANTS.upper() + _CONSONANTS
_CHARACTERS: Final = {
    "V": _VOWELS.upper(),
    "C": _CONSONANTS.upper(),
    "v": _VOWELS,
    "c": _CONSONANTS,
    "A": _VOWELS.upper() + _CONSONANTS.upper(),
    "a": _LETTERS,
    "n": "0123456789",
    "o": "@&%?,=[]_:-+*$#!'^~;()/.",
    "x": _LETTERS + "0123456789!@#$%^&*()",
}


class Certificate(Struct):
    """A certificate and its key, both PEM."""

    __slots__ = ("cert", "key")

    def __init__(self, cert: str, key: str) -> None:
        self.cert = cert
        self.key = key

    @property
    def go_type(self) -> str:
        """The Go type."""
        return "sprig.certificate"

    def field(self, name: str) -> str:
        """Return Cert or Key."""
        return {"Cert": self.cert, "Key": self.key}[name]

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Yield Cert and Key."""
        yield "Cert", self.cert
        yield "Key", self.key


@FUNCTIONS.define("func(uint32, string, string, string, string) string", "derivePassword", cost=costs.DERIVED)
def derive_password(counter: int, kind: str, password: str, user: str, site: str) -> str:
    """Return the password of a site by the Master Password algorithm."""
    templates = _TEMPLATES.get(kind, "").split()
    if not templates:
        return f"cannot find password template {kind}"
    scope = b"com.lyndir.masterpassword"
    salt = scope + len(user.encode()).to_bytes(4, "big") + user.encode()
    reserve(128 * _SCRYPT_COST * _SCRYPT_BLOCK)
    key = hashlib.scrypt(password.encode(), salt=salt, n=_SCRYPT_COST, r=_SCRYPT_BLOCK, p=2, maxmem=1 << 27, dklen=64)
    message = scope + len(site.encode()).to_bytes(4, "big") + site.encode() + int(counter).to_bytes(4, "big")
    seed = hmac.new(key, message, hashlib.sha256).digest()
    template = templates[seed[0] % len(templates)]
    sets = [_CHARACTERS[char] for char in template]
    return "".join(chars[seed[index + 1] % len(chars)] for index, chars in enumerate(sets))


def bcrypt(text: str) -> str:
    """Return a bcrypt hash."""
    import bcrypt as library

    raw = text.encode("utf-8", "surrogateescape")
    if len(raw) > 72:  # noqa: PLR2004 - bcrypt's own limit
        return "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes"
    return library.hashpw(raw, library.gensalt(_BCRYPT_COST, prefix=b"2a")).decode()


def htpasswd(user: str, password: str) -> str:
    """Return a line for a htpasswd file."""
    return f"invalid username: {user}" if ":" in user else f"{user}:{bcrypt(password)}"


def _aes_key(password: str) -> bytes:
    return password.encode("utf-8", "surrogateescape")[:_AES_KEY].ljust(_AES_KEY, b"\0")


@dataclass(frozen=True, slots=True)
class Encrypter:
    """encryptAES with a source of initialisation vectors."""

    randbytes: Callable[[int], bytes]

    def encrypt(self, password: str, text: str) -> str:
        """Return a text encrypted by AES-CBC, in base 64, its vector in front."""
        if not text:
            return ""
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        raw = text.encode("utf-8", "surrogateescape")
        padding = _AES_BLOCK - len(raw) % _AES_BLOCK
        vector = self.randbytes(_AES_BLOCK)
        encryptor = Cipher(algorithms.AES(_aes_key(password)), modes.CBC(vector)).encryptor()
        encrypted = encryptor.update(raw + bytes([padding]) * padding) + encryptor.finalize()
        return base64.b64encode(vector + encrypted).decode()


@FUNCTIONS.define("func(string, string) (string, error)", "decryptAES", cost=costs.COPY)
def decrypt_aes(password: str, text: str) -> str:
    """Return the text that ``encryptAES`` encrypted."""
    if not text:
        return ""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        bad = next(
            (i for i, char in enumerate(text) if not (char.isalnum() or char in "+/=")), len(text) - len(text) % 4
        )
        raise FuncError(f"illegal base64 data at input byte {bad}") from None
    vector, encrypted = raw[:_AES_BLOCK], raw[_AES_BLOCK:]
    if len(vector) < _AES_BLOCK:
        raise FuncError(f"runtime error: slice bounds out of range [:{_AES_BLOCK}] with capacity {len(raw)}")
    if not encrypted:
        raise FuncError("runtime error: index out of range [-1]")
    if len(encrypted) % _AES_BLOCK:
        raise FuncError("crypto/cipher: input not full blocks")
    decryptor = Cipher(algorithms.AES(_aes_key(password)), modes.CBC(vector)).decryptor()
    plain = decryptor.update(encrypted) + decryptor.finalize()
    if plain[-1] > len(plain):
        raise FuncError(f"runtime error: slice bounds out of range [:{len(plain) - plain[-1]}]")
    return plain[: len(plain) - plain[-1]].decode("utf-8", "surrogateescape")


def gen_private_key(kind: str) -> str:
    """Return a new private key as PEM: ecdsa or ed25519. Those of RSA and DSA, of 4096 and 2048 bits in sprig, take too long."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    if kind in _SLOW_KEYS:
        raise FuncError(f"a key of kind {kind or 'rsa'} takes longer than a rendering may; use ecdsa or ed25519")
    makers: dict[str, Callable[[], Any]] = {
        "ecdsa": lambda: ec.generate_private_key(ec.SECP256R1()),
        "ed25519": ed25519.Ed25519PrivateKey.generate,
    }
    return _key_pem(makers[kind]()) if kind in makers else f"Unknown type {kind}"


def _key_pem(key: Any) -> str:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    form = PrivateFormat.PKCS8 if isinstance(key, Ed25519PrivateKey) else PrivateFormat.TraditionalOpenSSL
    pem: bytes = key.private_bytes(Encoding.PEM, form, NoEncryption())
    return pem.decode()


def _load_key(pem: str) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError) as error:
        raise FuncError("no PEM data in input" if "BEGIN" not in pem else str(error)) from error


def _load_cert(pem: str) -> Any:
    from cryptography import x509

    if "-----BEGIN" not in pem:
        raise FuncError("unable to decode certificate")
    try:
        return x509.load_pem_x509_certificate(pem.encode())
    except ValueError as error:
        raise FuncError(f"error parsing certificate: {error}") from error


@FUNCTIONS.define("func(string, string) (sprig.certificate, error)", "buildCustomCert", cost=costs.CERTIFICATE)
def build_custom_cert(cert: str, key: str) -> Certificate:
    """Return a certificate and key that are given in base 64."""
    parts = []
    for text, name in ((cert, "certificate"), (key, "private key")):
        try:
            parts.append(base64.b64decode(text, validate=True).decode("utf-8", "surrogateescape"))
        except (binascii.Error, ValueError):
            raise FuncError(f"unable to decode base64 {name}") from None
    _load_cert(parts[0])
    try:
        _load_key(parts[1])
    except FuncError as error:
        raise FuncError(f"error parsing private key: {error}") from error
    return Certificate(*parts)


@dataclass(frozen=True, slots=True)
class Authority:
    """The functions that make certificates, by a clock."""

    clock: Callable[[], datetime]

    def ca(self, name: str, days: int) -> Certificate:
        """Return a self-signed certificate authority."""
        return self.ca_with_key(name, days, _new_rsa())

    def ca_with_key(self, name: str, days: int, pem: str) -> Certificate:
        """Return a self-signed certificate authority for a key."""
        key = _parsed_key(pem)
        return self._certificate(name, [], [], days, key, None, is_ca=True)

    def self_signed(self, name: str, ips: Any, dns: Any, days: int) -> Certificate:
        """Return a self-signed certificate."""
        return self.self_signed_with_key(name, ips, dns, days, _new_rsa())

    def self_signed_with_key(self, name: str, ips: Any, dns: Any, days: int, pem: str) -> Certificate:
        """Return a self-signed certificate for a key."""
        return self._certificate(name, ips, dns, days, _parsed_key(pem), None)

    def signed(self, name: str, ips: Any, dns: Any, days: int, ca: Certificate) -> Certificate:
        """Return a certificate signed by an authority."""
        return self.signed_with_key(name, ips, dns, days, ca, _new_rsa())

    def signed_with_key(self, name: str, ips: Any, dns: Any, days: int, ca: Certificate, pem: str) -> Certificate:
        """Return a certificate for a key, signed by an authority."""
        return self._certificate(name, ips, dns, days, _parsed_key(pem), ca)

    def _certificate(  # noqa: PLR0913 - the parts of a certificate
        self, name: str, ips: Any, dns: Any, days: int, key: Any, ca: Certificate | None, *, is_ca: bool = False
    ) -> Certificate:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding
        from cryptography.x509.oid import NameOID

        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = subject if ca is None else _load_cert(ca.cert).subject
        signer = key if ca is None else _load_key(ca.key)
        begin = self.clock()
        builder = (
            x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(_key_usage(is_ca=is_ca), critical=True)
            .add_extension(x509.ExtendedKeyUsage(list(_usages())), critical=False)
        )
        names = _alternative_names(ips, dns)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        algorithm = None if isinstance(signer, Ed25519PrivateKey) else hashes.SHA256()
        cert = builder.sign(signer, algorithm)
        return Certificate(cert.public_bytes(Encoding.PEM).decode(), _key_pem(key))


def _new_rsa() -> str:
    from cryptography.hazmat.primitives.asymmetric import rsa

    return _key_pem(rsa.generate_private_key(65537, 2048))


def _parsed_key(pem: str) -> Any:
    try:
        return _load_key(pem)
    except FuncError as error:
        raise FuncError(f"parsing private key: {error}") from error


def _usages() -> tuple[Any, Any]:
    from cryptography.x509.oid import ExtendedKeyUsageOID

    return ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


def _key_usage(*, is_ca: bool) -> Any:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=True,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_ca,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative_names(ips: Any, dns: Any) -> list[Any]:
    from cryptography import x509

    names: list[Any] = []
    for name in dns or ():
        if not isinstance(name, str):
            raise FuncError(f"error processing alternate dns name: {sprint(name)} is not a string")
        names.append(x509.DNSName(name))
    for address in ips or ():
        if not isinstance(address, str):
            raise FuncError(f"error parsing ip: {sprint(address)} is not a string")
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(address)))
        except ValueError as error:
            raise FuncError(f"error parsing ip: {address}") from error
    return names


def crypto_functions(clock: Callable[[], datetime], source: Source) -> FuncMap:
    """Return the functions that are random, and those that read a clock for the validity of certificates."""
    authority, functions = Authority(clock), FuncMap()
    text, dns, certificate = "func(string) string", "[]interface {}, []interface {}", "(sprig.certificate, error)"
    with_key, new = costs.CERTIFICATE, costs.NEW_CERTIFICATE
    for signature, cost, call, name in (
        (text, costs.HASHED, bcrypt, "bcrypt"),
        ("func(string, string) string", costs.HASHED, htpasswd, "htpasswd"),
        ("func(string, string) (string, error)", costs.COPY, Encrypter(source.randbytes).encrypt, "encryptAES"),
        (text, costs.NEW_KEY, gen_private_key, "genPrivateKey"),
        (f"func(string, int) {certificate}", new, authority.ca, "genCA"),
        (f"func(string, int, string) {certificate}", with_key, authority.ca_with_key, "genCAWithKey"),
        (f"func(string, {dns}, int) {certificate}", new, authority.self_signed, "genSelfSignedCert"),
        (
            f"func(string, {dns}, int, string) {certificate}",
            with_key,
            authority.self_signed_with_key,
            "genSelfSignedCertWithKey",
        ),
        (f"func(string, {dns}, int, sprig.certificate) {certificate}", new, authority.signed, "genSignedCert"),
        (
            f"func(string, {dns}, int, sprig.certificate, string) {certificate}",
            with_key,
            authority.signed_with_key,
            "genSignedCertWithKey",
        ),
    ):
        functions.define(signature, name, cost=cost, hermetic=False)(call)
    return functions

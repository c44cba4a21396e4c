"""Passwords, keys and certificates (sprig's crypto.go), by the ``cryptography`` package.

The package is imported on first use: it takes longer to load than a whole injection, and few templates ask for it.
"""

# ruff: noqa: PLC0415 - see above
from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from injector.golang.strconv import from_bytes, to_bytes
from injector.gotemplate import costs
from injector.gotemplate.budget import reserve
from injector.gotemplate.errors import FuncError
from injector.gotemplate.fmt import sprint
from injector.gotemplate.functions import FuncMap
from injector.gotemplate.sprig.strings import decode_base64
from injector.gotemplate.values import Struct

if TYPE_CHECKING:
    from injector.gotemplate.sprig.dates import Clock

FUNCTIONS: Final = FuncMap()
CLOCKED: Final = FuncMap()
"""Functions whose first argument is a clock, for the validity of certificates."""

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


@dataclass(frozen=True, slots=True)
class CertificateStruct(Struct):
    """A certificate and its key, both PEM."""

    cert: str
    key: str

    go_type = "sprig.certificate"

    def field(self, name: str) -> str:
        """Return Cert or Key."""
        return dict(self.fields())[name]

    def fields(self) -> Iterator[tuple[str, str]]:
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


@FUNCTIONS.define("func(string) string", "bcrypt", cost=costs.HASHED, hermetic=False)
def bcrypt(text: str) -> str:
    """Return a bcrypt hash."""
    import bcrypt as library

    raw = to_bytes(text)
    if len(raw) > 72:  # noqa: PLR2004 - bcrypt's own limit
        return "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes"
    return library.hashpw(raw, library.gensalt(_BCRYPT_COST, prefix=b"2a")).decode()


@FUNCTIONS.define("func(string, string) string", "htpasswd", cost=costs.HASHED, hermetic=False)
def htpasswd(user: str, password: str) -> str:
    """Return a line for a htpasswd file."""
    return f"invalid username: {user}" if ":" in user else f"{user}:{bcrypt(password)}"


def _aes(password: str, vector: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = to_bytes(password)[:_AES_KEY].ljust(_AES_KEY, b"\0")
    return Cipher(algorithms.AES(key), modes.CBC(vector))


@FUNCTIONS.define("func(string, string) (string, error)", "encryptAES", cost=costs.COPY, hermetic=False)
def encrypt_aes(password: str, text: str) -> str:
    """Return a text encrypted by AES-CBC, in base 64 and after its initialisation vector."""
    if not text:
        return ""
    raw = to_bytes(text)
    padding = _AES_BLOCK - len(raw) % _AES_BLOCK
    vector = os.urandom(_AES_BLOCK)
    encryptor = _aes(password, vector).encryptor()
    encrypted = encryptor.update(raw + bytes([padding]) * padding) + encryptor.finalize()
    return base64.b64encode(vector + encrypted).decode()


@FUNCTIONS.define("func(string, string) (string, error)", "decryptAES", cost=costs.COPY)
def decrypt_aes(password: str, text: str) -> str:
    """Return the text that ``encryptAES`` encrypted."""
    if not text:
        return ""
    raw = decode_base64(text)
    vector, encrypted = raw[:_AES_BLOCK], raw[_AES_BLOCK:]
    if len(vector) < _AES_BLOCK:
        raise FuncError(f"runtime error: slice bounds out of range [:{_AES_BLOCK}] with capacity {len(text) // 4 * 3}")
    if not encrypted:
        raise FuncError("runtime error: index out of range [-1]")
    if len(encrypted) % _AES_BLOCK:
        raise FuncError("crypto/cipher: input not full blocks")
    decryptor = _aes(password, vector).decryptor()
    plain: bytes = decryptor.update(encrypted) + decryptor.finalize()
    if plain[-1] > len(plain):
        raise FuncError(f"runtime error: slice bounds out of range [:{len(plain) - plain[-1]}]")
    return from_bytes(plain[: len(plain) - plain[-1]])


@FUNCTIONS.define("func(string) string", "genPrivateKey", cost=costs.NEW_KEY, hermetic=False)
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
def build_custom_cert(cert: str, key: str) -> CertificateStruct:
    """Return a certificate and key that are given in base 64."""
    parts = []
    for text, name in ((cert, "certificate"), (key, "private key")):
        try:
            parts.append(from_bytes(decode_base64(text)))
        except FuncError:
            raise FuncError(f"unable to decode base64 {name}") from None
    _load_cert(parts[0])
    try:
        _load_key(parts[1])
    except FuncError as error:
        raise FuncError(f"error parsing private key: {error}") from error
    return CertificateStruct(*parts)


_DNS: Final = "[]interface {}, []interface {}"
_RESULT: Final = "(sprig.certificate, error)"


@CLOCKED.define(f"func(string, int) {_RESULT}", "genCA", cost=costs.NEW_CERTIFICATE)
@CLOCKED.define(f"func(string, int, string) {_RESULT}", "genCAWithKey", cost=costs.CERTIFICATE)
def gen_ca(clock: Clock, name: str, days: int, pem: str | None = None) -> CertificateStruct:
    """Return a self-signed certificate authority, for a new key if none is given."""
    return _certificate(clock, name, _key(pem), days, [], is_ca=True)


@CLOCKED.define(f"func(string, {_DNS}, int) {_RESULT}", "genSelfSignedCert", cost=costs.NEW_CERTIFICATE)
@CLOCKED.define(f"func(string, {_DNS}, int, string) {_RESULT}", "genSelfSignedCertWithKey", cost=costs.CERTIFICATE)
def gen_self_signed_cert(
    clock: Clock, name: str, ips: Any, dns: Any, days: int, pem: str | None = None
) -> CertificateStruct:
    """Return a self-signed certificate, for a new key if none is given."""
    key = _key(pem)
    return _certificate(clock, name, key, days, _alternative_names(ips, dns))


@CLOCKED.define(f"func(string, {_DNS}, int, sprig.certificate) {_RESULT}", "genSignedCert", cost=costs.NEW_CERTIFICATE)
@CLOCKED.define(
    f"func(string, {_DNS}, int, sprig.certificate, string) {_RESULT}", "genSignedCertWithKey", cost=costs.CERTIFICATE
)
def gen_signed_cert(  # noqa: PLR0913, PLR0917 - sprig's own signature
    clock: Clock, name: str, ips: Any, dns: Any, days: int, ca: CertificateStruct, pem: str | None = None
) -> CertificateStruct:
    """Return a certificate signed by an authority, for a new key if none is given."""
    key = _key(pem)
    return _certificate(clock, name, key, days, _alternative_names(ips, dns), ca)


def _certificate(  # noqa: PLR0913 - the parts of a certificate
    clock: Clock,
    name: str,
    key: Any,
    days: int,
    names: list[Any],
    ca: CertificateStruct | None = None,
    *,
    is_ca: bool = False,
) -> CertificateStruct:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer = subject if ca is None else _load_cert(ca.cert).subject
    signer = key if ca is None else _load_key(ca.key)
    begin = clock()
    key_usage = x509.KeyUsage(
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
    usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    builder = (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(key_usage, critical=True)
        .add_extension(usages, critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    algorithm = None if isinstance(signer, Ed25519PrivateKey) else hashes.SHA256()
    cert = builder.sign(signer, algorithm)
    return CertificateStruct(cert.public_bytes(Encoding.PEM).decode(), _key_pem(key))


def _key(pem: str | None) -> Any:
    """Return the key of a PEM text, or a new RSA key."""
    from cryptography.hazmat.primitives.asymmetric import rsa

    if pem is None:
        return rsa.generate_private_key(65537, 2048)
    try:
        return _load_key(pem)
    except FuncError as error:
        raise FuncError(f"parsing private key: {error}") from error


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

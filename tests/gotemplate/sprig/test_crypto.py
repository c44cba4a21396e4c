"""Sprig's certificates, ciphers and hashes."""

from __future__ import annotations

from datetime import UTC, datetime

import bcrypt
from cryptography import x509

from injector.gotemplate.sprig import crypto


def test_a_certificate_is_signed_by_its_authority() -> None:
    functions = crypto.CLOCKED.bind(lambda: datetime.now(UTC))
    ca = functions["genCA"].call("test-ca", 10)
    leaf = functions["genSignedCert"].call("leaf", ["10.0.0.1"], ["a.example.com"], 5, ca)
    root, cert = (x509.load_pem_x509_certificate(item.cert.encode()) for item in (ca, leaf))
    cert.verify_directly_issued_by(root)
    names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["a.example.com"]


def test_what_was_encrypted_is_decrypted() -> None:
    encrypted = crypto.encrypt_aes("key", "plain ☃")
    assert crypto.decrypt_aes("key", encrypted) == "plain ☃"


def test_a_password_hash_fits_its_password() -> None:
    user, _, hashed = crypto.htpasswd("u", "secret").partition(":")
    assert user == "u"
    assert bcrypt.checkpw(b"secret", hashed.encode())

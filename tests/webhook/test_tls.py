from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from injector.errors import ConfigError
from injector.webhook.tls import server_context
from tests.webhook.certificates import encrypted, write_certificate

if TYPE_CHECKING:
    from pathlib import Path


def test_a_certificate_with_its_key_serves_tls_from_1_2_on(tmp_path: Path) -> None:
    context = server_context(*write_certificate(tmp_path))

    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(("missing", "flag"), [("tls.crt", "--tlsCertFile"), ("tls.key", "--tlsKeyFile")])
def test_a_missing_file_is_named_with_its_flag(tmp_path: Path, missing: str, flag: str) -> None:
    certificate, key = write_certificate(tmp_path)
    (tmp_path / missing).unlink()

    with pytest.raises(ConfigError, match=f"{missing}: cannot be read: No such file or directory; correct {flag}"):
        server_context(certificate, key)


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    certificate, _ = write_certificate(tmp_path)
    _, other = write_certificate(tmp_path, "other")

    with pytest.raises(ConfigError, match=r"other\.key: is not the key of the certificate; give the key of .*tls\.crt"):
        server_context(certificate, other)


def test_what_is_no_pem_is_refused(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    certificate.write_text("garbage")

    with pytest.raises(ConfigError, match="they are no PEM certificate and key"):
        server_context(certificate, key)


def test_an_encrypted_key_is_refused_without_asking_for_its_password(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)

    with pytest.raises(ConfigError, match="unencrypted key"):
        server_context(certificate, encrypted(key))

from __future__ import annotations

import datetime as dt
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from injector.errors import ConfigError
from injector.webhook.tls.ca import BACKDATED, Authority, new_authority, read_authority
from injector.webhook.tls.certificate import not_after, read_certificates
from tests.webhook.certificates import authority, issue, rsa_key
from tests.webhook.tlspair import handshake

DAY = 86400.0
NAMES = ("injector.mesh.svc", "injector.mesh.svc.cluster.local")


def now() -> float:
    return dt.datetime.now(dt.UTC).timestamp()


def test_what_an_authority_issues_is_trusted_by_who_trusts_the_authority() -> None:
    made = new_authority(now(), 365 * DAY)

    pair = made.issue(NAMES, now=now(), life=7 * DAY)

    for name in NAMES:
        assert handshake(pair, made.pem, name) == ""
    assert "Hostname mismatch" in handshake(pair, made.pem, "other.mesh.svc")
    assert "certificate verify failed" in handshake(pair, new_authority(now(), DAY).pem, NAMES[0])


def test_a_strict_client_takes_both_certificates() -> None:
    made = new_authority(now(), 365 * DAY)
    pair = made.issue(NAMES, now=now(), life=7 * DAY)

    assert handshake(pair, made.pem, NAMES[0], flags=ssl.VERIFY_X509_STRICT) == ""


def test_an_authority_signs_certificates_alone_and_none_that_sign() -> None:
    made = new_authority(now(), DAY)
    constraints = made.certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = made.certificate.extensions.get_extension_for_class(x509.KeyUsage)

    assert (constraints.value.ca, constraints.value.path_length, constraints.critical) == (True, 0, True)
    assert (usage.value.key_cert_sign, usage.value.digital_signature, usage.critical) == (True, False, True)
    assert isinstance(made.key.curve, ec.SECP256R1)


def test_a_certificate_is_for_servers_and_signs_nothing() -> None:
    (leaf,) = read_certificates(new_authority(now(), DAY).issue(NAMES, now=now(), life=DAY).chain)
    extensions = leaf.extensions

    assert extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName) == [
        *NAMES
    ]


def test_both_begin_an_hour_early_and_the_certificate_ends_with_its_authority() -> None:
    made = new_authority(1e9, 3 * DAY)
    (leaf,) = read_certificates(made.issue(NAMES, now=1e9 + DAY, life=7 * DAY).chain)

    assert (made.created, not_after(made.certificate)) == (1e9, 1e9 + 3 * DAY)
    assert leaf.not_valid_before_utc.timestamp() == 1e9 + DAY - BACKDATED
    assert not_after(leaf) == 1e9 + 3 * DAY
    assert made.renewal(2 / 3) == 1e9 + 2 * DAY


@pytest.mark.parametrize(
    ("at", "usable"), [(-BACKDATED - 1, False), (-BACKDATED, True), (0, True), (DAY - 1, True), (DAY, False)]
)
def test_an_authority_is_usable_within_its_dates(at: float, usable: bool) -> None:
    assert new_authority(1e9, DAY).usable(1e9 + at) is usable


def test_a_service_of_the_longest_name_gets_a_certificate() -> None:
    name = f"{'s' * 63}.{'n' * 63}.svc"

    (leaf,) = read_certificates(new_authority(now(), DAY).issue((name,), now=now(), life=DAY).chain)

    assert name in str(leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)


def test_no_two_authorities_share_a_name() -> None:
    assert len({new_authority(1e9, DAY).certificate.subject for _ in range(5)}) == 5


def test_an_authority_is_read_as_it_was_written_and_its_key_is_not_shown() -> None:
    made = new_authority(1e9, DAY)

    read = read_authority(made.pem, made.key_pem, where="Secret a/b")

    assert read == made
    assert read.key_pem == made.key_pem
    assert "key" not in repr(made)


@pytest.mark.parametrize(
    "pair",
    [
        (b"", b""),
        (b"x", b"y"),
        (authority().chain_pem, authority().key_pem),
        (authority().chain_pem, b"-----BEGIN PRIVATE KEY-----"),
        (issue(issuer=authority()).chain_pem[:200], authority().key_pem),
    ],
)
def test_what_is_no_authority_with_its_key_is_refused_without_a_word_of_it(pair: tuple[bytes, bytes]) -> None:
    with pytest.raises(ConfigError) as caught:
        read_authority(*pair, where="Secret a/b")

    assert str(caught.value) == (
        "Secret a/b: not a CA certificate with its ECDSA key; delete the Secret; a new CA is then generated"
    )


def test_a_key_of_another_kind_is_refused() -> None:
    other = Authority(authority().certificate, rsa_key())  # type: ignore[arg-type]

    with pytest.raises(ConfigError):
        read_authority(other.pem, other.key_pem, where="x")


@pytest.mark.parametrize("text", [b"", b"x", authority().chain_pem[:100]])
def test_a_bundle_that_cannot_be_read_holds_nothing(text: bytes) -> None:
    assert read_certificates(text) == ()

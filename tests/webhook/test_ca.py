"""The generated certificate authority: renewal, rotation and clocks."""

from __future__ import annotations

import base64
import datetime as dt
import ssl
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from injector.errors import ConfigError
from injector.webhook.tls.certificate import not_after, read_certificates
from injector.webhook.tls.selfsigned import (
    Authority,
    CaRotation,
    Lifetimes,
    advance,
    data_of,
    new_authority,
    new_ca,
    read_authority,
    read_rotation,
)
from tests.webhook.certificates import Order, authority, issue, rsa_key
from tests.webhook.tlspair import handshake

DAY = 86400.0
NAMES = ("injector.mesh.svc", "injector.mesh.svc.cluster.local")


def now() -> float:
    return dt.datetime.now(dt.UTC).timestamp()


def test_what_an_authority_issues_is_trusted_by_who_trusts_the_authority() -> None:
    ca = new_authority(now(), 365 * DAY)

    pair = ca.issue(NAMES, now=now(), life=7 * DAY)

    for name in NAMES:
        assert handshake(pair, ca.pem, name) == ""
    assert "Hostname mismatch" in handshake(pair, ca.pem, "other.mesh.svc")
    assert "certificate verify failed" in handshake(pair, new_authority(now(), DAY).pem, NAMES[0])


def test_a_strict_client_takes_both_certificates() -> None:
    ca = new_authority(now(), 365 * DAY)
    pair = ca.issue(NAMES, now=now(), life=7 * DAY)

    assert handshake(pair, ca.pem, NAMES[0], flags=ssl.VERIFY_X509_STRICT) == ""


def test_an_authority_signs_certificates_alone_and_none_that_sign() -> None:
    ca = new_authority(now(), DAY)
    constraints = ca.certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = ca.certificate.extensions.get_extension_for_class(x509.KeyUsage)

    assert (constraints.value.ca, constraints.value.path_length, constraints.critical) == (True, 0, True)
    assert (usage.value.key_cert_sign, usage.value.digital_signature, usage.critical) == (True, False, True)
    assert isinstance(ca.key.curve, ec.SECP256R1)


def test_a_certificate_is_for_servers_and_signs_nothing() -> None:
    (leaf,) = read_certificates(new_authority(now(), DAY).issue(NAMES, now=now(), life=DAY).chain)
    extensions = leaf.extensions

    assert extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName) == [
        *NAMES
    ]


def test_both_begin_an_hour_early_and_the_certificate_ends_with_its_authority() -> None:
    ca = new_authority(1e9, 3 * DAY)
    (leaf,) = read_certificates(ca.issue(NAMES, now=1e9 + DAY, life=7 * DAY).chain)

    assert (ca.created, not_after(ca.certificate)) == (1e9, 1e9 + 3 * DAY)
    assert leaf.not_valid_before_utc.timestamp() == 1e9 + DAY - 3600.0
    assert not_after(leaf) == 1e9 + 3 * DAY
    assert ca.renewal(2 / 3) == 1e9 + 2 * DAY


@pytest.mark.parametrize(
    ("at", "usable"), [(-3601.0, False), (-3600.0, True), (0, True), (DAY - 1, True), (DAY, False)]
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
    ca = new_authority(1e9, DAY)

    read = read_authority(ca.pem, ca.key_pem, where="Secret a/b")

    assert read == ca
    assert read.key_pem == ca.key_pem
    assert "key" not in repr(ca)


@pytest.mark.parametrize(
    "pair",
    [
        (b"", b""),
        (b"x", b"y"),
        (authority().chain_pem, authority().key_pem),
        (authority().chain_pem, b"-----BEGIN PRIVATE KEY-----"),
        (issue(issuer=authority()).chain_pem[:200], authority().key_pem),
        ((rsa := issue(Order(key=rsa_key))).chain_pem, rsa.key_pem),
    ],
)
def test_what_is_no_authority_with_its_key_is_refused_without_a_word_of_it(pair: tuple[bytes, bytes]) -> None:
    with pytest.raises(ConfigError) as caught:
        read_authority(*pair, where="Secret a/b")

    assert str(caught.value) == (
        "Secret a/b: not a CA certificate with its ECDSA key; delete the Secret; a new CA is then generated"
    )


@pytest.mark.parametrize("text", [b"", b"x", authority().chain_pem[:100]], ids=["empty", "text", "cut"])
def test_a_bundle_that_cannot_be_read_holds_nothing(text: bytes) -> None:
    assert read_certificates(text) == ()


START = 1e9
TIMES = Lifetimes(authority=900.0, leaf=60.0, overlap=30.0)
RENEWAL = START + 600.0


def follow(held: CaRotation, at: float, *, trusted: bool = True) -> CaRotation:
    return advance(held, TIMES, now=at, trusted=trusted)


def in_phase_one() -> CaRotation:
    return follow(new_ca(START, TIMES), RENEWAL)


def certificates_of(held: CaRotation) -> set[Authority | bytes]:
    return {*read_certificates(held.bundle)}  # type: ignore[arg-type]


def test_the_defaults_are_a_year_and_a_week() -> None:
    assert Lifetimes() == Lifetimes(authority=365 * 86400.0, leaf=7 * 86400.0, overlap=86400.0, share=2 / 3)


def test_a_new_one_signs_alone() -> None:
    held = new_ca(START, TIMES)

    assert (held.since, held.next, held.retired, held.bundle) == (START, None, (), held.signing.pem)


@pytest.mark.parametrize("at", [0.0, 300.0, 599.0])
def test_nothing_follows_before_two_thirds_of_its_life(at: float) -> None:
    held = new_ca(START, TIMES)

    assert follow(held, START + at) is held


def test_at_two_thirds_the_next_one_is_published_and_signs_nothing() -> None:
    held = new_ca(START, TIMES)

    first = follow(held, RENEWAL)

    assert (first.signing, first.since) == (held.signing, START)
    assert first.next is not None
    assert certificates_of(first) == {held.signing.certificate, first.next.certificate}


@pytest.mark.parametrize(
    ("after", "trusted", "signs"),
    [(29.0, True, False), (30.0, False, False), (30.0, True, True), (200.0, False, False)],
)
def test_the_next_one_signs_once_the_overlap_is_over_and_the_bundle_is_everywhere(
    after: float, trusted: bool, signs: bool
) -> None:
    held = in_phase_one()

    second = follow(held, RENEWAL + after, trusted=trusted)

    assert (second.signing == held.next) is signs
    assert second.bundle == held.bundle


def test_the_former_one_is_trusted_until_all_that_it_signed_has_expired() -> None:
    held = in_phase_one()
    second = follow(held, RENEWAL + 30.0)

    trusted, dropped = follow(second, RENEWAL + 89.0), follow(second, RENEWAL + 90.0)

    assert trusted is second
    assert (dropped.retired, dropped.bundle) == ((), second.signing.pem)
    assert (dropped.signing, dropped.since) == (second.signing, RENEWAL + 30.0)


@pytest.mark.parametrize("late", [900.0, 5000.0])
def test_an_expired_one_is_followed_at_once_wherever_the_bundle_is(
    late: float,
) -> None:
    held = in_phase_one()

    second = follow(held, START + late, trusted=False)

    assert second.signing.usable(START + late)
    assert (second.signing == held.next) is (late < 1500.0)


def test_one_that_expired_without_a_next_is_made_anew() -> None:
    held = new_ca(START, TIMES)

    anew = follow(held, START + 900.0)

    assert anew.signing.usable(START + 900.0)
    assert (anew.since, anew.retired) == (START + 900.0, ())


def test_one_from_the_future_is_made_anew_and_stays_trusted() -> None:
    held = new_ca(START + 86400.0, TIMES)

    anew = follow(held, START)

    assert anew.signing.usable(START)
    assert anew.retired == (held.signing.certificate,)


def test_a_next_one_from_the_future_waits_for_its_time() -> None:
    held = replace(new_ca(START, TIMES), next=new_authority(RENEWAL + 86400.0, 900.0))

    assert follow(held, RENEWAL) is held
    assert follow(held, START + 900.0).signing not in (held.signing, held.next)


def test_what_has_expired_leaves_the_bundle() -> None:
    old = new_authority(START - 900.0, 910.0)
    held = new_ca(START, TIMES, (old.certificate, old.certificate))

    assert held.retired == (old.certificate,)
    assert follow(held, START + 11.0).retired == ()


def test_a_secret_is_read_as_it_was_written() -> None:
    for held in (new_ca(START, TIMES), in_phase_one(), follow(in_phase_one(), RENEWAL + 30.0)):
        read = read_rotation(data_of(held), where="Secret a/b")

        assert read == held
        assert read is not None
        assert read.bundle == held.bundle
        assert base64.b64decode(data_of(held)["ca.crt"]) == held.bundle


@pytest.mark.parametrize("broken", ["tls.crt", "tls.key", "next.key"])
@pytest.mark.parametrize("value", [None, "", "%", base64.b64encode(b"x").decode()])
def test_a_secret_that_is_broken_holds_nothing(broken: str, value: str | None) -> None:
    data = data_of(in_phase_one())
    if value is None:
        del data[broken]
    else:
        data[broken] = value

    assert read_rotation(data, where="Secret a/b") is None


def test_a_bundle_that_is_broken_is_made_of_what_signs() -> None:
    held = in_phase_one()
    data = {**data_of(held), "ca.crt": ""}

    assert read_rotation(data, where="Secret a/b") == held


def test_an_empty_secret_may_be_filled_and_somebody_elses_not() -> None:
    assert read_rotation({}, where="Secret a/b") is None
    with pytest.raises(
        ConfigError, match=r"Secret a/b: the Secret belongs to something else .* give another --ca-secret"
    ):
        read_rotation({"tls.crt": "eA==", "tls.key": "eA=="}, where="Secret a/b")

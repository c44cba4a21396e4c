"""The server's certificate: loaded, replaced and refused."""

from __future__ import annotations

import asyncio
import base64
import functools
import logging
import ssl
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding
from prometheus_client import CollectorRegistry

from injector.errors import ConfigError
from injector.metrics import Metrics
from injector.regularfiles import read_file
from injector.revisions import files
from injector.webhook.tls import certificate as tls_certificate
from injector.webhook.tls import certificatesource as tls_source
from injector.webhook.tls.certificate import Certificate, CertificateFiles, ClientAuthority, Pair, read_pair
from injector.webhook.tls.certificatesource import FAILURE, SUCCESS, FileSource, Handshakes
from tests.cases import cases
from tests.cluster.fakes import in_fake_time
from tests.held import LOOKS, few_failures_held
from tests.tasks import running, until
from tests.webhook.certificates import (
    BAD_PAIRS,
    Issued,
    MountedSecret,
    Order,
    authority,
    ec_key,
    issue,
    pem_of,
    rsa_key,
    write_certificate,
)
from tests.webhook.tlspair import shown_by

HOUR = 3600.0
LIMIT = 60.0


@pytest.fixture
def secret(tmp_path: Path) -> MountedSecret:
    return MountedSecret(tmp_path)


def test_a_certificate_with_its_key_serves_tls_from_1_2_on(secret: MountedSecret) -> None:
    issued = secret.put()

    source = secret.source()

    assert source.context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert source.context.verify_mode is ssl.CERT_NONE
    assert (source.certificate.fingerprint, source.fault(), source.error) == (issued.fingerprint, "", None)


@pytest.mark.parametrize(("missing", "flag"), [("tls.crt", "--tlsCertFile"), ("tls.key", "--tlsKeyFile")])
def test_a_missing_file_is_named_with_its_flag(tmp_path: Path, missing: str, flag: str) -> None:
    certificate, key = write_certificate(tmp_path)
    (tmp_path / missing).unlink()

    with pytest.raises(ConfigError, match=f"{missing}: cannot be read: No such file or directory; correct {flag}"):
        FileSource(CertificateFiles(certificate, key))


@pytest.mark.parametrize("hanging", ["tls.crt", "ca.crt"])
def test_a_read_that_hangs_at_start_or_later_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hanging: str
) -> None:
    certificate, key = write_certificate(tmp_path)
    (tmp_path / "ca.crt").write_bytes(certificate.read_bytes())
    ends = threading.Event()

    def hang(path: Path) -> bytes:
        assert path.name != hanging or ends.wait(LIMIT)
        return read_file(path)

    monkeypatch.setattr(files, "READ_TIMEOUT", 0.05)
    for module in (tls_certificate, tls_source):
        monkeypatch.setattr(module, "read_file", hang)

    def start() -> FileSource:
        return FileSource(
            CertificateFiles(certificate, key), handshakes=Handshakes(ClientAuthority(tmp_path / "ca.crt"))
        )

    with pytest.raises(ConfigError, match=rf"{hanging}: the .* cannot be read within 0\.05 s; check the volume"):
        start()
    ends.set()
    source = start()
    ends.clear()
    assert [source.poll(), source.poll()] == ["failure", None]
    ends.set()


@pytest.mark.parametrize(
    ("order", "says"),
    [
        (Order(until=-0.5), "it expired at .*; have it renewed, or correct the clock"),
        (Order(since=1), "it is not valid before .*; have it"),
    ],
)
def test_a_certificate_that_is_out_of_its_dates_cannot_be_started_with(
    secret: MountedSecret, order: Order, says: str
) -> None:
    secret.put(order)

    with pytest.raises(ConfigError, match=rf"tls\.crt: {says}"):
        secret.source()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(("before", "after"), [(ec_key, rsa_key), (rsa_key, ec_key)])
def test_another_kind_of_key_leaves_nothing_of_the_one_before(
    secret: MountedSecret,
    before: Callable[[], Any],
    after: Callable[[], Any],
    version: ssl.TLSVersion,
) -> None:
    secret.put(Order(key=before))
    source, client = secret.source(), secret.client()
    client.minimum_version = client.maximum_version = version
    issued = secret.put(Order(key=after))

    source.poll()

    assert shown_by(source.context, client) == issued.fingerprint


@pytest.mark.parametrize("fault", BAD_PAIRS)
def test_a_bad_pair_keeps_the_last_good_one_until_it_is_repaired(
    secret: MountedSecret, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    good = secret.put()
    source, client = secret.source(), secret.client()

    BAD_PAIRS[fault](secret)
    outcomes = [source.poll() for _ in range(3)]

    assert outcomes == [FAILURE, None, None]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert fault in caplog.text
    assert "BEGIN" not in caplog.text
    assert fault in source.status()["error"]
    assert (source.status()["valid"], source.fault()) == (False, "")
    assert shown_by(source.context, client) == good.fingerprint

    repaired = secret.put()

    assert source.poll() == SUCCESS
    assert shown_by(source.context, client) == repaired.fingerprint
    assert (source.status()["valid"], source.status()["error"]) == (True, None)


@pytest.mark.parametrize("fault", BAD_PAIRS)
def test_a_bad_pair_that_stays_takes_no_memory(
    secret: MountedSecret, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret.put(Order(until=48))
    source = secret.source()
    BAD_PAIRS[fault](secret)
    source.poll()
    # The files do not change any more, so they need not be read each time.
    monkeypatch.setattr(tls_source, "_read", functools.cache(tls_source._read))

    with few_failures_held():
        for _ in range(LOOKS):
            secret.now += 1.0
            source.poll()
            if fault != "it is not valid before":
                assert source.error is not None


def test_putting_the_pair_in_use_back_ends_the_error(secret: MountedSecret) -> None:
    good = secret.put()
    source = secret.source()
    secret.put_bytes(b"garbage", good.key_pem)

    outcomes = [source.poll()]
    secret.put_bytes(good.chain_pem, good.key_pem)
    outcomes.append(source.poll())
    secret.put_bytes(b"garbage", good.key_pem)
    outcomes.append(source.poll())

    assert outcomes == [FAILURE, None, FAILURE]


def test_each_bad_pair_is_told_once(secret: MountedSecret, caplog: pytest.LogCaptureFixture) -> None:
    good = secret.put()
    source = secret.source()

    for content in (b"one", b"two"):
        secret.put_bytes(content, good.key_pem)
        source.poll()
        source.poll()

    assert len(caplog.records) == 2


def test_a_bad_pair_that_stays_is_checked_once(secret: MountedSecret, monkeypatch: pytest.MonkeyPatch) -> None:
    good, checked = secret.put(), list[Pair]()
    source = secret.source()

    def counted(pair: Pair, paths: CertificateFiles) -> Certificate:
        checked.append(pair)
        return read_pair(pair, paths)

    monkeypatch.setattr(tls_source, "read_pair", counted)
    secret.put_bytes(b"garbage", good.key_pem)
    source.poll()
    source.poll()

    assert (len(checked), str(source.error).count("not a PEM certificate")) == (1, 1)


def test_a_certificate_that_is_not_valid_yet_is_used_once_it_is(secret: MountedSecret) -> None:
    secret.put()
    source = secret.source()
    issued = secret.put(Order(since=1))
    early = source.poll()

    secret.now += 1.5 * HOUR

    assert (early, source.poll()) == (FAILURE, SUCCESS)
    assert source.certificate.fingerprint == issued.fingerprint


def test_an_expired_certificate_is_reported_and_may_be_followed_by_any_name(
    secret: MountedSecret,
) -> None:
    secret.put()
    source = secret.source()
    secret.now += 25 * HOUR
    expired = source.fault()

    secret.put(Order(names=("other.example",), until=100))

    assert expired.startswith("the certificate cannot be used: it expired at ")
    assert source.poll() == SUCCESS
    assert source.fault() == ""


def test_what_was_checked_is_what_is_served_though_the_files_change_meanwhile(
    secret: MountedSecret, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret.put()
    source = secret.source()
    checked = secret.put()
    newest: list[Issued] = []
    load = ssl.SSLContext.load_cert_chain

    def change_and_load(self: ssl.SSLContext, *arguments: Any, **named: Any) -> None:
        if not newest:
            newest.append(secret.put())
        load(self, *arguments, **named)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", change_and_load)

    assert source.poll() == SUCCESS
    assert shown_by(source.context, secret.client()) == source.certificate.fingerprint == checked.fingerprint
    assert source.poll() == SUCCESS
    assert source.certificate.fingerprint == newest[0].fingerprint


def test_a_swap_between_the_two_files_is_no_fault(secret: MountedSecret, monkeypatch: pytest.MonkeyPatch) -> None:
    secret.put()
    source = secret.source()
    newest: list[Issued] = []

    def read_and_change(path: Path) -> bytes:
        content = read_file(path)
        if not newest:
            newest.append(secret.put())
        return content

    monkeypatch.setattr(tls_source, "read_file", read_and_change)

    assert source.poll() == SUCCESS
    assert source.certificate.fingerprint == newest[0].fingerprint


def test_what_openssl_refuses_is_a_bad_pair(secret: MountedSecret, monkeypatch: pytest.MonkeyPatch) -> None:
    secret.put()
    source = secret.source()
    secret.put()

    def refuse(*_: Any, **__: Any) -> None:
        raise ssl.SSLError(1, "[SSL: EE_KEY_TOO_SMALL] ee key too small")

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", refuse)

    assert source.poll() == FAILURE
    assert "OpenSSL rejects it" in str(source.error)


async def test_a_new_pair_is_used_and_a_bad_one_is_counted(
    secret: MountedSecret, metrics: Metrics, collector: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted(outcome: str) -> float:
        return collector.get_sample_value("injector_certificate_reloads_total", {"outcome": outcome}) or 0.0

    secret.put()
    source = FileSource(secret.files, interval=0.01, clock=lambda: secret.now)
    async with running(source.follow(metrics)):
        secret.put(Order(until=48))
        await until(lambda: counted(SUCCESS) == 1)
        secret.put_bytes(b"garbage", b"")
        await until(lambda: counted(FAILURE) == 1)
        monkeypatch.setattr(source, "poll", Path("/nope").stat)
        await until(lambda: counted(FAILURE) > 1)

    assert counted(SUCCESS) == 1
    expiry = collector.get_sample_value("injector_certificate_expiry_timestamp_seconds")
    assert expiry == source.certificate.not_after


async def test_files_that_have_not_changed_are_not_read(
    secret: MountedSecret, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret.put()
    source = FileSource(secret.files, interval=0.01, clock=lambda: secret.now)
    polls: list[str | None] = []
    changes: list[int] = []
    poll = source.poll
    source.changed = lambda: changes.append(len(polls))

    def counted() -> str | None:
        polls.append(poll())
        return polls[-1]

    monkeypatch.setattr(source, "poll", counted)
    async with running(source.follow(metrics)):
        await until(lambda: len(polls) == 1)  # the first look reads, since nothing is known yet
        await asyncio.sleep(0.1)
        assert len(polls) == 1
        secret.put(Order(until=48))
        await until(lambda: changes)
        await asyncio.sleep(0.1)

    assert polls[0] is None
    assert [outcome for outcome in polls if outcome] == [SUCCESS]
    assert len(polls) <= 3  # the folder and its files may change in two looks


@in_fake_time
async def test_an_interval_of_nought_never_looks_again(secret: MountedSecret, metrics: Metrics) -> None:
    secret.put()

    await FileSource(secret.files, interval=0.0).follow(metrics)

    assert asyncio.get_running_loop().time() == 0.0


def test_the_status_has_the_certificate_and_never_the_key(secret: MountedSecret) -> None:
    issued = secret.put()
    source = secret.source()

    assert source.status() == {
        "valid": True,
        "error": None,
        "names": ["localhost"],
        "notBefore": source.certificate.not_before,
        "notAfter": source.certificate.not_after,
        "fingerprint": issued.fingerprint,
        "loadedAt": secret.now,
    }


FILES = CertificateFiles(Path("tls.crt"), Path("tls.key"), Path("ca.crt"))
GOOD = issue()


def pair_of(issued: Issued, root: Issued | None = None) -> Pair:
    return Pair(issued.chain_pem, issued.key_pem, None if root is None else root.chain_pem)


def test_a_pair_tells_its_names_its_dates_and_its_fingerprint() -> None:
    order = Order(names=("a.example", "b.example", "10.0.0.1", "2001:db8::1"), since=-2, until=5)
    issued = issue(order)

    pair = read_pair(pair_of(issued), FILES)

    assert pair.names == order.names
    assert (pair.not_before, pair.not_after) == pytest.approx(
        (order.now.timestamp() - 7200, order.now.timestamp() + 18000), abs=1
    )
    assert pair.fingerprint == issued.fingerprint


@pytest.mark.parametrize("key", [ec_key, rsa_key])
def test_keys_of_every_usual_kind_are_read(key: object) -> None:
    assert read_pair(pair_of(issue(Order(key=key))), FILES).names == ("localhost",)  # type: ignore[arg-type]


def test_a_certificate_of_the_authority_and_one_of_an_intermediate_of_it_are_good() -> None:
    root = authority()
    between = authority("between")
    leaf = issue(issuer=between)
    below = issue(issuer=root)

    assert read_pair(pair_of(below, root), FILES)
    assert read_pair(Pair(leaf.chain_pem + between.chain_pem, leaf.key_pem, between.chain_pem), FILES)


def _encrypted(issued: Issued) -> bytes:
    return pem_of(issued.key, BestAvailableEncryption(b"password"))


def patched(issued: Issued, old: str, new: str) -> bytes:
    """The certificate in PEM, with other bytes in it, both in hexadecimal."""
    der = issued.certificate.public_bytes(Encoding.DER)
    assert bytes.fromhex(old) in der
    text = base64.encodebytes(der.replace(bytes.fromhex(old), bytes.fromhex(new), 1))
    return b"-----BEGIN CERTIFICATE-----\n" + text + b"-----END CERTIFICATE-----\n"


P_256, OTHER_CURVE = "06082A8648CE3D030107", "06082A8648CE3D030155"
VERSION_3, VERSION_10 = "A003020102", "A003020109"


def broken() -> dict[str, tuple[Pair, str]]:
    """Pairs that cannot be used, and what is said of each."""
    other, root = issue(), authority()
    chain, key = GOOD.chain_pem, GOOD.key_pem
    return {
        "no PEM": (Pair(b"garbage", key), "tls.crt: not a PEM certificate; give a certificate chain"),
        "an empty certificate": (Pair(b"", key), "tls.crt: not a PEM certificate"),
        "half a certificate": (Pair(chain[: len(chain) // 2], key), "tls.crt: not a PEM certificate"),
        "half an intermediate": (Pair(chain + chain[: len(chain) // 2], key), "tls.crt: "),
        "no PEM as key": (Pair(chain, b"garbage"), "tls.key: not a PEM key; give the unencrypted key of tls.crt"),
        "half a key": (Pair(chain, key[: len(key) // 2]), "tls.key: not a PEM key"),
        "an encrypted key": (Pair(chain, _encrypted(GOOD)), "tls.key: it is encrypted; give the unencrypted key"),
        "an unknown kind of key": (
            Pair(patched(GOOD, P_256, OTHER_CURVE), key),
            "tls.crt: the kind of its key is not supported; have it issued with",
        ),
        "an unknown version": (Pair(patched(GOOD, VERSION_3, VERSION_10), key), "tls.crt: not a PEM certificate"),
        "an authority with an unknown kind of key": (
            replace(pair_of(issue(issuer=root)), authority=patched(root, P_256, OTHER_CURVE)),
            "ca.crt: it did not sign the certificate of tls.crt; give",
        ),
        "another's key": (
            Pair(chain, other.key_pem),
            "tls.key: the key belongs to another certificate; give the key of",
        ),
        "no name": (pair_of(issue(Order(names=()))), "tls.crt: it has no DNS name, and API servers ignore"),
        "another authority": (pair_of(GOOD, root), "ca.crt: it did not sign the certificate of tls.crt; give"),
        "an authority that is no PEM": (Pair(chain, key, b"garbage"), "ca.crt: not a PEM certificate"),
    }


BROKEN = broken()


@pytest.mark.parametrize(("pair", "says"), BROKEN.values(), ids=BROKEN)
def test_a_pair_that_cannot_be_used_is_refused_with_the_file_and_what_to_do(pair: Pair, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_pair(pair, FILES)

    assert str(caught.value).startswith(says)
    assert caught.value.hint


@cases("now", "says")
def test_a_certificate_is_good_within_its_dates(now: float, says: str) -> None:
    assert Certificate(("a",), 100.0, 200.0, "f").fault(now) == says


def test_a_certificate_is_told_in_one_line() -> None:
    assert str(Certificate(("a", "b"), 0.0, 200.0, "f00d")) == "for a, b, until 1970-01-01T00:03:20Z, SHA-256 f00d"

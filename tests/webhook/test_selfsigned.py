"""The Secret of the generated authority, which replicas share."""

from __future__ import annotations

import asyncio
import base64
import itertools
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from injector.cluster.resources import SECRETS
from injector.cluster.secrets import SecretStore
from injector.errors import ClusterError, ConfigError
from injector.metrics import Metrics
from injector.webhook.tls.certificate import read_certificates
from injector.webhook.tls.certificatesource import FAILURE, SUCCESS, Handshakes
from injector.webhook.tls.selfsigned import (
    BundleRollout,
    CaRotation,
    CaSecret,
    ExternalRollout,
    Lifetimes,
    SelfSigned,
    advance,
    data_of,
    new_ca,
    service_names,
)
from tests.cluster.fakeapi import FakeApi, refusal
from tests.cluster.fakes import Observed, in_fake_time, skip
from tests.held import few_failures_held
from tests.tasks import running
from tests.webhook.conftest import Clock

RETRIES = (1.0, 2.0, 4.0)

START = 1e9
TIMES = Lifetimes()
DAY = 86_400
EXPIRY = "injector_certificate_expiry_timestamp_seconds"


class Rollout(BundleRollout):
    """A rollout that a test completes."""

    everywhere = False

    def is_trusted(self, bundle: bytes) -> bool:
        assert bundle
        return self.everywhere


@pytest.fixture(autouse=True)
def no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits have no random part."""
    monkeypatch.setattr("random.random", lambda: 0.0)


@pytest.fixture
def clock() -> Clock:
    return Clock(START)


@pytest.fixture
def rollout() -> Rollout:
    return Rollout()


@pytest.fixture
def certificates(clock: Clock, rollout: Rollout) -> SelfSigned:
    return SelfSigned(service_names("injector", "mesh"), rollout, clock=clock)


def issued_by(certificates: SelfSigned, held: CaRotation) -> bool:
    """Whether what is served is signed by the authority that signs."""
    assert certificates.loaded is not None
    (leaf,) = read_certificates(certificates.loaded.pair.chain)
    return leaf.issuer == held.signing.certificate.subject


def test_a_service_has_the_two_names_that_it_is_called_by() -> None:
    assert service_names("injector", "mesh") == ("injector.mesh.svc", "injector.mesh.svc.cluster.local")


def test_before_there_is_an_authority_there_is_no_certificate(certificates: SelfSigned) -> None:
    assert (certificates.renew_if_due(), certificates.certificate, certificates.bundle, certificates.issuers) == (
        None,
        None,
        None,
        (),
    )
    assert certificates.fault() == "there is no certificate yet: the Secret of the CA has not been read"
    assert certificates.status() == {"valid": False, "error": certificates.fault()}


def test_with_an_authority_there_is_one_for_a_week(certificates: SelfSigned) -> None:
    held = new_ca(START, TIMES)
    certificates.use_rotation(held)

    outcome = certificates.renew_if_due()

    assert (outcome, certificates.fault(), certificates.bundle) == (SUCCESS, "", held.bundle)
    assert certificates.certificate is not None
    assert certificates.certificate.names == ("injector.mesh.svc", "injector.mesh.svc.cluster.local")
    assert certificates.certificate.not_after == START + 7 * DAY
    assert certificates.status()["authorityNotAfter"] == START + 365 * DAY
    assert (certificates.status()["valid"], certificates.status()["error"]) == (True, None)


def test_it_is_renewed_at_two_thirds_of_its_life_and_not_before(certificates: SelfSigned, clock: Clock) -> None:
    certificates.use_rotation(new_ca(START, TIMES))
    certificates.renew_if_due()
    renewals = []

    for days in (1.0, 4.66, 4.67, 4.68):
        clock.now = START + days * DAY
        renewals.append(certificates.renew_if_due())

    assert renewals == [None, None, SUCCESS, None]


@pytest.mark.parametrize("jump", [30 * DAY, 8 * DAY, -1 * DAY, -30 * DAY])
def test_a_clock_that_jumps_is_followed_at_the_next_look(certificates: SelfSigned, clock: Clock, jump: float) -> None:
    certificates.use_rotation(new_ca(START - 100 * DAY, TIMES))
    certificates.renew_if_due()

    clock.now += jump
    before = certificates.fault()
    outcome = certificates.renew_if_due()

    assert "cannot be used" in before
    assert (outcome, certificates.fault()) == (SUCCESS, "")
    clock.now = START
    certificates.renew_if_due()
    assert certificates.fault() == ""


def test_a_new_authority_signs_once_the_bundle_is_everywhere(
    certificates: SelfSigned, clock: Clock, rollout: Rollout
) -> None:
    first = new_ca(START, TIMES)
    certificates.use_rotation(first)
    certificates.renew_if_due()
    second = new_ca(START + 1, TIMES, [first.signing.certificate])
    certificates.use_rotation(second)

    waits = certificates.renew_if_due()
    served_meanwhile = certificates.issuers
    rollout.everywhere = True

    assert (waits, issued_by(certificates, first)) == (None, True)
    assert served_meanwhile == (first.signing.certificate, second.signing.certificate)
    assert (certificates.renew_if_due(), issued_by(certificates, second)) == (SUCCESS, True)
    assert certificates.issuers == (second.signing.certificate, first.signing.certificate)
    clock.now += 1
    assert certificates.renew_if_due() is None


def test_what_is_due_meanwhile_is_still_signed_by_the_former_authority(certificates: SelfSigned, clock: Clock) -> None:
    first = new_ca(START, TIMES)
    certificates.use_rotation(first)
    certificates.renew_if_due()
    certificates.use_rotation(new_ca(START, TIMES, [first.signing.certificate]))

    clock.now += 5 * DAY

    assert (certificates.renew_if_due(), issued_by(certificates, first)) == (SUCCESS, True)


def test_a_former_authority_that_has_expired_signs_nothing(certificates: SelfSigned, clock: Clock) -> None:
    first = new_ca(START, TIMES)
    certificates.use_rotation(first)
    certificates.renew_if_due()
    clock.now = START + 365 * DAY
    second = advance(first, TIMES, now=clock.now, trusted=False)

    certificates.use_rotation(second)

    assert (certificates.renew_if_due(), issued_by(certificates, second), certificates.fault()) == (SUCCESS, True, "")


def test_an_authority_that_cannot_be_used_makes_no_certificate(certificates: SelfSigned, clock: Clock) -> None:
    certificates.use_rotation(new_ca(START, TIMES))
    certificates.renew_if_due()

    clock.now = START + 400 * DAY

    assert certificates.renew_if_due() is None
    assert "it expired at" in certificates.fault()
    assert certificates.status()["valid"] is False


@in_fake_time
async def test_it_is_looked_at_again_and_again_and_counted(
    certificates: SelfSigned,
    clock: Clock,
    metrics: Metrics,
    collector: CollectorRegistry,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken() -> str | None:
        raise RuntimeError("PRIVATE")

    async with running(certificates.follow(metrics)):
        await asyncio.sleep(1.0)
        certificates.use_rotation(new_ca(START, TIMES))
        await asyncio.sleep(1.0)
        clock.now += 5 * DAY
        await asyncio.sleep(20.0)
        monkeypatch.setattr(certificates, "renew_if_due", broken)
        await asyncio.sleep(10.0)

    reloads = "injector_certificate_reloads_total"
    assert [collector.get_sample_value(reloads, {"outcome": outcome}) for outcome in (SUCCESS, FAILURE)] == [2, 1]
    assert collector.get_sample_value(EXPIRY) == START + 12 * DAY
    assert collector.get_sample_value("injector_ca_expiry_timestamp_seconds") == START + 365 * DAY


def test_nothing_that_is_logged_or_shown_holds_a_key(
    certificates: SelfSigned, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    held = new_ca(START, TIMES)
    certificates.use_rotation(held)
    certificates.renew_if_due()
    assert certificates.loaded is not None

    said = caplog.text + str(certificates.status()) + repr(held) + repr(certificates.loaded.certificate)

    assert "new certificate: for injector.mesh.svc" in said
    assert "PRIVATE" not in said
    for key in (held.signing.key_pem, certificates.loaded.pair.key):
        assert key.split(b"\n")[1].decode() not in said


def test_other_clients_are_taken_up_without_a_new_certificate(clock: Clock, rollout: Rollout) -> None:
    polled = iter([False, True, None])
    clients: Any = SimpleNamespace(poll=lambda: next(polled), require=lambda _: None)
    handshakes = Handshakes(clients)
    certificates = SelfSigned(("a",), rollout, handshakes=handshakes, clock=clock)
    certificates.use_rotation(new_ca(START, TIMES))
    certificates.renew_if_due()
    first: Any = handshakes.current

    outcomes = [
        certificates.renew_if_due(),
        handshakes.current is first,
        certificates.renew_if_due(),
        handshakes.current is first,
    ]

    assert outcomes == [None, True, SUCCESS, False]
    assert certificates.renew_if_due() == FAILURE


@in_fake_time
async def test_a_new_authority_is_used_at_once_and_reported(certificates: SelfSigned, metrics: Metrics) -> None:
    changes: list[bytes | None] = []
    certificates.changed = lambda: changes.append(certificates.bundle)

    async with running(certificates.follow(metrics)):
        await asyncio.sleep(1.0)
        held = new_ca(START, TIMES)
        certificates.use_rotation(held)
        certificates.use_rotation(held)
        await asyncio.sleep(0.1)

        assert certificates.certificate is not None
        assert changes == [held.bundle]


@in_fake_time
async def test_api_servers_trust_a_bundle_some_time_after_every_webhook_has_it() -> None:
    rollout = BundleRollout(delay=5.0)
    rollout.note(b"a")

    before = rollout.is_trusted(b"a")
    skip(5.0)
    rollout.note(b"a")

    assert (before, rollout.is_trusted(b"a"), rollout.is_trusted(b"b")) == (False, True, False)


@in_fake_time
async def test_the_wait_starts_again_if_a_webhook_loses_the_bundle() -> None:
    rollout = BundleRollout(delay=5.0)
    rollout.note(b"a")
    skip(10.0)
    rollout.note(None)

    lost = rollout.is_trusted(b"a")
    rollout.note(b"a")

    assert (lost, rollout.is_trusted(b"a")) == (False, False)
    skip(5.0)
    assert rollout.is_trusted(b"a")


def test_an_unknown_bundle_is_not_trusted() -> None:
    assert not BundleRollout(delay=0.0).is_trusted(b"a")


@in_fake_time
async def test_an_external_bundle_is_trusted_some_time_after_the_first_question() -> None:
    rollout = ExternalRollout(delay=600.0)

    first = rollout.is_trusted(b"a")
    skip(600.0)

    assert (first, rollout.is_trusted(b"a"), rollout.is_trusted(b"b")) == (False, True, False)


SHORT = Lifetimes(authority=900.0, leaf=60.0, overlap=30.0)
KEY = (SECRETS.plural, "mesh", "injector-ca")


class CompleteRollout(BundleRollout):
    """A rollout that is complete."""

    def is_trusted(self, bundle: bytes) -> bool:
        return bool(bundle)


@dataclass
class Replica:
    """One injector, as far as its CA goes; its wall clock is the fake loop's."""

    api: FakeApi
    offset: float = START
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        rollout = CompleteRollout()
        self.certificates = SelfSigned(("injector.mesh.svc",), rollout, times=SHORT, clock=self.now)
        store = SecretStore(self.api, "mesh", "injector-ca")
        self.metrics = Observed()
        self.secret = CaSecret(store, self.certificates, self.metrics)

    def now(self) -> float:
        return self.offset + asyncio.get_running_loop().time()

    async def run(self, seconds: float) -> None:
        """Follow the Secret for so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.secret.follow(self.ready)


def bundle_of(api: FakeApi) -> bytes:
    return base64.b64decode(api.objects[KEY]["data"]["ca.crt"])


@in_fake_time
async def test_the_first_one_makes_the_authority_and_the_second_takes_it() -> None:
    api = FakeApi()
    first, second = Replica(api), Replica(api)

    await first.secret.reconcile()
    await second.secret.reconcile()

    assert first.certificates.bundle == second.certificates.bundle == bundle_of(api)
    assert api.count("create") == 1


@in_fake_time
async def test_a_secret_that_is_deleted_is_made_anew_and_trusts_what_is_still_served() -> None:
    api = FakeApi()
    replica = Replica(api)
    await replica.secret.reconcile()
    replica.certificates.renew_if_due()
    (former,) = read_certificates(bundle_of(api))
    api.drop(SECRETS, "injector-ca", "mesh")

    await replica.secret.reconcile()

    trusted = read_certificates(bundle_of(api))
    assert former in trusted
    assert len(trusted) == 2


@in_fake_time
async def test_a_secret_that_is_deleted_twice_still_trusts_other_replicas() -> None:
    api = FakeApi()
    replica = Replica(api)
    former = []
    for _ in range(2):
        await replica.secret.reconcile()
        replica.certificates.renew_if_due()
        former.append(replica.certificates.issuers[0])
        api.drop(SECRETS, "injector-ca", "mesh")

    await replica.secret.reconcile()

    assert {*former} < {*read_certificates(bundle_of(api))}
    assert len({*former}) == 2


@in_fake_time
async def test_a_secret_that_is_broken_is_written_anew() -> None:
    api = FakeApi()
    replica = Replica(api)
    await replica.secret.reconcile()
    api.objects[KEY]["data"]["tls.key"] = ""

    await replica.secret.reconcile()

    assert replica.certificates.bundle == bundle_of(api)
    assert api.count("replace") == 1


@pytest.mark.parametrize("damaged", [None, "", base64.b64encode(b"not PEM").decode()])
@in_fake_time
async def test_a_damaged_bundle_in_the_secret_is_repaired_and_nothing_else_changes(damaged: str | None) -> None:
    api = FakeApi()
    replica, other = Replica(api), Replica(api)
    await replica.secret.reconcile()
    await other.secret.reconcile()
    before = dict(api.objects[KEY]["data"])
    api.objects[KEY]["data"] = {name: value for name, value in before.items() if name != "ca.crt"}
    if damaged is not None:
        api.objects[KEY]["data"]["ca.crt"] = damaged

    await replica.secret.reconcile()
    await other.secret.reconcile()

    assert api.objects[KEY]["data"] == before
    assert api.count("replace") == 1
    assert replica.certificates.bundle == other.certificates.bundle == bundle_of(api)


@in_fake_time
async def test_a_damaged_bundle_is_repaired_with_the_known_retired_authorities() -> None:
    api = FakeApi()
    replica = Replica(api)
    await replica.secret.reconcile()
    replica.certificates.renew_if_due()
    (former,) = read_certificates(bundle_of(api))
    api.drop(SECRETS, "injector-ca", "mesh")
    await replica.secret.reconcile()
    whole = bundle_of(api)
    api.objects[KEY]["data"]["ca.crt"] = ""

    await replica.secret.reconcile()

    assert bundle_of(api) == whole
    assert former in read_certificates(whole)


@in_fake_time
async def test_an_authority_is_replaced_in_two_phases_by_the_clock() -> None:
    api = FakeApi()
    replica = Replica(api)
    serials: list[int] = []
    for end in (599.0, 40.0, 40.0, 100.0):
        await replica.run(end)
        serials.append(len(read_certificates(bundle_of(api))))
        serials.append(api.count("replace"))

    assert serials == [1, 0, 2, 1, 2, 2, 1, 3]


@in_fake_time
async def test_it_is_read_every_fifteen_seconds() -> None:
    api = FakeApi()

    await Replica(api).run(52.5)

    assert [moment for moment, call in api.calls if call == "get"] == [0.0, 15.0, 30.0, 45.0]


@in_fake_time
async def test_an_api_server_that_is_away_is_asked_ever_more_rarely_and_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = FakeApi()
    replica = Replica(api)
    api.fault = refusal("unreachable")

    await replica.run(12.0)
    assert "told unreachable" in replica.certificates.fault()

    moments = [moment for moment, _ in api.calls]
    assert [after - before for before, after in itertools.pairwise(moments)] == [*RETRIES, RETRIES[-1]]
    assert not replica.ready.is_set()

    api.fault = None
    await replica.run(1.0)
    assert replica.ready.is_set()

    assert [record.levelno for record in caplog.records if record.levelno >= logging.WARNING] == [logging.WARNING]


@pytest.mark.parametrize("reason", ["forbidden"])
@in_fake_time
async def test_at_the_start_what_waiting_does_not_mend_is_raised_and_later_it_is_not(reason: str) -> None:
    api = FakeApi()
    api.fault = refusal(reason, 403)
    with pytest.raises(ClusterError, match="told forbidden"):
        await Replica(api).run(60.0)

    api.fault = None
    replica = Replica(api)
    await replica.run(1.0)
    api.fault = refusal(reason, 403)
    await replica.run(60.0)
    assert replica.certificates.bundle == bundle_of(api)


@in_fake_time
async def test_what_nobody_foresaw_is_told_without_its_text_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    api = FakeApi(fault=RuntimeError("SECRET"))
    replica = Replica(api)
    task = asyncio.create_task(replica.run(60.0))
    await asyncio.sleep(0.5)

    api.fault = None
    await task

    assert replica.certificates.bundle == bundle_of(api)

    assert "RuntimeError at " in caplog.text
    assert "SECRET" not in caplog.text


@in_fake_time
async def test_a_secret_that_is_somebody_elses_is_refused_and_stays() -> None:
    api = FakeApi()
    theirs = {"tls.crt": "eA==", "tls.key": "eA=="}
    api.put(SECRETS, {"metadata": {"name": "injector-ca", "namespace": "mesh"}, "data": theirs})

    with pytest.raises(ConfigError, match="give another --ca-secret"):
        await Replica(api).run(60.0)

    assert api.objects[KEY]["data"] == theirs


@in_fake_time
async def test_a_secret_that_becomes_somebody_elses_is_reported_until_it_is_gone() -> None:
    api = FakeApi()
    replica = Replica(api)
    async with running(replica.run(DAY)):
        await asyncio.sleep(1.0)
        replica.certificates.renew_if_due()
        assert (replica.metrics.synced, replica.certificates.status()["error"]) == ({"secrets": True}, None)

        api.put(SECRETS, {**api.objects[KEY], "data": {"a": "eA=="}})
        await asyncio.sleep(15.0)

        assert (replica.metrics.synced, replica.metrics.faults[0]) == ({"secrets": False}, ("secrets", "foreign"))
        status = replica.certificates.status()
        assert (status["valid"], "belongs to something else" in status["error"]) == (False, True)
        assert replica.certificates.fault() == ""

        api.drop(SECRETS, "injector-ca", "mesh")
        await asyncio.sleep(RETRIES[-1])

        assert (replica.metrics.synced, replica.certificates.status()["error"]) == ({"secrets": True}, None)


@pytest.mark.parametrize("data", [{"ca.crt": "?"}, {"signing-since": "?"}])
@in_fake_time
async def test_a_damaged_secret_that_stays_takes_no_memory_and_is_repaired_or_reported(
    data: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    api = FakeApi()
    replica = Replica(api)
    async with running(replica.run(DAY)):
        await asyncio.sleep(60.0)
        bundle = replica.certificates.bundle

        with few_failures_held():
            api.put(SECRETS, {**api.objects[KEY], "data": data})
            await asyncio.sleep(DAY / 4)

        assert replica.certificates.bundle is not None
        repaired = "ca.crt" in api.objects[KEY]["data"] and bundle_of(api) == replica.certificates.bundle
        reported = replica.certificates.bundle == bundle and "belongs to something else" in caplog.text
        assert repaired or reported


@in_fake_time
async def test_whoever_is_always_second_ends_with_the_conflict() -> None:
    class Storm(FakeApi):
        async def get(self, *_: object, **__: object) -> dict[str, object]:
            await self._called("get", SECRETS)
            raise refusal("missing", 404)

    api = Storm()
    api.put(SECRETS, {"metadata": {"name": "injector-ca", "namespace": "mesh"}, "data": data_of(new_ca(START, SHORT))})

    with pytest.raises(ClusterError, match="told conflict"):
        await Replica(api).secret.reconcile()

    assert api.count("create") == 8


@in_fake_time
async def test_no_error_and_no_log_holds_a_key(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    api = FakeApi()
    replica = Replica(api)
    await replica.run(1.0)
    api.fault = refusal("server", 500)
    await replica.run(1.0)
    api.fault = None
    key = str(api.objects[KEY]["data"]["tls.key"])
    api.objects[KEY]["data"]["tls.crt"] = key
    await replica.run(1.0)

    assert "Secret mesh/injector-ca: created" in caplog.text
    assert "Secret mesh/injector-ca: changed" in caplog.text
    assert base64.b64decode(key).decode().splitlines()[1] not in caplog.text

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from injector.webhook.tls.ca import CaRotation, Lifetimes, advance, new_ca
from injector.webhook.tls.certificate import read_certificates
from injector.webhook.tls.selfsigned import RENEWAL_INTERVAL, BundleRollout, SelfSigned, service_names
from injector.webhook.tls.source import FAILURE, SUCCESS, Handshakes
from tests.revisions.clock import steps_between

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from injector.metrics import Metrics

START = 1e9
DAY = 86400.0
TIMES = Lifetimes()
EXPIRY = "injector_certificate_expiry_timestamp_seconds"


class Clock:
    now = START

    def __call__(self) -> float:
        return self.now


class Rollout(BundleRollout):
    """A rollout that a test completes."""

    everywhere = False

    def is_trusted(self, bundle: bytes) -> bool:
        assert bundle
        return self.everywhere


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rollout() -> Rollout:
    return Rollout()


@pytest.fixture
def certificates(clock: Clock, rollout: Rollout) -> SelfSigned:
    return SelfSigned(service_names("injector", "mesh"), rollout, clock=clock)


def issued_by(certificates: SelfSigned, held: CaRotation) -> bool:
    """Whether what is served is signed by the authority that signs."""
    assert certificates._loaded is not None
    (leaf,) = read_certificates(certificates._loaded.pair.chain)
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
    found = []

    for days in (1.0, 4.66, 4.67, 4.68):
        clock.now = START + days * DAY
        found.append(certificates.renew_if_due())

    assert found == [None, None, SUCCESS, None]


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


async def test_it_is_looked_at_again_and_again_and_counted(
    certificates: SelfSigned,
    clock: Clock,
    metrics: Metrics,
    collector: CollectorRegistry,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def move() -> None:
        clock.now += 5 * DAY

    def broken() -> str | None:
        raise RuntimeError("PRIVATE")

    pause, pauses = steps_between(
        lambda: certificates.use_rotation(new_ca(START, TIMES)),
        move,
        lambda: None,
        lambda: monkeypatch.setattr(certificates, "renew_if_due", broken),
    )

    with suppress(asyncio.CancelledError):
        await certificates.follow(metrics, sleep=pause)

    reloads = "injector_certificate_reloads_total"
    assert set(pauses) == {RENEWAL_INTERVAL}
    assert [collector.get_sample_value(reloads, {"outcome": each}) for each in (SUCCESS, FAILURE)] == [2, 1]
    assert collector.get_sample_value(EXPIRY) == START + 12 * DAY
    assert collector.get_sample_value("injector_ca_expiry_timestamp_seconds") == START + 365 * DAY


def test_nothing_that_is_logged_or_shown_holds_a_key(
    certificates: SelfSigned, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    held = new_ca(START, TIMES)
    certificates.use_rotation(held)
    certificates.renew_if_due()
    assert certificates._loaded is not None

    said = caplog.text + str(certificates.status()) + repr(held) + repr(certificates._loaded.certificate)

    assert "new certificate: for injector.mesh.svc" in said
    assert "PRIVATE" not in said
    for key in (held.signing.key_pem, certificates._loaded.pair.key):
        assert key.split(b"\n")[1].decode() not in said


def test_other_clients_are_taken_up_without_a_new_certificate(clock: Clock, rollout: Rollout) -> None:
    class Clients(Handshakes):
        answers: list[bool | None] = [False, True, None]  # noqa: RUF012 -- of this test

        def clients_changed(self) -> bool | None:
            return self.answers.pop(0)

    handshakes = Clients()
    certificates = SelfSigned(("a",), rollout, handshakes=handshakes, clock=clock)
    certificates.use_rotation(new_ca(START, TIMES))
    certificates.renew_if_due()
    first: Any = handshakes._current

    outcomes = [
        certificates.renew_if_due(),
        handshakes._current is first,
        certificates.renew_if_due(),
        handshakes._current is first,
    ]

    assert outcomes == [None, True, SUCCESS, False]
    assert certificates.renew_if_due() == FAILURE


async def test_a_new_authority_is_used_at_once_and_reported(certificates: SelfSigned, metrics: Metrics) -> None:
    changes: list[bytes | None] = []
    certificates.changed = lambda: changes.append(certificates.bundle)

    async def never(_: float) -> None:
        await asyncio.Event().wait()

    following = asyncio.create_task(certificates.follow(metrics, sleep=never))
    await asyncio.sleep(0)
    held = new_ca(START, TIMES)
    certificates.use_rotation(held)
    certificates.use_rotation(held)
    async with asyncio.timeout(20.0):
        while certificates.certificate is None:  # noqa: ASYNC110 -- it has no event
            await asyncio.sleep(0.001)

    assert changes == [held.bundle]
    following.cancel()
    await asyncio.wait([following])

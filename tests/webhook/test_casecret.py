from __future__ import annotations

import asyncio
import base64
import itertools
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from injector.cluster.reader import SECRETS
from injector.cluster.secrets import SecretStore
from injector.errors import ClusterError, ConfigError
from injector.webhook.tls.ca import Lifetimes, data_of, new_ca
from injector.webhook.tls.certificate import read_certificates
from injector.webhook.tls.selfsigned import RETRIES, SECRET_INTERVAL, BundleRollout, CaSecret, SelfSigned
from tests.cluster.fakeapi import FakeApi, refusal
from tests.cluster.fakes import in_fake_time, no_chance
from tests.held import DAY, failures_held

if TYPE_CHECKING:
    from collections.abc import Coroutine

START = 1e9
TIMES = Lifetimes(authority=900.0, leaf=60.0, overlap=30.0)
KEY = (SECRETS.plural, "mesh", "injector-ca")


class Rollout(BundleRollout):
    """A rollout that is complete."""

    def is_trusted(self, bundle: bytes) -> bool:
        return bool(bundle)


@dataclass
class Replica:
    """One injector, as far as its CA goes; its wall clock is the fake loop's."""

    api: FakeApi
    offset: float = START
    settled: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        rollout = Rollout()
        self.certificates = SelfSigned(("injector.mesh.svc",), rollout, times=TIMES, clock=self.now)
        store = SecretStore(self.api, "mesh", "injector-ca")
        self.secret = CaSecret(store, self.certificates, rollout, TIMES, clock=self.now, chance=no_chance())

    def now(self) -> float:
        return self.offset + asyncio.get_running_loop().time()

    async def run(self, seconds: float) -> None:
        """Follow the Secret for so long."""
        task = asyncio.create_task(self.secret.follow(self.settled))
        try:
            await asyncio.wait_for(asyncio.shield(task), seconds)
        except TimeoutError:
            task.cancel()
            await asyncio.wait([task])


def bundle_of(api: FakeApi) -> bytes:
    return base64.b64decode(api.objects[KEY]["data"]["ca.crt"])


def run(test: Coroutine[None, None, None]) -> None:
    in_fake_time(test)


def test_the_first_one_makes_the_authority_and_the_second_takes_it() -> None:
    async def test() -> None:
        api = FakeApi()
        first, second = Replica(api), Replica(api)

        await first.secret.reconcile()
        await second.secret.reconcile()

        assert first.certificates.bundle == second.certificates.bundle == bundle_of(api)
        assert api.count("create") == 1

    run(test())


def test_of_many_at_once_one_makes_it() -> None:
    async def test() -> None:
        api = FakeApi()
        replicas = [Replica(api) for _ in range(8)]

        await asyncio.gather(*(each.secret.reconcile() for each in replicas))

        assert {each.certificates.bundle for each in replicas} == {bundle_of(api)}
        assert api.count("create") > 1

    run(test())


def test_a_secret_that_is_deleted_is_made_anew_and_trusts_what_is_still_served() -> None:
    async def test() -> None:
        api = FakeApi()
        replica = Replica(api)
        await replica.secret.reconcile()
        replica.certificates.renew_if_due()
        (former,) = read_certificates(bundle_of(api))
        api.delete(SECRETS, "injector-ca", "mesh")

        await replica.secret.reconcile()

        trusted = read_certificates(bundle_of(api))
        assert former in trusted
        assert len(trusted) == 2

    run(test())


def test_a_secret_that_is_deleted_twice_still_trusts_what_some_other_replica_may_serve() -> None:
    async def test() -> None:
        api = FakeApi()
        replica = Replica(api)
        former = []
        for _ in range(2):
            await replica.secret.reconcile()
            replica.certificates.renew_if_due()
            former.append(replica.certificates.issuers[0])
            api.delete(SECRETS, "injector-ca", "mesh")

        await replica.secret.reconcile()

        assert {*former} < {*read_certificates(bundle_of(api))}
        assert len({*former}) == 2

    run(test())


def test_a_secret_that_is_broken_is_written_anew() -> None:
    async def test() -> None:
        api = FakeApi()
        replica = Replica(api)
        await replica.secret.reconcile()
        api.objects[KEY]["data"]["tls.key"] = ""

        await replica.secret.reconcile()

        assert replica.certificates.bundle == bundle_of(api)
        assert api.count("replace") == 1

    run(test())


def test_an_authority_is_replaced_in_two_phases_by_the_clock() -> None:
    async def test() -> None:
        api = FakeApi()
        replica = Replica(api)
        seen: list[int] = []
        for until in (599.0, 40.0, 40.0, 100.0):
            await replica.run(until)
            seen.append(len(read_certificates(bundle_of(api))))
            seen.append(api.count("replace"))

        assert seen == [1, 0, 2, 1, 2, 2, 1, 3]

    run(test())


def test_it_is_read_every_fifteen_seconds() -> None:
    async def test() -> None:
        api = FakeApi()

        await Replica(api).run(SECRET_INTERVAL * 3.5)

        assert [moment for moment, call in api.calls if call == "get"] == [0.0, 15.0, 30.0, 45.0]

    run(test())


def test_an_api_server_that_is_away_is_asked_ever_more_rarely_and_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        api = FakeApi()
        replica = Replica(api)
        api.fault = refusal("unreachable")

        await replica.run(100.0)

        moments = [moment for moment, _ in api.calls]
        assert [after - before for before, after in itertools.pairwise(moments)] == [*RETRIES, RETRIES[-1]]
        assert not replica.settled.is_set()

        api.fault = None
        await replica.run(1.0)
        assert replica.settled.is_set()

    run(test())

    assert [each.levelno for each in caplog.records if each.levelno >= logging.WARNING] == [logging.WARNING]


@pytest.mark.parametrize("reason", ["forbidden"])
def test_at_the_start_what_waiting_does_not_mend_is_raised_and_later_it_is_not(reason: str) -> None:
    async def test() -> None:
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

    run(test())


def test_what_nobody_foresaw_is_told_without_its_text_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        api = FakeApi(fault=RuntimeError("SECRET"))
        replica = Replica(api)
        task = asyncio.create_task(replica.run(60.0))
        await asyncio.sleep(0.5)

        api.fault = None
        await task

        assert replica.certificates.bundle == bundle_of(api)

    run(test())

    assert "RuntimeError at " in caplog.text
    assert "SECRET" not in caplog.text


def test_a_secret_that_is_somebody_elses_is_refused_and_stays() -> None:
    async def test() -> None:
        api = FakeApi()
        theirs = {"tls.crt": "eA==", "tls.key": "eA=="}
        api.put(SECRETS, {"metadata": {"name": "injector-ca", "namespace": "mesh"}, "data": theirs})

        with pytest.raises(ConfigError, match="give another --ca-secret"):
            await Replica(api).run(60.0)

        assert api.objects[KEY]["data"] == theirs

    run(test())


@pytest.mark.parametrize("data", [{"ca.crt": "?"}, {"signing-since": "?"}])
def test_a_damaged_secret_that_stays_for_a_day_takes_no_memory_and_is_repaired_or_reported(
    data: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        api = FakeApi()
        replica = Replica(api)
        task = asyncio.create_task(replica.run(2.0 * DAY))
        await asyncio.sleep(60.0)
        held, bundle = failures_held(), replica.certificates.bundle
        api.put(SECRETS, {**api.objects[KEY], "data": data})

        await asyncio.sleep(DAY)

        assert failures_held() <= held + 20
        assert replica.certificates.bundle is not None
        repaired = "ca.crt" in api.objects[KEY]["data"] and bundle_of(api) == replica.certificates.bundle
        reported = replica.certificates.bundle == bundle and "belongs to something else" in caplog.text
        assert repaired or reported
        task.cancel()
        await asyncio.wait([task])

    run(test())


def test_whoever_is_always_second_ends_with_the_conflict() -> None:
    class Storm(FakeApi):
        async def get(self, *_: object, **__: object) -> dict[str, object]:
            await self._called("get")
            raise refusal("missing", 404)

    async def test() -> None:
        api = Storm()
        api.put(
            SECRETS, {"metadata": {"name": "injector-ca", "namespace": "mesh"}, "data": data_of(new_ca(START, TIMES))}
        )

        with pytest.raises(ClusterError, match="told conflict"):
            await Replica(api).secret.reconcile()

        assert api.count("create") == 8

    run(test())


def test_no_error_and_no_log_holds_a_key(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def test() -> str:
        api = FakeApi()
        replica = Replica(api)
        await replica.run(1.0)
        api.fault = refusal("server", 500)
        await replica.run(1.0)
        api.fault = None
        key = str(api.objects[KEY]["data"]["tls.key"])
        api.objects[KEY]["data"]["tls.crt"] = key
        await replica.run(1.0)
        return base64.b64decode(key).decode().splitlines()[1]

    canary = in_fake_time(test())

    assert "Secret mesh/injector-ca: created" in caplog.text
    assert "Secret mesh/injector-ca: changed" in caplog.text
    assert canary not in caplog.text

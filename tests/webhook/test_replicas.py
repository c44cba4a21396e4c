"""Replicas that share an authority: they agree on one, and no API server meets a certificate that it does not trust."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import random
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.x509 import DNSName
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError
from prometheus_client import CollectorRegistry

from injector.cluster.reader import SECRETS, WEBHOOKS
from injector.cluster.secrets import SecretStore
from injector.cluster.webhooks import Target
from injector.errors import ClusterError
from injector.metrics import Metrics
from injector.webhook.tls.ca import Lifetimes
from injector.webhook.tls.cabundle import CaBundles
from injector.webhook.tls.certificate import read_certificates
from injector.webhook.tls.selfsigned import BundleRollout, CaSecret, SelfSigned, service_names
from tests.cluster.fakeapi import FakeApi, refusal, webhook_configuration
from tests.cluster.fakes import in_fake_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

START = 1.8e9
NAME = "injector.injector-system.svc"
LAG = 2.0
"""Seconds until an API server sees what was written to a webhook."""


@dataclass
class Replica:
    """One injector as far as TLS goes, by the clock of the event loop; ``ahead`` is how far its wall clock is wrong."""

    api: FakeApi
    times: Lifetimes
    ahead: float = 0.0
    seed: int = 0
    settled: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        clock, chance = asyncio.get_running_loop().time, random.Random(self.seed).random  # noqa: S311 -- jitter
        rollout = BundleRollout(clock=clock)
        self.metrics = Metrics(CollectorRegistry())
        self.certificates = SelfSigned(
            service_names("injector", "injector-system"), rollout, times=self.times, clock=self.now
        )
        store = SecretStore(self.api, "injector-system", "injector-ca")
        self.secret = CaSecret(store, self.certificates, rollout, self.times, clock=self.now, chance=chance)
        self.bundles = CaBundles(
            self.api,
            Target("injector", "injector-system"),
            lambda: self.certificates.bundle,
            rollout=rollout,
            observer=self.metrics,
            clock=clock,
            chance=chance,
        )
        self.certificates.changed = self.bundles.wake

    def now(self) -> float:
        return START + asyncio.get_running_loop().time() + self.ahead

    @property
    def authority(self) -> bytes | None:
        """The issuer of what is served now."""
        loaded = self.certificates._loaded
        return None if loaded is None else read_certificates(loaded.pair.chain)[0].issuer.public_bytes()

    def trusted_by(self, bundle: bytes, now: float) -> bool:
        """Whether whoever trusts ``bundle`` takes what is served."""
        loaded = self.certificates._loaded
        assert loaded is not None
        (leaf,) = read_certificates(loaded.pair.chain)
        policy = PolicyBuilder().store(Store([*read_certificates(bundle)]))
        verifier = policy.time(dt.datetime.fromtimestamp(now, dt.UTC)).build_server_verifier(DNSName(NAME))
        try:
            verifier.verify(leaf, [])
        except VerificationError:
            return False
        return True

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Replica]:
        async def patch(settled: asyncio.Event) -> None:
            settled.set()
            await self.bundles.follow()

        tasks = [
            asyncio.create_task(self.secret.follow(self.settled)),
            asyncio.create_task(patch(asyncio.Event())),
            asyncio.create_task(self.certificates.follow(self.metrics)),
        ]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


async def _awaited(work: Awaitable[object]) -> None:
    await work


@dataclass
class ApiServer:
    """Trusts what the webhook said some time ago."""

    api: FakeApi
    seen: deque[bytes] = field(default_factory=deque)

    def look(self, every: float) -> bytes:
        """Look each ``every`` seconds; what is trusted now."""
        webhook: dict[str, Any] = self.api.objects[WEBHOOKS.plural, "", "injector"]["webhooks"][0]
        self.seen.append(base64.b64decode(webhook["clientConfig"].get("caBundle", "")))
        return self.seen.popleft() if len(self.seen) > LAG / every else self.seen[0]


def authorities(api: FakeApi) -> tuple[Any, ...]:
    """Whom the Secret says to trust."""
    return read_certificates(
        base64.b64decode(api.objects["secrets", "injector-system", "injector-ca"]["data"]["ca.crt"])
    )


@pytest.mark.parametrize("slow", [0.0, 0.05, 1.0])
def test_64_replicas_that_start_at_once_without_a_secret_serve_one_authority_within_ten_seconds(slow: float) -> None:
    async def test() -> None:
        chance = random.Random(7)  # noqa: S311 -- delays
        api = FakeApi(delay=lambda: slow * chance.random())
        api.put(WEBHOOKS, webhook_configuration())
        replicas = [Replica(api, Lifetimes(), seed=number) for number in range(64)]
        tasks = [asyncio.create_task(_kept(each)) for each in replicas]
        await asyncio.sleep(10.0)

        assert api.count("create") > 1
        assert len(authorities(api)) == 1
        assert {each.authority for each in replicas} == {authorities(api)[0].subject.public_bytes()}
        assert ApiServer(api).look(LAG) == replicas[0].certificates.bundle
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    in_fake_time(test())


async def _kept(replica: Replica) -> None:
    async with replica.running():
        await asyncio.Event().wait()


@pytest.mark.parametrize("refused", ["get", "create"])
def test_without_the_permission_for_the_secret_each_ends_with_a_clear_error(refused: str) -> None:
    async def test() -> None:
        api = FakeApi(fault_of={refused: refusal("forbidden", 403)})
        replicas = [Replica(api, Lifetimes(), seed=number) for number in range(8)]

        ended = await asyncio.gather(*(each.secret.follow(each.settled) for each in replicas), return_exceptions=True)

        assert {str(each) for each in ended} == {"api: told forbidden; wait"}
        assert all(isinstance(each, ClusterError) for each in ended)

    in_fake_time(test())


def test_with_a_read_only_account_what_is_there_is_served() -> None:
    async def test() -> None:
        api = FakeApi()
        await Replica(api, Lifetimes()).secret.reconcile()
        api.fault_of = dict.fromkeys(("create", "replace", "patch"), refusal("forbidden", 403))
        replica = Replica(api, Lifetimes())
        api.put(WEBHOOKS, webhook_configuration())

        async with replica.running():
            await asyncio.sleep(30.0)
            assert replica.settled.is_set()
            assert replica.certificates.fault() == ""

    in_fake_time(test())


TIMES = Lifetimes(authority=900.0, leaf=90.0, overlap=60.0)
EVERY = 1.0


@pytest.mark.parametrize("events", [{}, {100: "delete", 700: "delete", 1500: "empty"}], ids=["quiet", "deletions"])
def test_through_two_generations_no_api_server_meets_what_it_does_not_trust(events: dict[int, str]) -> None:
    actions: dict[str, Callable[[FakeApi], object]] = {
        "delete": lambda api: api.delete(SECRETS, "injector-ca", "injector-system"),
        "empty": lambda api: api.objects["secrets", "injector-system", "injector-ca"]["data"].update({"tls.key": ""}),
    }

    async def test() -> None:
        api = FakeApi()
        api.put(WEBHOOKS, webhook_configuration())
        server, seen, failed = ApiServer(api), set(), 0
        async with (
            Replica(api, TIMES, seed=1).running() as one,
            Replica(api, TIMES, seed=2, ahead=1.5).running() as other,
        ):
            await asyncio.sleep(10.0)
            for second in range(1800):
                if second in events:
                    actions[events[second]](api)
                trusted = server.look(EVERY)
                failed += sum(not each.trusted_by(trusted, one.now()) for each in (one, other))
                seen |= {one.authority, other.authority}
                await asyncio.sleep(EVERY)

        assert failed == 0
        assert len(seen) >= 3
        assert len(authorities(api)) <= 3

    in_fake_time(test())


@pytest.mark.parametrize("jump", [30 * 86400.0, -86400.0])
def test_a_clock_that_jumps_and_comes_back_leaves_everybody_served(jump: float) -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(WEBHOOKS, webhook_configuration())
        server = ApiServer(api)
        async with (
            Replica(api, Lifetimes(), seed=1).running() as one,
            Replica(api, Lifetimes(), seed=2).running() as other,
        ):
            await asyncio.sleep(30.0)
            # The API server's clock jumps with it, as where both run on one machine.
            one.ahead = jump
            await asyncio.sleep(60.0)
            assert one.certificates.fault() == ""
            assert one.trusted_by(server.look(LAG), one.now())
            assert other.trusted_by(server.look(LAG), other.now())

            one.ahead = 0.0
            await asyncio.sleep(60.0)
            for each in (one, other):
                assert each.certificates.fault() == ""
                assert each.trusted_by(server.look(LAG), each.now())

    in_fake_time(test())

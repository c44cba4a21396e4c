"""Replicas that share an authority: they agree on one, and no API server meets a certificate that it does not trust."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
import random
import signal
import ssl
import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer
from cryptography.x509 import DNSName
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError
from prometheus_client import CollectorRegistry

from injector.cluster.resources import SECRETS, WEBHOOKS
from injector.cluster.secrets import SecretStore
from injector.cluster.webhooks import WebhookSelector
from injector.errors import ClusterError
from injector.metrics import Metrics
from injector.revisions.directory import read_directory
from injector.revisions.following import Reloader
from injector.revisions.registry import Registry
from injector.revisions.reload import Loader
from injector.revisions.reports import LoadReport
from injector.revisions.verify import RecentPods
from injector.webhook.handler import InjectHandler
from injector.webhook.lifecycle import Lifecycle
from injector.webhook.server import webhook_requests
from injector.webhook.tls.cabundle import CaBundles
from injector.webhook.tls.certificate import read_certificates
from injector.webhook.tls.certificatesource import FileSource
from injector.webhook.tls.selfsigned import (
    BundleRollout,
    CaRotation,
    CaSecret,
    ExternalRollout,
    Lifetimes,
    SelfSigned,
    new_authority,
    new_ca,
    service_names,
)
from tests.cluster.fakeapi import FakeApi, refusal, webhook_configuration
from tests.cluster.fakes import in_fake_time
from tests.factories import make_pod, make_review, proxy_of
from tests.handlers import patched
from tests.mounts import mount
from tests.revisions.clock import FakeClock
from tests.revisions.fakes import CONFIG
from tests.tasks import running, until
from tests.webhook.certificates import BAD_PAIRS, MountedSecret, Order, ec_key, rsa_key
from tests.webhook.chaos import EVENTS, EVERY, SECONDS
from tests.webhook.conftest import Client, ClientFactory

START = 1.8e9
NAME = "injector.injector-system.svc"
LAG = 2.0
"""Seconds until an API server sees what was written to a webhook."""


@pytest.fixture(autouse=True)
def same_jitter() -> None:
    """Each run of a test has the same jitter."""
    random.seed(7)


@dataclass
class Replica:
    """One injector as far as TLS goes, by the clock of the event loop; ``ahead`` is how far its wall clock is wrong."""

    api: FakeApi
    times: Lifetimes
    ahead: float = 0.0
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        rollout = BundleRollout()
        self.metrics = Metrics(CollectorRegistry())
        self.certificates = SelfSigned(
            service_names("injector", "injector-system"), rollout, times=self.times, clock=self.now
        )
        store = SecretStore(self.api, "injector-system", "injector-ca")
        self.secret = CaSecret(store, self.certificates, self.metrics)
        self.bundles = CaBundles(
            self.api,
            WebhookSelector("injector", "injector-system"),
            lambda: self.certificates.bundle,
            rollout=rollout,
            metrics=self.metrics,
            refresh=self.secret.refresh,
        )
        self.certificates.changed = self.bundles.wake

    def now(self) -> float:
        return START + asyncio.get_running_loop().time() + self.ahead

    @property
    def authority(self) -> bytes | None:
        """The issuer of what is served now."""
        loaded = self.certificates.loaded
        return None if loaded is None else read_certificates(loaded.pair.chain)[0].issuer.public_bytes()

    def trusted_by(self, bundle: bytes, now: float) -> bool:
        """Whether whoever trusts ``bundle`` takes what is served."""
        loaded = self.certificates.loaded
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
        works = (
            self.secret.follow(self.ready),
            self.bundles.follow(asyncio.Event()),
            self.certificates.follow(self.metrics),
        )
        async with AsyncExitStack() as stack:
            for work in works:
                await stack.enter_async_context(running(work))
            yield self


@dataclass
class ApiServer:
    """Trusts what the webhook said some time ago."""

    api: FakeApi
    bundles: deque[bytes] = field(default_factory=deque)

    def look(self, every: float) -> bytes:
        """Look each ``every`` seconds; what is trusted now."""
        webhook: dict[str, Any] = self.api.objects[WEBHOOKS.plural, "", "injector"]["webhooks"][0]
        self.bundles.append(base64.b64decode(webhook["clientConfig"].get("caBundle", "")))
        return self.bundles.popleft() if len(self.bundles) > LAG / every else self.bundles[0]


def authorities(api: FakeApi) -> tuple[Any, ...]:
    """Whom the Secret says to trust."""
    return read_certificates(
        base64.b64decode(api.objects["secrets", "injector-system", "injector-ca"]["data"]["ca.crt"])
    )


@pytest.mark.parametrize("slow", [0.0, 0.05, 1.0])
@in_fake_time
async def test_64_replicas_without_a_secret_serve_one_authority_within_ten_seconds(
    slow: float,
) -> None:
    chance = random.Random(7)  # noqa: S311 -- delays
    api = FakeApi(delay=lambda: slow * chance.random())
    api.put(WEBHOOKS, webhook_configuration())
    async with AsyncExitStack() as stack:
        replicas = [await stack.enter_async_context(Replica(api, Lifetimes()).running()) for _ in range(64)]
        await asyncio.sleep(10.0)

        assert api.count("create") > 1
        assert len(authorities(api)) == 1
        assert {replica.authority for replica in replicas} == {authorities(api)[0].subject.public_bytes()}
        assert ApiServer(api).look(LAG) == replicas[0].certificates.bundle


@pytest.mark.parametrize("refused", ["get", "create"])
@in_fake_time
async def test_without_the_permission_for_the_secret_each_ends_with_a_clear_error(refused: str) -> None:
    api = FakeApi(fault_of={refused: refusal("forbidden", 403)})
    replicas = [Replica(api, Lifetimes()) for _ in range(8)]

    errors = await asyncio.gather(
        *(replica.secret.follow(replica.ready) for replica in replicas), return_exceptions=True
    )

    assert {str(error) for error in errors} == {"api: told forbidden; wait"}
    assert all(isinstance(error, ClusterError) for error in errors)


@in_fake_time
async def test_with_a_read_only_account_what_is_there_is_served() -> None:
    api = FakeApi()
    await Replica(api, Lifetimes()).secret.reconcile()
    api.fault_of = dict.fromkeys(("create", "replace", "patch"), refusal("forbidden", 403))
    replica = Replica(api, Lifetimes())
    api.put(WEBHOOKS, webhook_configuration())

    async with replica.running():
        await asyncio.sleep(30.0)
        assert replica.ready.is_set()
        assert replica.certificates.fault() == ""


TIMES = Lifetimes(authority=900.0, leaf=90.0, overlap=60.0)
TICK = 1.0


@pytest.mark.parametrize("events", [{}, {100: "delete", 700: "delete", 1500: "empty"}], ids=["quiet", "deletions"])
@in_fake_time
async def test_through_two_generations_no_api_server_meets_what_it_does_not_trust(events: dict[int, str]) -> None:
    actions: dict[str, Callable[[FakeApi], object]] = {
        "delete": lambda api: api.drop(SECRETS, "injector-ca", "injector-system"),
        "empty": lambda api: api.objects["secrets", "injector-system", "injector-ca"]["data"].update({"tls.key": ""}),
    }
    api = FakeApi()
    api.put(WEBHOOKS, webhook_configuration())
    server, past_authorities, failed = ApiServer(api), set(), 0
    async with Replica(api, TIMES).running() as one, Replica(api, TIMES, ahead=1.5).running() as other:
        await asyncio.sleep(10.0)
        for second in range(1800):
            if second in events:
                actions[events[second]](api)
            trusted = server.look(TICK)
            failed += sum(not replica.trusted_by(trusted, one.now()) for replica in (one, other))
            past_authorities |= {one.authority, other.authority}
            await asyncio.sleep(TICK)

    assert failed == 0
    assert len(past_authorities) >= 3
    assert len(authorities(api)) <= 3


@in_fake_time
async def test_a_replica_that_starts_after_the_secret_is_deleted_keeps_others_trusted() -> None:
    api = FakeApi(delay=lambda: 0.02)
    api.put(WEBHOOKS, webhook_configuration())
    server, every = ApiServer(api), 0.25
    rejected = dict.fromkeys(("old", "new"), 0.0)
    async with Replica(api, Lifetimes()).running() as one, Replica(api, Lifetimes()).running() as other:
        await asyncio.sleep(30.0)
        for _ in range(20):
            server.look(every)
        api.drop(SECRETS, "injector-ca", "injector-system")
        async with Replica(api, Lifetimes()).running() as new:
            await new.ready.wait()
            patches = api.count("patch")
            for _ in range(200):
                await asyncio.sleep(every)
                trusted = server.look(every)
                rejected["new"] += every * (not new.trusted_by(trusted, new.now()))
                rejected["old"] += every * (
                    not all(replica.trusted_by(trusted, replica.now()) for replica in (one, other))
                )

            assert {replica.authority for replica in (one, other)} == {new.authority}
    assert rejected["old"] <= 1.0
    assert rejected["new"] <= LAG + 1.0
    assert api.count("patch") - patches <= 6


@pytest.mark.parametrize("jump", [30 * 86400.0, -86400.0])
@in_fake_time
async def test_a_clock_that_jumps_and_comes_back_leaves_everybody_served(jump: float) -> None:
    api = FakeApi()
    api.put(WEBHOOKS, webhook_configuration())
    server = ApiServer(api)
    async with Replica(api, Lifetimes()).running() as one, Replica(api, Lifetimes()).running() as other:
        await asyncio.sleep(30.0)
        # The API server's clock jumps with it, as where both run on one machine.
        one.ahead = jump
        await asyncio.sleep(60.0)
        assert one.certificates.fault() == ""
        assert one.trusted_by(server.look(LAG), one.now())
        assert other.trusted_by(server.look(LAG), other.now())

        one.ahead = 0.0
        await asyncio.sleep(60.0)
        for replica in (one, other):
            assert replica.certificates.fault() == ""
            assert replica.trusted_by(server.look(LAG), replica.now())


ROOT = Path(__file__).resolve().parents[2]
RATE = 500.0
"""Requests a second that are asked for; half of them on new connections."""
CLIENTS = 4
POLL = min(1.0, EVERY / 4)
RELOADS = "injector_certificate_reloads_total"


REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass
class Load:
    """Clients that ask in a loop, and what came of it."""

    port: int
    trusting: Callable[[], ssl.SSLContext]
    answered: int = 0
    failed: list[str] = field(default_factory=list)
    serials: set[int] = field(default_factory=set)

    async def ask(self, *, anew: bool) -> None:
        """Ask until cancelled; each time on a new connection, or on one that is kept."""
        while True:
            try:
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", self.port, ssl=self.trusting(), server_hostname="localhost"
                )
                with closing(writer):
                    self.serials.add(int(writer.get_extra_info("peercert")["serialNumber"], 16))
                    await self._answer(reader, writer)
                    while not anew:
                        await self._answer(reader, writer)
                await writer.wait_closed()
            except (OSError, EOFError) as error:
                self.failed.append(repr(error))
                await asyncio.sleep(CLIENTS / RATE)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Ask once, and wait until the next request is due."""
        began = time.monotonic()
        writer.write(REQUEST)
        head = await reader.readuntil(b"\r\n\r\n")
        self.answered += head.startswith(b"HTTP/1.1 200 ") and await reader.readexactly(2) == b"ok"
        await asyncio.sleep(max(0.0, began + CLIENTS / RATE - time.monotonic()))


@asynccontextmanager
async def loaded(
    certificates: FileSource | SelfSigned, metrics: Metrics, trusting: Callable[[], ssl.SSLContext]
) -> AsyncIterator[Load]:
    """A port that serves with ``certificates``, and four clients of it."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=certificates.context).start()
    load = Load(int(runner.addresses[0][1]), trusting)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(runner.cleanup)
        await stack.enter_async_context(running(certificates.follow(metrics)))
        for number in range(CLIENTS):
            await stack.enter_async_context(running(load.ask(anew=bool(number % 2))))
        yield load


async def test_under_rotations_no_handshake_fails_and_every_certificate_is_served(
    tmp_path: Path, metrics: Metrics
) -> None:
    secret = MountedSecret(tmp_path)
    issued = [secret.put()]
    source, client = secret.source(POLL), secret.client()

    async with loaded(source, metrics, lambda: client) as load:
        for number in range(EVENTS - 1):
            await asyncio.sleep(EVERY)
            issued.append(secret.put(Order(key=rsa_key if number % 7 == 3 else ec_key)))
            await until(lambda: issued[-1].certificate.serial_number in load.serials)

    assert load.failed == []
    assert load.serials == {pair.certificate.serial_number for pair in issued}
    assert load.answered > EVENTS


async def test_bad_rotations_fail_no_handshake_and_each_is_counted(
    tmp_path: Path, metrics: Metrics, collector: CollectorRegistry
) -> None:
    secret = MountedSecret(tmp_path)
    good = [secret.put()]
    source, client = secret.source(POLL), secret.client()

    def counted(outcome: str) -> float:
        return collector.get_sample_value(RELOADS, {"outcome": outcome}) or 0.0

    async with loaded(source, metrics, lambda: client) as load:
        for number, bad in enumerate(BAD_PAIRS.values(), 1):
            bad(secret)
            await until(lambda: counted("failure") == number)  # noqa: B023 -- called at once
            await asyncio.sleep(SECONDS / len(BAD_PAIRS) / 2)
            assert source.certificate.fingerprint == good[-1].fingerprint
            expiry = collector.get_sample_value("injector_certificate_expiry_timestamp_seconds")
            assert expiry == good[-1].certificate.not_valid_after_utc.timestamp()
            good.append(secret.put())
            await until(lambda: counted("success") == number)  # noqa: B023 -- called at once

    assert load.failed == []
    assert counted("failure") == len(BAD_PAIRS)
    assert load.serials <= {pair.certificate.serial_number for pair in good}
    assert load.answered > len(BAD_PAIRS)


GENERATIONS = 3


async def test_a_replaced_authority_fails_no_handshake_of_clients_with_the_bundle(
    metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("injector.webhook.tls.selfsigned.RENEWAL_INTERVAL", POLL)
    times = Lifetimes()
    reach = ExternalRollout(delay=EVERY)
    certificates = SelfSigned(("localhost",), reach, times=times)
    held = new_ca(time.time(), times)
    certificates.use_rotation(held)
    certificates.renew_if_due()
    trusted = [ssl.create_default_context(cadata=held.bundle.decode())]

    async with loaded(certificates, metrics, lambda: trusted[0]) as load:
        for _ in range(GENERATIONS):
            # Phase one: the bundle has both, and whoever trusts the old one alone is still served.
            following = new_authority(time.time(), times.authority)
            certificates.use_rotation(both := replace(held, next=following))
            certificates.renew_if_due()
            await asyncio.sleep(EVERY)
            trusted[0] = ssl.create_default_context(cadata=both.bundle.decode())
            # Phase two: the new one signs, and whoever trusts both is served all along.
            held = CaRotation(following, time.time(), retired=(held.signing.certificate,))
            certificates.use_rotation(held)
            await until(lambda: certificates.issuer == following)  # noqa: B023 -- called at once
            await asyncio.sleep(EVERY)

    assert load.failed == []
    assert len(load.serials) >= GENERATIONS


RENEWING = """
import asyncio, time
from prometheus_client import CollectorRegistry
from injector.metrics import Metrics
from injector.webhook.tls import selfsigned
from injector.webhook.tls.selfsigned import ExternalRollout, Lifetimes, SelfSigned, new_ca
selfsigned.RENEWAL_INTERVAL = 0.1
times = Lifetimes(leaf=1.5)
certificates = SelfSigned(("localhost",), ExternalRollout(), times=times)
certificates.use_rotation(new_ca(time.time(), times))

async def tell():
    while True:
        await asyncio.sleep(0.1)
        print(certificates.certificate.not_after, repr(certificates.fault()), flush=True)

async def main():
    await asyncio.gather(certificates.follow(Metrics(CollectorRegistry())), tell())

asyncio.run(main())
"""


def test_a_process_that_is_stopped_over_its_renewal_renews_once_it_goes_on() -> None:
    with subprocess.Popen([sys.executable, "-c", RENEWING], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            first = float(process.stdout.readline().split()[0])
            process.send_signal(signal.SIGSTOP)
            while time.time() < first + 0.2:  # its certificate has expired, not only come to its renewal
                time.sleep(0.05)
            resumed = time.time()
            process.send_signal(signal.SIGCONT)
            while (line := process.stdout.readline().split(maxsplit=1)) and float(line[0]) <= resumed:
                assert time.time() - resumed < 60.0
            assert line[1].strip() == "''"
        finally:
            process.kill()


SWAPS = 100
LIMIT = 60.0
CONFIG_AND_VALUES = CONFIG.replace("proxy:{{", "proxy-%d:{{")


def mounted(folder: Path, number: int, action: str = "") -> None:
    """Make or change a mounted ConfigMap whose config and values both say ``number``; ``action`` begins its template."""
    config = (CONFIG_AND_VALUES % number).replace("    spec:", f"    {action}\n    spec:", 1)
    mount(folder, {"config": config, "values": json.dumps({"global": {"tag": f"1.24.{number}"}})})


async def image_of(client: Client, number: int) -> str:
    """The image of the proxy that a pod gets."""
    pod = make_pod(f"hello-{number}")
    response = await client.post("/inject/a", json=make_review(pod, uid=f"u{number}"))
    answer = (await response.json())["response"]
    assert (response.status, answer["uid"]) == (200, f"u{number}")
    return str(proxy_of(patched(pod, answer))["image"])


@dataclass
class Served:
    """An injector of one folder, as it serves; a test tells of changes and sees what came of them."""

    folder: Path
    client: Client
    changes: asyncio.Queue[None]
    reports: asyncio.Queue[LoadReport]

    async def changed(self) -> LoadReport:
        self.changes.put_nowait(None)
        async with asyncio.timeout(LIMIT):
            return await self.reports.get()


@pytest.fixture
async def served(
    aiohttp_client: ClientFactory,
    tmp_path: Path,
    lifecycle: Lifecycle,
    metrics: Metrics,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Served]:
    """Revision `a`, mounted, followed and served."""
    mounted(tmp_path / "a", 0)
    registry, recent = Registry(), RecentPods()
    loader = Loader(lambda: read_directory(tmp_path), registry)
    loader.load(0.0)
    changes, reports = asyncio.Queue[None](), asyncio.Queue[LoadReport]()

    async def watch() -> AsyncIterator[None]:
        while True:
            await changes.get()
            yield

    monkeypatch.setattr(metrics, "set_revisions", lambda *_, **__: reports.put_nowait(loader.report))
    follower = Reloader(loader, watch, 30.0, recent, metrics, sleep=FakeClock({0.2}).sleep)
    client = await aiohttp_client(
        RawTestServer(webhook_requests(InjectHandler(registry, metrics, lifecycle, recent=recent)))
    )
    async with running(follower.run()):
        yield Served(tmp_path / "a", client, changes, reports)


async def test_a_hundred_swaps_fail_no_request_and_mix_no_two_configurations(
    served: Served, collector: CollectorRegistry
) -> None:
    images: list[str] = []

    async def ask() -> None:
        while True:
            images.append(await image_of(served.client, len(images)))

    async with running(ask()):
        for number in range(1, SWAPS + 1):
            mounted(served.folder, number)
            assert (await served.changed()).errors == ()
            assert await image_of(served.client, number) == f"proxy-{number}:1.24.{number}"

    assert images
    assert all(image.partition(":")[0].removeprefix("proxy-") == image.rpartition(".")[2] for image in images)
    assert collector.get_sample_value("injector_config_reloads_total") == SWAPS


async def test_a_change_that_fails_an_injected_pod_is_refused(served: Served) -> None:
    assert await image_of(served.client, 7) == "proxy-0:1.24.0"

    mounted(served.folder, 1, "{{ if eq .ObjectMeta.Name `hello-7` }}{{ fail .Spec }}{{ end }}")
    report = await served.changed()

    assert "it fails on the pod of Pod hello-7 in namespace default, which" in str(report.revisions["a"].error)
    assert await image_of(served.client, 7) == "proxy-0:1.24.0"

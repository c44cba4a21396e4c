"""The caBundle of webhooks is patched, repaired and retried."""

from __future__ import annotations

import asyncio
import base64
import itertools
import logging
from collections.abc import Callable
from typing import Any

import pytest

from injector.cluster.resources import WEBHOOKS
from injector.cluster.webhooks import WebhookSelector
from injector.webhook.tls.cabundle import CaBundles
from injector.webhook.tls.selfsigned import BundleRollout
from tests.cluster.fakeapi import FakeApi, refusal, webhook_configuration
from tests.cluster.fakes import Observed, in_fake_time
from tests.tasks import running

RETRIES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)


@pytest.fixture(autouse=True)
def no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits have no random part."""
    monkeypatch.setattr("random.random", lambda: 0.0)


class Loop(Observed):
    """The loop of one injector against an API server of this process."""

    def __init__(self, bundle: bytes | None = b"new") -> None:
        super().__init__()
        self.api, self.bundle, self.turns = FakeApi(), bundle, 0
        self.target = WebhookSelector("injector", "injector-system")
        self.spread = BundleRollout(delay=5.0)
        self.bundles = CaBundles(self.api, self.target, self._current_bundle, rollout=self.spread, metrics=self)

    def _current_bundle(self) -> bytes | None:
        self.turns += 1
        return self.bundle

    @property
    def counts(self) -> tuple[float, float, float]:
        """Successful patches, failed ones, and the objects that are outdated now."""
        metrics = self.cabundle_attempts, self.cabundle_patches, self.cabundle_outdated
        attempts, patches, outdated = (next(iter(metric.collect())).samples[0].value for metric in metrics)
        return patches, attempts - patches, outdated

    async def run(self, seconds: float) -> None:
        """Follow the webhooks for so long."""
        async with running(self.bundles.follow(asyncio.Event())):
            await asyncio.sleep(seconds)

    def patches(self) -> list[float]:
        return [moment for moment, call in self.api.calls if call == "patch"]

    def put(self, item: dict[str, Any]) -> None:
        self.api.put(WEBHOOKS, item)

    def bundles_of(self, name: str = "injector") -> list[bytes]:
        hooks = self.api.objects[WEBHOOKS.plural, "", name]["webhooks"]
        return [base64.b64decode(hook["clientConfig"].get("caBundle", "")) for hook in hooks]


@in_fake_time
async def test_each_webhook_that_calls_its_service_gets_the_bundle_once() -> None:
    loop = Loop()
    loop.put(webhook_configuration("injector", "a.test.io", "b.test.io"))
    loop.put(webhook_configuration("tag"))
    loop.put(webhook_configuration("certs", **{"cert-manager.io/inject-ca-from": "a/b"}))

    await loop.run(60.0)

    assert loop.bundles_of() == [b"new", b"new"]
    assert (loop.bundles_of("tag"), loop.bundles_of("certs")) == ([b"new"], [b""])
    assert loop.counts == (2, 0, 0)
    assert loop.spread.is_trusted(b"new")


@in_fake_time
async def test_what_drifts_is_brought_back_within_a_second() -> None:
    loop = Loop()
    loop.put(webhook_configuration())
    async with running(loop.run(60.0)):
        await asyncio.sleep(30.0)

        loop.put(webhook_configuration())
        await asyncio.sleep(1.0)

        assert loop.bundles_of() == [b"new"]
        assert not loop.spread.is_trusted(b"new")
        await asyncio.sleep(5.0)
        assert loop.spread.is_trusted(b"new")


@in_fake_time
async def test_a_bundle_that_changes_is_written_at_once() -> None:
    loop = Loop(bundle=None)
    loop.put(webhook_configuration())
    async with running(loop.run(60.0)):
        await asyncio.sleep(10.0)
        before = loop.bundles_of()

        loop.bundle = b"newer"
        loop.bundles.wake()
        await asyncio.sleep(0.0)
        await asyncio.sleep(0.1)

        assert (before, loop.bundles_of(), loop.counts) == ([b""], [b"newer"], (1, 0, 0))


@in_fake_time
async def test_after_errors_it_is_tried_ever_more_rarely_and_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop()
    loop.api.fault_of["patch"] = refusal("forbidden", 403)
    loop.put(webhook_configuration())

    await loop.run(200.0)

    moments = loop.patches()
    waits = [after - before for before, after in itertools.pairwise(moments)]
    assert waits == [*RETRIES, *[RETRIES[-1]] * (len(waits) - len(RETRIES))]
    assert len(waits) > len(RETRIES)
    assert (loop.counts, loop.spread.is_trusted(b"new")) == ((0, len(moments), 1), False)

    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        "caBundle of MutatingWebhookConfiguration injector: api: told forbidden; wait"
    ]


@in_fake_time
async def test_an_object_that_is_deleted_while_another_is_patched_is_no_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = Loop()
    loop.put(webhook_configuration("first"))
    loop.put(webhook_configuration("second"))
    loop.api.delay = lambda: 1.0 if loop.api.calls[-1][1] == "patch" else 0.0
    async with running(loop.run(30.0)):
        await asyncio.sleep(0.5)
        assert [call for _, call in loop.api.calls] == ["list", "watch", "patch"]

        loop.api.drop(WEBHOOKS, "second")
        await asyncio.sleep(20.0)

        assert (loop.bundles_of("first"), loop.counts[1:]) == ([b"new"], (0, 0))

    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@in_fake_time
async def test_an_object_that_is_deleted_before_the_watch_reports_it_is_no_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = Loop()
    loop.put(webhook_configuration("first"))
    loop.api.fault_of["patch"] = refusal("missing", 404)

    await loop.run(30.0)

    assert loop.counts == (0, 0, 1)
    assert 1 < len(loop.patches()) <= 31

    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@in_fake_time
async def test_what_nobody_foresaw_is_told_without_its_text_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop()
    loop.put(webhook_configuration())
    loop.api.fault_of["patch"] = RuntimeError("SECRET")
    async with running(loop.run(60.0)):
        await asyncio.sleep(1.0)

        del loop.api.fault_of["patch"]
        await asyncio.sleep(5.0)

        assert loop.bundles_of() == [b"new"]

    assert "RuntimeError at " in caplog.text
    assert "SECRET" not in caplog.text


@in_fake_time
async def test_a_list_that_has_moved_is_not_patched_in_the_wrong_place() -> None:
    loop = Loop()
    item = webhook_configuration("injector", "a.test.io", "b.test.io")
    item["webhooks"][1]["clientConfig"] = {"url": "https://example.com"}
    moved = {**item, "webhooks": item["webhooks"][::-1]}
    loop.put(item)
    loop.api.objects[WEBHOOKS.plural, "", "injector"] = {
        **moved,
        "metadata": loop.api.objects[WEBHOOKS.plural, "", "injector"]["metadata"],
    }
    loop.bundles.webhooks_changed({"injector": loop.target.keep(item)})  # type: ignore[dict-item]

    await loop.bundles.step()

    assert (loop.counts[:2], loop.bundles_of()) == ((0, 1), [b"", b""])


@in_fake_time
async def test_webhooks_that_are_deleted_are_forgotten() -> None:
    loop = Loop()
    loop.put(webhook_configuration())
    async with running(loop.run(20.0)):
        await asyncio.sleep(5.0)

        loop.api.drop(WEBHOOKS, "injector")
        await asyncio.sleep(5.0)

        assert loop.counts == (1, 0, 0)


@in_fake_time
async def test_before_the_webhooks_are_known_nothing_has_spread() -> None:
    loop = Loop()
    loop.api.fault = refusal("forbidden", 403)

    await loop.run(60.0)

    assert not loop.spread.is_trusted(b"new")
    assert ("cabundle", "forbidden") in loop.faults
    assert loop.synced == {"cabundle": False}
    assert loop.patches() == []


@pytest.mark.parametrize("objects", [1, 3])
@pytest.mark.parametrize("every", [0.1, 0.9])
@in_fake_time
async def test_beside_another_writer_each_object_is_patched_once_a_second(objects: int, every: float) -> None:
    loop = Loop()
    names = [f"w{number}" for number in range(objects)]
    async with running(loop.run(120.0)):

        async def fight(seconds: float, write: Callable[[str], None]) -> None:
            for _ in range(int(seconds / every)):
                for name in names:
                    write(name)
                await asyncio.sleep(every)

        await fight(60.0, lambda name: loop.put(webhook_configuration(name)))
        stopped = asyncio.get_running_loop().time()
        during = len(loop.patches())
        await asyncio.sleep(2.0)

        assert 60.0 * objects * 0.5 <= during <= 61.0 * objects
        assert [loop.bundles_of(name) for name in names] == [[b"new"]] * objects
        assert max(loop.patches()) - stopped < 2.0
        # Nor does it turn in vain: what the watch tells is told at most five times a second.
        assert loop.turns < 60 * 7

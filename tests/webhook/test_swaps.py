"""Requests while the configuration changes: none fails, and each is answered by one revision, whole."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from injector.revisions.directory import DirectorySource
from injector.revisions.following import SETTLE, Follower, Timing
from injector.revisions.registry import Registry
from injector.revisions.reload import Loader, LoadReport
from injector.revisions.verify import RecentPods
from injector.webhook.app import webhook_app
from injector.webhook.inject import InjectHandler
from tests.factories import make_pod, make_review
from tests.revisions.clock import FakeClock
from tests.revisions.fakes import CONFIG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from prometheus_client import CollectorRegistry

    from injector.metrics import Metrics
    from injector.webhook.lifecycle import Lifecycle
    from tests.webhook.conftest import Client, ClientFactory

SWAPS = 100
LIMIT = 60.0
CONFIG_AND_VALUES = CONFIG.replace("proxy:{{", "proxy-%d:{{")


def mounted(folder: Path, number: int, action: str = "") -> None:
    """Make or change a mounted ConfigMap whose config and values both say ``number``; ``action`` begins its template."""
    new = folder / f"..{number}"
    new.mkdir(parents=True)
    (new / "config").write_text((CONFIG_AND_VALUES % number).replace("    spec:", f"    {action}\n    spec:", 1))
    (new / "values").write_text(json.dumps({"global": {"tag": f"1.24.{number}"}}))
    (folder / "..tmp").symlink_to(new.name)
    (folder / "..tmp").replace(folder / "..data")
    for name in ("config", "values"):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")


async def image_of(client: Client, number: int) -> str:
    """The image of the proxy that a pod gets."""
    response = await client.post("/inject/a", json=make_review(make_pod(f"hello-{number}"), uid=f"u{number}"))
    answer = (await response.json())["response"]
    assert (response.status, answer["uid"], answer["allowed"]) == (200, f"u{number}", True), answer
    patch = json.loads(base64.b64decode(answer["patch"]))
    (image,) = {
        container["image"]
        for operation in patch
        for container in (operation["value"] if isinstance(operation.get("value"), list) else [operation.get("value")])
        if isinstance(container, dict) and container.get("name") == "istio-proxy"
    }
    return str(image)


@dataclass
class Served:
    """An injector of one folder, as it serves; a test tells of changes and sees what came of them."""

    folder: Path
    client: Client
    told: asyncio.Queue[None]
    shown: asyncio.Queue[LoadReport]

    async def changed(self) -> LoadReport:
        self.told.put_nowait(None)
        async with asyncio.timeout(LIMIT):
            return await self.shown.get()


@pytest.fixture
async def served(
    aiohttp_client: ClientFactory, tmp_path: Path, lifecycle: Lifecycle, metrics: Metrics
) -> AsyncIterator[Served]:
    """Revision `a`, mounted, followed and served."""
    mounted(tmp_path / "a", 0)
    registry, recent = Registry(), RecentPods()
    loader = Loader(DirectorySource(tmp_path), registry)
    loader.load(0.0)
    told, shown = asyncio.Queue[None](), asyncio.Queue[LoadReport]()

    async def watch() -> AsyncIterator[None]:
        while True:
            await told.get()
            yield

    timing = Timing(30.0, sleep=FakeClock({SETTLE}).sleep)
    follower = Follower(loader, watch, timing, recent=recent, metrics=metrics, report=shown.put_nowait)
    client = await aiohttp_client(webhook_app(InjectHandler(registry, metrics, lifecycle, recent=recent)))
    task = asyncio.create_task(follower.run())
    yield Served(tmp_path / "a", client, told, shown)
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])


async def test_a_hundred_swaps_fail_no_request_and_mix_no_two_configurations(
    served: Served, collector: CollectorRegistry
) -> None:
    images: list[str] = []

    async def ask() -> None:
        while True:
            images.append(await image_of(served.client, len(images)))

    asking = asyncio.create_task(ask())
    for number in range(1, SWAPS + 1):
        mounted(served.folder, number)
        assert (await served.changed()).errors == ()
        assert await image_of(served.client, number) == f"proxy-{number}:1.24.{number}"
    assert not asking.done()
    asking.cancel()
    await asyncio.wait([asking])

    assert images
    assert all(image.partition(":")[0].removeprefix("proxy-") == image.rpartition(".")[2] for image in images)
    assert collector.get_sample_value("injector_config_reloads_total") == SWAPS


async def test_a_change_that_would_fail_a_pod_which_was_injected_is_refused_and_the_pod_goes_on(served: Served) -> None:
    assert await image_of(served.client, 7) == "proxy-0:1.24.0"

    mounted(served.folder, 1, "{{ if eq .ObjectMeta.Name `hello-7` }}{{ fail .Spec }}{{ end }}")
    report = await served.changed()

    assert "it fails on the pod of Pod hello-7 in namespace default, which" in str(report.revisions["a"].error)
    assert await image_of(served.client, 7) == "proxy-0:1.24.0"

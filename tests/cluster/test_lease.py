"""Leader election by a Lease."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from injector.cluster.lease import LEASES, Lease
from injector.cluster.resources import Resource
from tests.cluster.fakeapi import FakeApi, refusal
from tests.cluster.fakes import in_fake_time
from tests.tasks import running


class Workers:
    """Processes that work while they lead. At most one does at any time."""

    def __init__(self) -> None:
        self.now: list[str] = []
        self.changes: list[tuple[float, str]] = []

    def work(self, name: str) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            assert self.now == []
            self.now.append(name)
            self.changes.append((asyncio.get_running_loop().time(), name))
            try:
                await asyncio.Event().wait()
            finally:
                self.now.remove(name)

        return run


@dataclass
class Client(FakeApi):
    """The way of one process to an API server, with its own faults."""

    server: FakeApi = field(default_factory=FakeApi)

    def __post_init__(self) -> None:
        self.objects = self.server.objects

    def _write(self, resource: Resource, manifest: Mapping[str, Any]) -> dict[str, Any]:
        return self.server._write(resource, manifest)


def lease(api: FakeApi, name: str) -> Lease:
    return Lease(api, "mesh", "upgrades", name)


@in_fake_time
async def test_one_process_leads_and_another_follows_at_once_when_it_ends() -> None:
    api, workers = FakeApi(), Workers()
    async with running(lease(api, "b").lead(workers.work("b"))), running(lease(api, "a").lead(workers.work("a"))):
        await asyncio.sleep(60)
        assert [name for _, name in workers.changes] == ["b"]
        assert api.objects["leases", "mesh", "upgrades"]["spec"]["holderIdentity"] == "b"
    async with running(lease(api, "c").lead(workers.work("c"))):
        await asyncio.sleep(1)
        assert workers.now == ["c"]
    assert api.objects["leases", "mesh", "upgrades"]["spec"]["leaseTransitions"] == 2


@in_fake_time
async def test_the_lease_of_a_process_that_died_is_taken_after_its_duration() -> None:
    api, workers = FakeApi(), Workers()
    dead = {"holderIdentity": "dead", "leaseDurationSeconds": 15, "renewTime": "2030-01-01T00:00:00.000000Z"}
    api.put(LEASES, {"metadata": {"name": "upgrades", "namespace": "mesh"}, "spec": dead})

    async with running(lease(api, "a").lead(workers.work("a"))):
        await asyncio.sleep(30)
    ((at, _),) = workers.changes
    assert 15 <= at <= 17.0


@in_fake_time
async def test_a_leader_that_cannot_renew_stops_before_another_one_starts() -> None:
    api, workers = FakeApi(), Workers()
    cut = Client(server=api)
    async with running(lease(cut, "a").lead(workers.work("a"))), running(lease(api, "b").lead(workers.work("b"))):
        await asyncio.sleep(5)
        assert workers.now == ["a"]
        cut.fault = refusal("unreachable")
        await asyncio.sleep(12.0)
        assert workers.now == []
        await asyncio.sleep(15)
        assert workers.now == ["b"]
        cut.fault = None
        await asyncio.sleep(15)
        assert workers.now == ["b"]


@in_fake_time
async def test_a_leader_whose_first_answer_is_slow_stops_before_another_one_starts() -> None:
    class Slow(Client):
        async def create(
            self, resource: Resource, manifest: Mapping[str, Any], *, manager: str, dry_run: bool = False
        ) -> dict[str, Any]:
            created = await super().create(resource, manifest, manager=manager, dry_run=dry_run)
            await asyncio.sleep(9.0)
            self.fault = refusal("unreachable")
            return created

    api, workers = FakeApi(), Workers()
    slow = Slow(server=api)
    async with running(lease(slow, "a").lead(workers.work("a"))):
        await asyncio.sleep(0)
        async with running(lease(api, "b").lead(workers.work("b"))):
            await asyncio.sleep(30)
            assert (workers.now, [name for _, name in workers.changes]) == (["b"], ["a", "b"])


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_api_server_does_at_most_one_process_works(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 -- the same faults in every run

    @in_fake_time
    async def run() -> int:
        api, workers = FakeApi(delay=lambda: chance.uniform(0, 3)), Workers()
        clients = [Client(server=api, delay=api.delay) for _ in range(3)]
        tasks = [
            asyncio.create_task(lease(client, str(index)).lead(workers.work(str(index))))
            for index, client in enumerate(clients)
        ]
        for _ in range(60):
            await asyncio.sleep(chance.uniform(0, 20))
            victim = chance.choice(clients)
            victim.fault = None if victim.fault else refusal(chance.choice(["unreachable", "idle", "conflict"]))
            assert len(workers.now) <= 1
            assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return len(workers.changes)

    assert run() > 1


@in_fake_time
async def test_an_error_of_the_work_is_raised_and_the_lease_is_released() -> None:
    api = FakeApi()

    async def work() -> None:
        await asyncio.sleep(5)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await lease(api, "a").lead(work)
    assert api.objects["leases", "mesh", "upgrades"]["spec"]["holderIdentity"] == ""

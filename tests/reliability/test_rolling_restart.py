"""A rolling restart under load loses no admission. The long run is ``scripts/reliability chaos``."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.factories import make_review
from tests.reliability.apiserver import ApiServer, Load
from tests.reliability.conftest import ReplicaFactory
from tests.reliability.replicas import Service, restarted, trusting, until
from tests.webhook.certificates import write_certificate

RESTARTS = 3
CALLERS = 30


def review_of(uid: str) -> bytes:
    return json.dumps(make_review(uid=uid)).encode()


async def test_three_restarts_of_two_replicas_fail_no_admission(start_replica: ReplicaFactory, tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    flags = ("--tlsCertFile", str(certificate), "--tlsKeyFile", str(key), "--shutdown-delay", "1m")
    replicas = [start_replica(*flags), start_replica(*flags)]
    await asyncio.gather(*(each.until_ready() for each in replicas))
    service = Service(replicas)
    following = asyncio.create_task(service.follow())
    load = Load(ApiServer(service.ready, trusting(certificate)), review_of)
    await until(lambda: len(service.known) == len(replicas))

    calling = [asyncio.create_task(load.call(f"c{number}", 0.25)) for number in range(CALLERS)]
    before = []
    for number in range(RESTARTS):
        before.append(load.answered.total())
        await restarted(replicas[number % 2], service)
    load.end()
    await asyncio.gather(*calling)
    following.cancel()
    await load.client.close()

    assert load.failures == []
    assert all(
        count - earlier > CALLERS for earlier, count in zip(before, [*before[1:], load.answered.total()], strict=True)
    )
    assert set(load.answered) == {each.port for each in replicas}
    assert load.client.reused > load.client.dialled > CALLERS

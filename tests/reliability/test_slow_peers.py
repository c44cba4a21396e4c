"""Peers that take their time are cut, and others do not notice. The long run is ``scripts/reliability chaos --only slow``."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from tests.factories import make_review
from tests.reliability.apiserver import ApiServer, Load
from tests.reliability.conftest import ReplicaFactory
from tests.reliability.replicas import trusting
from tests.reliability.slowpeers import KINDS, crowd
from tests.webhook.certificates import write_certificate

PEERS = 40
LIMIT = 60.0


def review_of(uid: str) -> bytes:
    return json.dumps(make_review(uid=uid)).encode()


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_is_cut_while_others_are_answered(
    start_replica: ReplicaFactory, tmp_path: Path, kind: str
) -> None:
    certificate, key = write_certificate(tmp_path)
    replica = start_replica("--tlsCertFile", str(certificate), "--tlsKeyFile", str(key), "--log-decisions", "none")
    await replica.until_ready()
    load = Load(ApiServer(lambda: [replica.port], trusting(certificate)), review_of)
    calling = [asyncio.create_task(load.call(f"c{number}", 0.1)) for number in range(3)]

    held = await crowd(replica.port, kind, "/inject/stable", PEERS)
    before = held.open
    async with asyncio.timeout(LIMIT):
        await asyncio.gather(*(each.gone.wait() for each in held.peers))
    load.end()
    await asyncio.gather(*calling)
    await load.client.close()

    assert (len(held.peers), before) == (PEERS, PEERS)
    assert 1.0 < held.longest(time.monotonic()) < LIMIT
    assert load.failures == []
    assert load.answered.total() > 10

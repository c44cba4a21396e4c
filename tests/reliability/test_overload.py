"""A mass start: equal pods are answered at once. Of others, more than may wait are told to try again, and all get their sidecar."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest

from tests.factories import make_pod, make_review
from tests.reliability.apiserver import ApiServer, Load
from tests.reliability.conftest import ReplicaFactory

PODS, WAITING = 1_000, 100
TOLD_TO_COME_BACK = {429, 503}


def review_of(uid: str, app: str) -> bytes:
    """A pod of a ReplicaSet."""
    pod = make_pod(labels={"pod-template-hash": "5d9f", "app": app})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-5d9f", "controller": True}
    pod["metadata"] |= {"generateName": f"{app}-5d9f-", "ownerReferences": [owner]}
    return json.dumps(make_review(pod, uid=uid)).encode()


@pytest.mark.parametrize("alike", [False, True])
async def test_a_thousand_pods_at_once_are_injected_or_told_to_try_again_and_then_injected(
    start_replica: ReplicaFactory, alike: bool
) -> None:
    replica = start_replica("--insecure-http", "--max-waiting", str(WAITING), "--log-decisions", "none")
    await replica.until_ready()
    load = Load(ApiServer(lambda: [replica.port]), lambda uid: review_of(uid, "web" if alike else uid))
    told: Counter[int] = Counter()

    async def admitted(uid: str) -> None:
        while True:
            reply = await load.client.post(load.path, load.review(uid), timeout=60.0)
            if reply.status not in TOLD_TO_COME_BACK:
                load.check(uid, reply)
                return
            told[reply.status] += 1
            await asyncio.sleep(int(reply.headers["retry-after"]))

    async with asyncio.timeout(60.0):
        await asyncio.gather(*(admitted(f"pod-{number}") for number in range(PODS)))
    await load.client.close()

    assert (load.failures, load.answered.total()) == ([], PODS)
    assert alike or told[429] > 0

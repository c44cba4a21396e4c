"""Hostile requests get clean answers, and so does the next request. The long run is ``scripts/reliability chaos --only bodies``."""

from __future__ import annotations

import json

import pytest

from tests.factories import UID, make_review
from tests.reliability.apiserver import ApiServer
from tests.reliability.conftest import ReplicaFactory
from tests.reliability.hostilebodies import Attack, bodies, fault, hostile_json, told


@pytest.mark.parametrize("attacks", [bodies, hostile_json])
async def test_each_is_answered_cleanly_and_none_leaves_anything_behind(
    start_replica: ReplicaFactory, attacks: type[dict[str, Attack]]
) -> None:
    replica = start_replica("--insecure-http", "--log-decisions", "none")
    await replica.until_ready()

    faults = {name: fault(attack, await told(replica.port, attack)) for name, attack in attacks().items()}
    client = ApiServer(lambda: [replica.port])
    after = await client.post("/inject/stable", json.dumps(make_review()).encode())
    await client.close()

    assert {name: each for name, each in faults.items() if each} == {}
    assert len(faults) > 10
    assert (after.status, after.response["uid"], after.response["allowed"]) == (200, UID, True)
    assert "Traceback" not in replica.log.read_text()

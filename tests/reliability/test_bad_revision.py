"""One bad revision among good ones costs the pods of those nothing. The long run is ``scripts/reliability chaos --only hostile``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.reliability.apiserver import ApiServer
from tests.reliability.badrevision import BOMB, GOOD, INVALID, SLOW, Callers, quick_questions, write_bad
from tests.reliability.conftest import ReplicaFactory
from tests.reliability.profile import Profile, questions, written
from tests.reliability.replicas import until

SECONDS = 4.0


@pytest.mark.parametrize("bad", [BOMB, SLOW], ids=["bomb", "slow"])
async def test_others_are_injected_and_nobody_is_let_in_without_a_sidecar(
    start_replica: ReplicaFactory, tmp_path: Path, bad: str
) -> None:
    folder = tmp_path / "revisions"
    folder.mkdir()
    asked = questions(folder, written(folder)[:2])[::10]
    write_bad(folder, bad)
    replica = start_replica("--insecure-http", "--log-decisions", "none", "--revisions-dir", str(folder))
    await replica.until_ready()
    profile = Profile(ApiServer(lambda: [replica.port]), asked, 40)
    callers = Callers(ApiServer(lambda: [replica.port]), 20)
    calling = asyncio.create_task(callers.call())

    came = await profile.run(SECONDS)
    callers.end()
    await calling
    await profile.client.close()
    await callers.client.close()

    assert came.wrong == {}
    assert came.calls > 100
    assert callers.told.total() > 50
    assert callers.told["let in without a sidecar"] == 0
    if bad == BOMB:
        assert callers.told["denied"] >= 1
        assert callers.told["paused"] >= 1
        assert callers.told["injected"] == 0
    else:
        assert callers.told["injected"] >= 1


async def test_slow_pods_of_one_namespace_make_no_pod_of_another_fail(
    start_replica: ReplicaFactory, tmp_path: Path
) -> None:
    folder = tmp_path / "revisions"
    folder.mkdir()
    write_bad(folder, SLOW)
    replica = start_replica("--insecure-http", "--log-decisions", "none", "--revisions-dir", str(folder))
    await replica.until_ready()
    others = Profile(ApiServer(lambda: [replica.port]), quick_questions(folder), 30)
    tenant = Callers(ApiServer(lambda: [replica.port]), 10, namespace="bad-tenant")
    calling = asyncio.create_task(tenant.call())

    came = await others.run(2 * SECONDS)
    tenant.end()
    await calling
    await others.client.close()
    await tenant.client.close()

    assert came.wrong == {}
    assert came.calls > 200
    assert tenant.told["injected"] >= 1
    assert tenant.told["let in without a sidecar"] == 0


@pytest.mark.parametrize("config", INVALID)
async def test_a_revision_that_becomes_invalid_goes_on_as_it_was(
    start_replica: ReplicaFactory, tmp_path: Path, config: str
) -> None:
    folder = tmp_path / "revisions"
    folder.mkdir()
    write_bad(folder, GOOD)
    replica = start_replica("--insecure-http", "--log-decisions", "none", "--revisions-dir", str(folder))
    await replica.until_ready()
    callers = Callers(ApiServer(lambda: [replica.port]), 20)
    await callers.ask(1)

    write_bad(folder, config)
    await until(lambda: "not served" in replica.log.read_text())
    for number in range(20):
        await callers.ask(number)
    await callers.client.close()

    assert callers.told == {"injected": 21}

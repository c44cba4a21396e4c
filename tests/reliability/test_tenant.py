"""A tenant with slow pods does not make pods of other namespaces fail. The long run is ``scripts/reliability chaos --only tenant``."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.reliability.apiserver import ApiServer
from tests.reliability.conftest import ReplicaFactory
from tests.reliability.profile import written
from tests.reliability.tenant import OncePerPod, Tenant, others

SECONDS = 8.0
RATE = 20.0


async def test_pods_of_other_namespaces_of_the_revision_are_injected(
    start_replica: ReplicaFactory, tmp_path: Path
) -> None:
    folder = tmp_path / "revisions"
    folder.mkdir()
    name = written(folder)[-1]
    replica = start_replica("--insecure-http", "--log-decisions", "none", "--revisions-dir", str(folder))
    await replica.until_ready()
    load = OncePerPod(ApiServer(lambda: [replica.port]), others(folder, name, int(SECONDS * RATE)), RATE)
    tenant = Tenant(ApiServer(lambda: [replica.port]), f"/inject/{name}", 10.0)
    creating = asyncio.create_task(tenant.run())

    came = await load.run(SECONDS)
    tenant.end()
    await creating
    await load.client.close()
    await tenant.client.close()

    assert came.wrong == {}
    assert came.calls == SECONDS * RATE
    assert tenant.answers["injected"] > 0

"""T33: one tenant of a revision with long lists of ranges, and how the pods of other namespaces of the same revision fare."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tests.reliability.apiserver import ApiServer
from tests.reliability.long.rows import Row
from tests.reliability.profile import written
from tests.reliability.tenant import REFUSED, SIZE, OncePerPod, Tenant, others

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.reliability.long.chaos.stage import Stage

SECONDS: Final = 30.0
RATE: Final = 30.0
PODS_A_SECOND: Final = 5.0
SLOWER: Final = 3.0


async def long_lists(stage: Stage) -> Sequence[Row]:
    """Pods that are all different, without the tenant and beside it."""
    folder, seconds = stage.folder / "tenant", stage.lasts(SECONDS)
    folder.mkdir()
    name = written(folder)[-1]
    replica = await stage.replica("--revisions-dir", str(folder))
    load = OncePerPod(ApiServer(lambda: [replica.port]), others(folder, name, int(2.2 * seconds * RATE)), RATE)
    await load.run(seconds / 10)
    before = await load.run(seconds)
    tenant = Tenant(ApiServer(lambda: [replica.port]), f"/inject/{name}", PODS_A_SECOND)
    creating = asyncio.create_task(tenant.run())
    during = await load.run(seconds)
    tenant.end()
    await creating
    await load.client.close()
    await tenant.client.close()
    replica.kill()
    told = ", ".join(f"{count} {word}" for word, count in tenant.answers.most_common())
    figure = f"{during}, {before.p99:.1f} ms without; the tenant: {told}"
    met = during.failures == before.failures == 0 and during.p99 < SLOWER * before.p99 and not tenant.answers[REFUSED]
    test = f"T33 one tenant sends {PODS_A_SECOND:g} pods a second with {SIZE // 1000} KB of ranges"
    return [Row(test, f"other namespaces of the revision: 0 failures, p99 < {SLOWER:g} x", figure, met)]

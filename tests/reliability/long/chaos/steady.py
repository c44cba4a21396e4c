"""T1: the load for ten minutes, and what it leaves in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tests.reliability.apiserver import ApiServer
from tests.reliability.long.rows import Row
from tests.reliability.profile import RATE, Profile, questions, written
from tests.reliability.replicas import resident, trusting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.reliability.long.chaos.stage import Stage

SECONDS: Final = 600.0
WARM: Final = 120.0
GROWTH: Final = 5.0
P99: Final = 100.0


async def steady_load(stage: Stage) -> Sequence[Row]:
    """P, every answer held, and the memory from the third minute on."""
    folder = stage.folder / "steady"
    folder.mkdir()
    asked = await asyncio.to_thread(lambda: questions(folder, written(folder)))
    replica = await stage.replica("--revisions-dir", str(folder), tls=True)
    assert replica.process is not None
    profile = Profile(ApiServer(lambda: [replica.port], trusting(stage.certificate)), asked)
    seconds = stage.lasts(SECONDS)
    warm = min(WARM, seconds / 5)
    first = await profile.run(warm)
    before = resident(replica.process.pid)
    rest = await profile.run(seconds - warm)
    grown = resident(replica.process.pid) - before
    await profile.client.close()
    first.add(rest)
    figure = f"{first}; RSS +{grown:.1f} MiB to {before + grown:.0f} MiB"
    met = first.failures == 0 and first.calls > 0 and first.p99 < P99 and grown < GROWTH
    target = f"0 failures, p99 < {P99:g} ms, RSS < +{GROWTH:g} MiB"
    return [Row(f"T1 P at {RATE:g} rps for {seconds:g} s", target, figure, met)]

"""T15: peers that take their time, by the thousand, beside the load."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.reliability import Row
from bench.serving import resident
from tests.reliability.apiserver import ApiServer
from tests.reliability.profile import Profile, questions, written
from tests.reliability.replicas import ROOT, trusting
from tests.reliability.slowpeers import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.chaos.stage import Stage
    from tests.reliability.replicas import Replica

PEERS: Final = 2_000
CUT: Final = 10.0
GROWTH: Final = 50.0
FILES: Final = 1_100
"""The connections that there may be, and some dozens that the process has anyway."""
WAITED: Final = 15.0


@dataclass
class Peak:
    """The most that a process had of each while it was looked at."""

    pid: int
    files: int = 0
    mib: float = 0.0

    async def watch(self) -> None:
        """Look for ever."""
        while True:
            self.files = max(self.files, files(self.pid))
            self.mib = max(self.mib, resident(self.pid))
            await asyncio.sleep(0.2)


def files(pid: int) -> int:
    """How many files a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def slow_peers(stage: Stage) -> Sequence[Row]:
    """Each kind in turn, on a replica of its own, while P goes on."""
    folder = stage.folder / "slow"
    folder.mkdir()
    asked = questions(folder, written(folder))
    rows = []
    for kind in KINDS:
        replica = await stage.replica("--revisions-dir", str(folder), tls=True)
        profile = Profile(ApiServer(lambda: [replica.port], trusting(stage.certificate)), asked)  # noqa: B023 -- used within the turn
        await profile.warm()
        rows.append(await _beside(stage, kind, replica, profile))
        await profile.client.close()
        replica.kill()
    return rows


async def _beside(stage: Stage, kind: str, replica: Replica, profile: Profile) -> Row:
    assert replica.process is not None
    before, base = await profile.run(stage.lasts(WAITED)), resident(replica.process.pid)
    peak = Peak(replica.process.pid)
    watching = asyncio.create_task(peak.watch())
    peers = asyncio.create_task(_peers(replica.port, kind, f"/inject/{profile.asked[0].revision}"))
    during = await profile.run(stage.lasts(WAITED))
    told = await peers
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    grown = peak.mib - base
    figure = (
        f"P {during}, {before.p99:.1f} before; longest {told['longest']:.1f} s, {told['open']} left; "
        f"{peak.files} files, +{grown:.0f} MiB"
    )
    met = (
        during.failures == before.failures == 0
        and during.p99 < 2 * before.p99
        and told["open"] == 0
        and told["longest"] <= CUT
        and peak.files <= FILES
        and grown < GROWTH
    )
    return Row(f"T15 {PEERS} x {kind}", "P: p99 < 2 x; each cut <= 10 s, files capped, RSS < +50 MiB", figure, met)


async def _peers(port: int, kind: str, path: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        # They would be other machines, whose work costs this one nothing.
        *("nice", sys.executable, "-m", "tests.reliability.slowpeers", str(port), kind, path, str(PEERS)),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    out, _ = await process.communicate()
    told: dict[str, Any] = json.loads(out)
    return told

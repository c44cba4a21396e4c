"""T15: slow clients by the hundred beside the load, and idle connections that take every place."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.factories import make_pod, make_review
from tests.reliability.apiserver import HEAD_END, ApiServer, request_of
from tests.reliability.long.rows import Row
from tests.reliability.profile import Profile, questions, written
from tests.reliability.replicas import ROOT, resident, trusting
from tests.reliability.slowpeers import KINDS

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from tests.reliability.long.chaos.stage import Stage
    from tests.reliability.replicas import Replica

PEERS: Final = 500
IDLE: Final = 1_000
BURSTS: Final = (10, 50, 200)
CUT: Final = 15.0
GROWTH: Final = 60.0
SLOWER: Final = 3.0
WAITED: Final = 15.0


@dataclass
class Peak:
    """The most memory that a process had while it was looked at."""

    pid: int
    mib: float = 0.0

    async def watch(self) -> None:
        """Look for ever."""
        while True:
            self.mib = max(self.mib, resident(self.pid))
            await asyncio.sleep(0.2)


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
    return [*rows, await _idle(stage)]


async def _idle(stage: Stage) -> Row:
    """Connections that were answered once take every place of both ports, and new ones come in bursts."""
    replica = await stage.replica(tls=True)
    assert replica.process is not None
    tls = trusting(stage.certificate)
    base, held, lost = resident(replica.process.pid), [], 0
    for _ in range(0, IDLE, BURSTS[1]):
        held += await asyncio.gather(*(_answered(replica.port, _review("held"), tls) for _ in range(BURSTS[1])))
        held += await asyncio.gather(*(_answered(replica.ops_port, PROBE) for _ in range(BURSTS[1])))
    opened = sum(each is not None for each in held)
    grown = resident(replica.process.pid) - base
    for burst in BURSTS:
        new = await asyncio.gather(
            *(_answered(replica.port, _review(f"{burst}-{number}"), tls) for number in range(burst)),
            *(_answered(replica.ops_port, PROBE) for _ in range(burst)),
        )
        lost += sum(each is None for each in new)
        for writer in new:
            if writer is not None:
                writer.close()
    for writer in held:
        if writer is not None:
            writer.close()
    replica.kill()
    figure = f"{opened} held, {lost} of {2 * sum(BURSTS)} new calls and probes failed; +{grown:.0f} MiB"
    target = f"bursts of {', '.join(map(str, BURSTS))} new calls, and of probes, all succeed; RSS < +{GROWTH:.0f} MiB"
    return Row(
        f"T15 {IDLE} idle connections on each port", target, figure, not lost and opened == 2 * IDLE and grown < GROWTH
    )


PROBE: Final = b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"


def _review(app: str) -> bytes:
    return request_of("/inject/stable?timeout=10s", json.dumps(make_review(make_pod(labels={"app": app}))).encode())


async def _answered(port: int, request: bytes, tls: ssl.SSLContext | None = None) -> asyncio.StreamWriter | None:
    """Connect and ask once; return the connection, or None if the answer is not 200."""
    try:
        async with asyncio.timeout(CUT):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=tls, server_hostname="localhost" if tls else None
            )
            writer.write(request)
            return writer if b" 200 OK" in await reader.readuntil(HEAD_END) else None
    except (OSError, asyncio.IncompleteReadError):
        return None


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
        f"P {during}, {before.p99:.1f} before; longest {told['longest']:.1f} s, {told['open']} left; +{grown:.0f} MiB"
    )
    met = (
        during.failures == before.failures == 0
        and during.p99 < SLOWER * before.p99
        and told["open"] == 0
        and told["longest"] <= CUT
        and grown < GROWTH
    )
    target = f"P: 0 failures, p99 < {SLOWER:g} x; each closed within {CUT:g} s, RSS < +{GROWTH:.0f} MiB"
    return Row(f"T15 {PEERS} x {kind}", target, figure, met)


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

"""T16 and T17: requests that are made to hurt, one after the other, and what they cost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tests.reliability.hostilebodies import bodies, fault, hostile_json, told
from tests.reliability.long.rows import Row
from tests.reliability.replicas import resident

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.reliability.hostilebodies import Attack
    from tests.reliability.long.chaos.stage import Stage

ROUNDS: Final = 5
ANSWER: Final = 0.05
GROWTH: Final = 16.0
HELD: Final = 0.1
TICK: Final = 0.005


async def hostile_bodies(stage: Stage) -> Sequence[Row]:
    """T16: each is refused at once, and the memory stays; the largest review that may be sent is answered."""
    found = await _played(stage, bodies())
    slowest = max(
        (seconds, name) for name, seconds in found.seconds.items() if name not in ("8 MiB - 1", "endless chunks")
    )
    figure = f"{found.said}; slowest refusal {slowest[0] * 1e3:.0f} ms ({slowest[1]}); RSS +{found.grown:.0f} MiB"
    met = not found.faults and slowest[0] < ANSWER and found.grown < GROWTH
    return [Row(f"T16 {len(found.seconds)} bodies x {ROUNDS}", "413, 415, 400, < 50 ms, RSS < +16 MiB", figure, met)]


async def hostile_values(stage: Stage) -> Sequence[Row]:
    """T17: what the event loop stands still for each, as a probe beside it sees."""
    found = await _played(stage, hostile_json())
    slowest = max((seconds, name) for name, seconds in found.held.items())
    figure = f"{found.said}; loop held {slowest[0] * 1e3:.0f} ms at most ({slowest[1]})"
    met = not found.faults and slowest[0] < HELD
    return [Row(f"T17 {len(found.seconds)} reviews x {ROUNDS}", "4xx or the uid, loop held < 100 ms", figure, met)]


class _Found:
    """What came of all: faults by name, the median of how long each took, how long probes waited, and the memory that stayed."""

    def __init__(self) -> None:
        self.faults: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self.held: dict[str, float] = {}
        self.grown = 0.0

    @property
    def said(self) -> str:
        return f"{len(self.faults)} wrong {self.faults or ''}".strip()


async def _played(stage: Stage, attacks: Mapping[str, Attack]) -> _Found:
    found = _Found()
    replica = await stage.replica()
    assert replica.process is not None
    before = resident(replica.process.pid)
    for name, attack in attacks.items():
        seconds, held = [], []
        for _ in range(ROUNDS):
            probe = asyncio.create_task(_probe(replica.ops_port))
            answer = await told(replica.port, attack)
            probe.cancel()
            seconds.append(answer.seconds)
            held.append(max((await asyncio.gather(probe))[0], 0.0))
            if wrong := fault(attack, answer):
                found.faults[name] = wrong
        found.seconds[name] = sorted(seconds)[ROUNDS // 2]
        found.held[name] = sorted(held)[ROUNDS // 2]
    found.grown = resident(replica.process.pid) - before
    return found


async def _probe(port: int) -> float:
    """Ask whether the injector lives, again and again until cancelled; return the longest that it took."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    loop, longest = asyncio.get_running_loop(), 0.0
    begun = loop.time()
    try:
        while True:
            begun = loop.time()
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            longest = max(longest, loop.time() - begun)
            await reader.read(64)
            await asyncio.sleep(TICK)
    except asyncio.CancelledError:
        return max(longest, loop.time() - begun)
    finally:
        writer.close()

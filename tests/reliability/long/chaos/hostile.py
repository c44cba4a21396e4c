"""T33: one bad revision of four, and one bad tenant of a revision, and how the others fare."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from tests.reliability.apiserver import ApiServer
from tests.reliability.badrevision import BOMB, GOOD, INVALID, SLOW, Callers, quick_questions, write_bad
from tests.reliability.long.rows import Row
from tests.reliability.profile import RATE, Came, Profile, questions, written

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from tests.reliability.long.chaos.stage import Stage
    from tests.reliability.profile import Question

SECONDS: Final = 40.0
TARGET: Final = 1.5
RELOAD_EVERY: Final = 2.0
TENANT: Final = 5.0
TENANT_TARGET: Final = 3.0
OTHERS: Final = 40.0


async def hostile_revision(stage: Stage) -> Sequence[Row]:
    """Three good revisions under three quarters of P, and a fourth under the rest: good, invalid, slow, a bomb."""
    folder = stage.folder / "hostile"
    folder.mkdir()
    names = written(folder)[:3]
    asked = questions(folder, names)
    rows: list[Row] = []
    for kind, config in {"bomb": BOMB, "slow": SLOW, "invalid": GOOD}.items():
        before, _ = await _played(stage, folder, asked, GOOD)
        during, told = await _played(stage, folder, asked, config, breaks=kind == "invalid")
        rows.append(_row(kind, before, during, told))
    return [*rows, await _bad_tenant(stage, folder)]


async def _bad_tenant(stage: Stage, folder: Path) -> Row:
    """Slow pods in one namespace of a revision, and quick ones in another."""
    write_bad(folder, SLOW)
    replica = await stage.replica("--revisions-dir", str(folder))
    others = Profile(ApiServer(lambda: [replica.port]), quick_questions(folder), OTHERS)
    bad = Callers(ApiServer(lambda: [replica.port]), TENANT, namespace="bad-tenant")
    await others.warm()
    before = await others.run(stage.lasts(SECONDS))
    calling = asyncio.create_task(bad.call())
    during = await others.run(stage.lasts(SECONDS))
    bad.end()
    await calling
    await others.client.close()
    await bad.client.close()
    replica.kill()
    figure = f"{during.failures} failures of {during.calls}, p99 {during.p99:.1f} ms, {before.p99:.1f} without"
    figure += f"; the tenant: {', '.join(f'{count} {word}' for word, count in bad.told.most_common())}"
    met = during.failures == before.failures == 0 and during.p99 < TENANT_TARGET * before.p99
    return Row(
        f"T33 one tenant sends {TENANT:g} slow pods a second",
        f"other namespaces of the revision: 0 failures, p99 < {TENANT_TARGET:g} x",
        figure,
        met,
    )


def _row(kind: str, before: Came, during: Came, told: Counter[str]) -> Row:
    figure = f"{during.failures} failures of {during.calls}, p99 {during.p99:.1f} ms, {before.p99:.1f} without"
    figure += f"; the fourth: {', '.join(f'{count} {word}' for word, count in told.most_common())}"
    met = during.failures == before.failures == 0 and during.p99 < TARGET * before.p99
    if kind == "invalid":
        met = met and set(told) == {"injected"}
    met = met and "let in without a sidecar" not in told
    return Row(f"T33 one of four is {kind}", f"others: 0 failures, p99 < {TARGET} x", figure, met)


async def _played(
    stage: Stage, folder: Path, asked: Sequence[Question], config: str, *, breaks: bool = False
) -> tuple[Came, Counter[str]]:
    """One replica, warm, with both loads; what came of the three, and what callers of the fourth were told."""
    write_bad(folder, config)
    replica = await stage.replica("--revisions-dir", str(folder))
    profile = Profile(ApiServer(lambda: [replica.port]), asked, RATE * 3 / 4)
    bad = Callers(ApiServer(lambda: [replica.port]), RATE / 4)
    await profile.warm()
    calling = asyncio.create_task(bad.call())
    async with _breaking(folder) if breaks else _nothing():
        came = await profile.run(stage.lasts(SECONDS))
    bad.end()
    await calling
    await profile.client.close()
    await bad.client.close()
    replica.kill()
    return came, bad.told


@asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def _breaking(folder: Path) -> AsyncIterator[None]:
    """Write another invalid configuration every few seconds until the block ends."""

    async def breaks() -> None:
        for config in itertools.cycle(INVALID):
            write_bad(folder, config)
            await asyncio.sleep(RELOAD_EVERY)

    task = asyncio.create_task(breaks())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

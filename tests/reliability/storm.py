"""A folder of revisions in which something changes all the time, in every way in which folders are changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests import controlplanes
from tests.reliability.long.rows import Row
from tests.reliability.paired import Broken, Loads, Served, broken, loaded
from tests.reliability.replicas import Replica, Stage, trusting
from tests.reliability.versions import FAULTS, SMALL, InPlace, Mount, Texts, one_file_of, texts_of

MOUNTED: Final = "mounted"
EDITED: Final = "edited"
REMADE: Final = "remade"
SWAPS_PER_SECOND: Final = 20.0
EDITED_EVERY: Final = 5
DELETED_EVERY: Final = 25
REMADE_EVERY: Final = 20


@dataclass
class Storm:
    """Three revisions: one is a mounted ConfigMap, one is edited, one is deleted and made again.

    The ConfigMap is away at times, for the time of one swap. Whoever asks for a revision while its folder is not there is
    refused by right, so nobody asks for the one that is deleted before the storm is over.
    """

    folder: Path
    base: Texts = field(default_factory=lambda: SMALL)
    deletes: int = 0
    edits: int = 0
    remakes: int = 0

    def __post_init__(self) -> None:
        self._mount = Mount(self.folder / MOUNTED)
        self._edited, self._remade = InPlace(self.folder / EDITED), InPlace(self.folder / REMADE)

    def begin(self) -> None:
        """Write the first version of each."""
        self._mount.write(texts_of(0, self.base))
        self._edited.write(one_file_of(0, self.base))
        self._remade.write(one_file_of(0, self.base))

    async def rage(self, swaps: int) -> float:
        """Change again and again; at the end all are of version ``swaps``. Return how many swaps a second there were."""
        begun = time.monotonic()
        for number in range(1, swaps + 1):
            self._change(number, last=number == swaps)
            await asyncio.sleep(max(0.0, begun + number / SWAPS_PER_SECOND - time.monotonic()))
        return swaps / (time.monotonic() - begun)

    def _change(self, number: int, *, last: bool) -> None:
        if number % DELETED_EVERY == 0 and not last:
            self._mount.write({})
            self.deletes += 1
        else:
            self._mount.write(texts_of(number, self.base))
        if number % EDITED_EVERY == 0 or last:
            self._edited.edit("config", one_file_of(number, self.base)["config"])
            self.edits += 1
        if number % REMADE_EVERY == 0 or last:
            self._remade.make_anew(one_file_of(number, self.base))
            self.remakes += 1


async def live(replica: Replica, loads: Loads, version: int) -> float:
    """Wait until each revision of a storm is of a version; return the seconds that it took."""
    begun = time.monotonic()
    async with loaded(replica, [REMADE], rate=SWAPS_PER_SECOND, callers=1, tls=loads.client.tls) as late:
        all_loads = {**loads.by_name, **late.by_name}
        await asyncio.gather(*(Served(replica, name, load).serves(version) for name, load in all_loads.items()))
        took = time.monotonic() - begun
    assert late.failures == []
    return took


RATE = 150.0
SWAPS = 1_000
LAYOUTS: dict[str, type[Mount | InPlace]] = {"mounted": Mount, "in-place": InPlace}
OTHERS = ("r2", "r3")


def istio_texts() -> Texts:
    """The texts of a control plane of 1.30."""
    plane = controlplanes.plane_of(controlplanes.best("1.30"))
    return {"config": plane.config, "values": plane.values, "mesh": plane.mesh}


async def broken_config(stage: Stage) -> Sequence[Row]:
    """T9: each key of a revision made invalid, alone and torn, mounted and in place; two more revisions are served beside."""
    base, revisions = istio_texts(), stage.folder / "broken"
    folders = {name: layout(revisions / name) for name, layout in LAYOUTS.items()}
    for folder in (*folders.values(), *(InPlace(revisions / name) for name in OTHERS)):
        folder.write(texts_of(0, base))
    replica = await stage.replica("--revisions-dir", str(revisions), tls=True)
    came: list[tuple[bool, Broken]] = []
    async with loaded(replica, [*folders, *OTHERS], rate=RATE, tls=trusting(stage.certificate)) as loads:
        for name, folder in folders.items():
            version = 0
            served = Served(replica, name, loads.by_name[name])
            for fault in FAULTS:
                for torn in (False, True):
                    old, new, version = texts_of(version + torn, base), texts_of(version + 1, base), version + 1
                    outcome = await broken(served, folder, fault, old, new, version)
                    came.append((fault.says in outcome.reason and outcome.meanwhile == {version - 1}, outcome))
    slowest = max(outcome.seconds for _, outcome in came)
    right = sum(pair for pair, _ in came)
    figure = f"{failed(loads)}, {right} of {len(came)} last good and reason shown, told within {slowest:.2f} s"
    met = not loads.failures and right == len(came) and slowest < 1
    faults = f"{len(FAULTS)} faults, alone and torn, mounted and in place"
    return [Row(f"T9 {faults}, {RATE:g} rps", "0 failed or mixed, last good served, told < 1 s", figure, met)]


async def swapped_config(stage: Stage) -> Sequence[Row]:
    """T10: a mounted ConfigMap swapped a thousand times, its deletes, an editor's renames, and new folders."""
    storm = Storm(stage.folder / "swapped", istio_texts())
    storm.begin()
    replica = await stage.replica("--revisions-dir", str(storm.folder), tls=True)
    async with loaded(replica, [MOUNTED, EDITED], rate=RATE, tls=trusting(stage.certificate)) as loads:
        rate = await storm.rage(SWAPS)
        took = await live(replica, loads, SWAPS)
    reloads = int((await replica.metrics())["injector_config_reloads_total"])
    figure = f"{failed(loads)}, last live after {took:.2f} s, {reloads} reloads at {rate:.1f} swaps a second"
    kinds = f"{storm.deletes} deletes, {storm.edits} renames, {storm.remakes} new folders"
    met = not loads.failures and took < 1 and rate > 0.95 * SWAPS_PER_SECOND
    return [Row(f"T10 {SWAPS} swaps, {kinds}, {RATE:g} rps", "0 failed or mixed, last live < 1 s", figure, met)]


def failed(loads: Loads) -> str:
    """How many admissions failed, the first of them too."""
    first = f" ({loads.failures[0]})" if loads.failures else ""
    return f"{len(loads.failures)} of {loads.calls} failed{first}"

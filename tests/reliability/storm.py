"""A folder of revisions in which something changes all the time, in every way in which folders are changed."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.reliability.paired import Loads, Served, loaded
from tests.reliability.versions import SMALL, InPlace, Mount, Texts, one_file_of, texts_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.reliability.replicas import Replica

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
        each = {**loads.each, **late.each}
        await asyncio.gather(*(Served(replica, name, load).serves(version) for name, load in each.items()))
        took = time.monotonic() - begun
    assert late.failures == []
    return took

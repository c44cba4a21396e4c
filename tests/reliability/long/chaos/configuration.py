"""Configuration that breaks, is torn, or changes all the time under load, with Istio 1.30's own texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance import corpus
from tests.reliability.long.rows import Row
from tests.reliability.paired import Served, broken, loaded
from tests.reliability.replicas import trusting
from tests.reliability.storm import EDITED, MOUNTED, SWAPS_PER_SECOND, Storm, live
from tests.reliability.versions import FAULTS, SMALL, InPlace, Mount, Texts, texts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.reliability.long.chaos.stage import Stage
    from tests.reliability.paired import Broken, Loads
    from tests.reliability.replicas import Replica

RATE = 150.0
SWAPS = 1_000
LAYOUTS: dict[str, type[Mount | InPlace]] = {"mounted": Mount, "in-place": InPlace}
OTHERS = ("r2", "r3")


def istio_texts() -> Texts:
    """What a default installation of Istio 1.30 leaves; the smallest config where the corpus is not beside the project."""
    if not corpus.present():
        return SMALL
    settings = corpus.default_settings("1.30")
    assert settings.values is not None
    files = {"config": settings.config, "values": settings.values, "mesh": settings.mesh}
    return {key: path.read_text() for key, path in files.items()}


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
            served = Served(replica, name, loads.each[name])
            for fault in FAULTS:
                for torn in (False, True):
                    old, new, version = texts_of(version + torn, base), texts_of(version + 1, base), version + 1
                    found = await broken(served, folder, fault, old, new, version)
                    came.append((fault.says in found.reason and found.meanwhile == {version - 1}, found))
    told = max(found.told for _, found in came)
    right = sum(each for each, _ in came)
    figure = f"{failed(loads)}, {right} of {len(came)} last good and reason shown, told within {told:.2f} s"
    met = not loads.failures and right == len(came) and told < 1
    faults = f"{len(FAULTS)} faults, alone and torn, mounted and in place"
    return [Row(f"T9 {faults}, {RATE:g} rps", "0 failed or mixed, last good served, told < 1 s", figure, met)]


async def swapped_config(stage: Stage) -> Sequence[Row]:
    """T10: a mounted ConfigMap swapped a thousand times, its deletes, an editor's renames, and folders made anew."""
    storm = Storm(stage.folder / "swapped", istio_texts())
    storm.begin()
    replica = await stage.replica("--revisions-dir", str(storm.folder), tls=True)
    async with loaded(replica, [MOUNTED, EDITED], rate=RATE, tls=trusting(stage.certificate)) as loads:
        rate = await storm.rage(SWAPS)
        took = await live(replica, loads, SWAPS)
    reloads = await _reloads(replica)
    figure = f"{failed(loads)}, last live after {took:.2f} s, {reloads} reloads at {rate:.1f} swaps a second"
    kinds = f"{storm.deletes} deletes, {storm.edits} renames, {storm.remakes} folders made anew"
    met = not loads.failures and took < 1 and rate > 0.95 * SWAPS_PER_SECOND
    return [Row(f"T10 {SWAPS} swaps, {kinds}, {RATE:g} rps", "0 failed or mixed, last live < 1 s", figure, met)]


def failed(loads: Loads) -> str:
    """How many admissions failed, the first of them too."""
    first = f" ({loads.failures[0]})" if loads.failures else ""
    return f"{len(loads.failures)} of {loads.calls} failed{first}"


async def _reloads(replica: Replica) -> int:
    lines = (await replica.told("/metrics")).decode().splitlines()
    return int(float(next(line for line in lines if line.startswith("injector_config_reloads_total ")).split()[1]))

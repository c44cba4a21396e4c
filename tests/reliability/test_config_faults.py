"""Configuration that is broken, torn or swapped all the time, under load: no pod fails, none gets two versions at once.

The long runs are ``scripts/reliability chaos --only config`` and ``--only swaps``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.conftest import ReplicaFactory
from tests.reliability.paired import Served, broken, loaded
from tests.reliability.storm import EDITED, MOUNTED, Storm, live
from tests.reliability.versions import FAULTS, InPlace, Mount, texts_of

RATE = 60.0
SWAPS = 60


@pytest.mark.parametrize("layout", [Mount, InPlace])
async def test_the_last_good_version_is_served_whole_whatever_is_broken_and_the_reason_shown(
    layout: type[Mount | InPlace], start_replica: ReplicaFactory, tmp_path: Path
) -> None:
    folder = layout(tmp_path / "revisions" / "a")
    folder.write(texts_of(0))
    replica = start_replica("--insecure-http", "--revisions-dir", str(tmp_path / "revisions"))
    await replica.until_ready()
    async with loaded(replica, ["a"], rate=RATE) as loads:
        served = Served(replica, "a", loads.each["a"])
        for number, fault in enumerate(FAULTS, 1):
            # What is broken alone in the one layout is torn in the other: all other keys are of the new version already.
            torn = number % 2 == (layout is Mount)
            came = await broken(served, folder, fault, texts_of(number - (not torn)), texts_of(number), number)
            assert fault.says in came.reason, fault.name
            assert came.meanwhile == {number - 1}, fault.name

    assert loads.failures == []
    assert sorted(set(loads.each["a"].since(0.0))) == list(range(len(FAULTS) + 1))


async def test_a_storm_of_changes_fails_nobody_and_the_last_of_them_is_served(
    start_replica: ReplicaFactory, tmp_path: Path
) -> None:
    storm = Storm(tmp_path / "revisions")
    storm.begin()
    replica = start_replica("--insecure-http", "--revisions-dir", str(tmp_path / "revisions"))
    await replica.until_ready()
    async with loaded(replica, [MOUNTED, EDITED], rate=RATE) as loads:
        await storm.rage(SWAPS)
        await live(replica, loads, SWAPS)

    assert loads.failures == []
    assert all(len(set(load.since(0.0))) > 2 for load in loads.each.values())
    assert min(storm.deletes, storm.edits, storm.remakes) > 1

"""Faults of the API server and of configurations fail no pod, and none gets two versions. Long: ``watch``, ``config`` and ``swaps``.

What waits for minutes is tested with a clock of its own, in ``tests/cluster/test_listwatch.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from injector.cluster.resources import CONFIG_MAPS, PODS
from tests.cluster.fakes import item
from tests.reliability.kubeapi import FAULTS, STALL, kube_api
from tests.reliability.outage import REVISION, config_maps, flags, suffered
from tests.reliability.paired import Served, broken, loaded
from tests.reliability.replicas import Stage, resident
from tests.reliability.storm import EDITED, MOUNTED, Storm, live
from tests.reliability.versions import FAULTS as BROKEN
from tests.reliability.versions import SMALL, InPlace, Mount, texts_of
from tests.tasks import until

CROWD = 8_000
SUFFERED = [*(fault for fault in FAULTS if fault.name in ("410", "token expired", "refused")), STALL]
"""As many as fit into a few seconds: each is followed by a longer wait than the one before."""
RATE = 60.0
SWAPS = 60


async def test_no_fault_of_the_api_server_fails_an_admission_and_each_is_counted(stage: Stage, tmp_path: Path) -> None:
    async with kube_api(tmp_path / "api") as api:
        api.put(CONFIG_MAPS, *config_maps(0))
        replica = await stage.replica(*flags(api))
        async with loaded(replica, [REVISION], rate=30.0) as loads:
            served = Served(replica, REVISION, loads.by_name[REVISION])
            await until(lambda: "configmaps" in api.watched())
            for version, fault in enumerate(SUFFERED, 1):
                came = await suffered(api, served, fault, 1.0, (version, SMALL))
                assert came.reasons >= fault.reasons, fault.name
                assert came.rate <= 2 * len(api.watched()), fault.name

    assert loads.failures == []
    assert sorted(set(loads.by_name[REVISION].since(0.0))) == list(range(len(SUFFERED) + 1))


async def test_a_crowd_of_pods_is_counted_and_takes_no_memory_to_speak_of(stage: Stage, tmp_path: Path) -> None:
    labels = {"labels": {"istio.io/rev": "nobodys", "pod-template-hash": "5d9f"}, "annotations": {"note": "x" * 2_000}}
    async with kube_api(tmp_path / "api") as api:
        api.put(CONFIG_MAPS, *config_maps(0))
        replica = await stage.replica(*flags(api), "--watch-unserved")

        async def all_counted() -> bool:
            return (await replica.metrics()).get('injector_unserved_names{kind="pod"}') == CROWD

        async with loaded(replica, [REVISION], rate=30.0) as loads:
            await until(lambda: PODS.plural in api.watched())
            before = resident(replica.pid)
            for number in range(CROWD):
                pod = item(f"pod-{number}", number, "plain")
                pod["metadata"] |= labels
                api.put(PODS, pod)
            await until(all_counted)
            more = resident(replica.pid) - before

    assert loads.failures == []
    assert more < 10.0, "whole pods would take four times as much"


@pytest.mark.parametrize("layout", [Mount, InPlace])
async def test_the_last_good_version_is_served_and_the_reason_shown(
    layout: type[Mount | InPlace], stage: Stage, tmp_path: Path
) -> None:
    folder = layout(tmp_path / "revisions" / "a")
    folder.write(texts_of(0))
    replica = await stage.replica("--revisions-dir", str(tmp_path / "revisions"))
    async with loaded(replica, ["a"], rate=RATE) as loads:
        served = Served(replica, "a", loads.by_name["a"])
        for number, fault in enumerate(BROKEN, 1):
            # What is broken alone in the one layout is torn in the other: all other keys are of the new version already.
            torn = number % 2 == (layout is Mount)
            came = await broken(served, folder, fault, texts_of(number - (not torn)), texts_of(number), number)
            assert fault.says in came.reason, fault.name
            assert came.meanwhile == {number - 1}, fault.name

    assert loads.failures == []
    assert sorted(set(loads.by_name["a"].since(0.0))) == list(range(len(BROKEN) + 1))


async def test_a_storm_of_changes_fails_nobody_and_the_last_of_them_is_served(stage: Stage, tmp_path: Path) -> None:
    storm = Storm(tmp_path / "revisions")
    storm.begin()
    replica = await stage.replica("--revisions-dir", str(tmp_path / "revisions"))
    async with loaded(replica, [MOUNTED, EDITED], rate=RATE) as loads:
        await storm.rage(SWAPS)
        await live(replica, loads, SWAPS)

    assert loads.failures == []
    assert all(len(set(load.since(0.0))) > 2 for load in loads.by_name.values())
    assert min(storm.deletes, storm.edits, storm.remakes) > 1

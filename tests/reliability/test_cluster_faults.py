"""An API server that breaks watches, refuses, or is away: nobody is failed, and what changed meanwhile is served afterwards.

The long run is ``scripts/reliability chaos --only watch``; what waits for minutes is tested with a clock of its own, in
``tests/cluster/test_listwatch.py``.
"""

from __future__ import annotations

from pathlib import Path

from injector.cluster.resources import CONFIG_MAPS, PODS
from tests.cluster.fakes import item
from tests.reliability.conftest import ReplicaFactory
from tests.reliability.kubeapi import FAULTS, STALL, kube_api
from tests.reliability.outage import REVISION, config_maps, flags, suffered
from tests.reliability.paired import Served, loaded
from tests.reliability.replicas import resident, until
from tests.reliability.versions import SMALL

CROWD = 8_000
SUFFERED = [*(fault for fault in FAULTS if fault.name in ("410", "token expired", "refused")), STALL]
"""As many as fit into a few seconds: each is followed by a longer wait than the one before."""


async def test_no_fault_of_the_api_server_fails_an_admission_and_each_is_counted_and_got_over(
    start_replica: ReplicaFactory, tmp_path: Path
) -> None:
    async with kube_api(tmp_path / "api") as api:
        api.put(CONFIG_MAPS, *config_maps(0))
        replica = start_replica("--insecure-http", *flags(api))
        await replica.until_ready()
        async with loaded(replica, [REVISION], rate=30.0) as loads:
            served = Served(replica, REVISION, loads.each[REVISION])
            await until(lambda: "configmaps" in api.watched())
            for version, fault in enumerate(SUFFERED, 1):
                came = await suffered(api, served, fault, 1.0, (version, SMALL))
                assert came.reasons >= fault.reasons, fault.name
                assert came.rate <= 2 * len(api.watched()), fault.name

    assert loads.failures == []
    assert sorted(set(loads.each[REVISION].since(0.0))) == list(range(len(SUFFERED) + 1))


async def test_a_crowd_of_pods_is_counted_and_takes_no_memory_to_speak_of(
    start_replica: ReplicaFactory, tmp_path: Path
) -> None:
    labels = {"labels": {"istio.io/rev": "nobodys", "pod-template-hash": "5d9f"}, "annotations": {"note": "x" * 2_000}}
    async with kube_api(tmp_path / "api") as api:
        api.put(CONFIG_MAPS, *config_maps(0))
        replica = start_replica("--insecure-http", *flags(api), "--watch-unserved")
        await replica.until_ready()
        async with loaded(replica, [REVISION], rate=30.0) as loads:
            await until(lambda: PODS.plural in api.watched())
            before = resident(replica.pid)
            for number in range(CROWD):
                pod = item(f"pod-{number}", number, "plain")
                pod["metadata"] |= labels
                api.put(PODS, pod)
            counted = f'injector_unserved_names{{kind="pod"}} {float(CROWD)}'.encode()

            async def all_counted() -> bool:
                return counted in await replica.told("/metrics")

            await until(all_counted)
            more = resident(replica.pid) - before

    assert loads.failures == []
    assert more < 10.0, "whole pods would take four times as much"

"""An API server that breaks watches, refuses, or is away: nobody is failed, and what changed meanwhile is served afterwards.

The long run is ``scripts/bench chaos --only watch``; what waits for minutes is tested with a clock of its own, in
``tests/cluster/test_listwatch.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from injector.cluster.resources import CONFIG_MAPS
from tests.reliability.kubeapi import FAULTS, STALL, kube_api
from tests.reliability.outage import REVISION, config_maps, flags, suffered
from tests.reliability.paired import Served, loaded
from tests.reliability.versions import SMALL

if TYPE_CHECKING:
    from pathlib import Path

    from tests.reliability.conftest import ReplicaFactory

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
            await served.until(lambda: "configmaps" in api.watched())
            for version, fault in enumerate(SUFFERED, 1):
                came = await suffered(api, served, fault, 1.0, (version, SMALL))
                assert came.reasons >= fault.reasons, fault.name
                assert came.rate <= 2 * len(api.watched()), fault.name

    assert loads.failures == []
    assert sorted(set(loads.each[REVISION].since(0.0))) == list(range(len(SUFFERED) + 1))

"""An API server that goes wrong while pods are created by a revision that it holds."""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from injector.cluster.resources import CONFIG_MAPS, NAMESPACES, PODS
from tests.manifests import revision_maps
from tests.reliability.kubeapi import FAULTS, STALL, Fault, KubeApi, kube_api
from tests.reliability.long.rows import Row
from tests.reliability.paired import Served, loaded
from tests.reliability.replicas import Stage, resident
from tests.reliability.storm import failed, istio_texts
from tests.reliability.versions import SMALL, Texts, one_file_of
from tests.tasks import until

HOME: Final = "istio-system"
REVISION: Final = "canary"


def flags(api: KubeApi) -> tuple[str, ...]:
    """How the injector follows it."""
    return ("--from-cluster", "--kubeconfig", str(api.kubeconfig))


def config_maps(number: int, base: Texts = SMALL) -> tuple[dict[str, Any], ...]:
    """What Istio leaves of a version."""
    return revision_maps(HOME, REVISION, **one_file_of(number, base))


@dataclass(frozen=True)
class Outage:
    """What came of a fault.

    ``rate`` is requests a second while it lasted, ``again`` the seconds until every resource was asked for again, ``live``
    until what changed meanwhile was served, ``reasons`` what was counted.
    """

    fault: Fault
    rate: float
    again: float
    live: float
    reasons: frozenset[str]


async def suffered(api: KubeApi, served: Served, fault: Fault, seconds: float, new: tuple[int, Texts]) -> Outage:
    """Let a fault last so long, and until it was met; change the ConfigMap meanwhile, and wait until that is served."""
    resources, before = api.watched(), await counted(served)
    begun = await api.begin(fault)
    await asyncio.sleep(seconds / 2)
    api.put(CONFIG_MAPS, *config_maps(*new))
    await asyncio.sleep(seconds / 2)

    async def all_counted() -> bool:
        return fault.reasons <= (await counted(served) - before).keys()

    await until(all_counted)
    faults = await counted(served) - before
    end = await api.end() if fault.lasts else begun
    # Where nobody can connect, only the injector knows how often it tried. That open watches were cut is no request.
    requests = max(len(api.since(begun)) - len(api.since(end)), faults.total() - faults["cut"])
    live = await served.serves(new[0])
    # More may be watched by now: a fault can begin before a starting replica watches everything.
    await until(lambda: api.watched() >= resources)
    again = [request for request in api.since(end, answered=True) if request.resource in resources]
    # A watch that lived through it asks for nothing.
    first = [min((request.at for request in again if request.resource == name), default=end) for name in resources]
    return Outage(fault, requests / max(end - begun, 1.0), max(first) - end, live, frozenset(faults))


async def counted(served: Served) -> Counter[str]:
    """How many faults of watches were counted, by reason."""
    counts: Counter[str] = Counter()
    for name, value in (await served.replica.metrics()).items():
        if name.startswith("injector_watch_faults_total{"):
            counts[name.partition('reason="')[2].partition('"')[0]] += int(value)
    return counts


RATE = 20.0
LASTS = 20.0
REFUSED, STALLED = 300.0, 600.0
STEADY = 12.0
"""Seconds of peace between two faults: a watch that lasted for ten is a good one, and the next wait is short again."""
REACHED = 5.0
PODS_THERE, NAMESPACES_THERE = 20_000, 2_000
ROUNDS = 3
INJECTED = 300
MOST_MIB = 10.0


async def faulty_api(stage: Stage) -> Sequence[Row]:
    """T11: every fault of an API server, one after the other; beside them one that refuses for long and one that is silent for longer."""
    refused = next(fault for fault in FAULTS if fault.refused)
    runs = await asyncio.gather(
        _suffered(stage, "faults", [(fault, LASTS) for fault in FAULTS]),
        _suffered(stage, "refused", [(refused, REFUSED)]),
        _suffered(stage, "stall", [(STALL, STALLED)]),
    )
    return [row for run in runs for row in run]


async def _suffered(stage: Stage, name: str, faults: Sequence[tuple[Fault, float]]) -> list[Row]:
    base = istio_texts()
    async with kube_api(stage.folder / name) as api:
        api.put(CONFIG_MAPS, *config_maps(0, base))
        # With as many watches as there can be: six, since nodes are followed for 1.30 too.
        replica = await stage.replica(*flags(api), "--watch-unserved")
        came: list[tuple[float, Outage]] = []
        async with loaded(replica, [REVISION], rate=RATE) as loads:
            served = Served(replica, REVISION, loads.by_name[REVISION])
            for version, (fault, seconds) in enumerate(faults, 1):
                await asyncio.sleep(STEADY)
                lasts = seconds if fault.lasts else 0.0
                came.append((lasts, await suffered(api, served, fault, lasts, (version, base))))
        return [_row(seconds, outage, failed(loads), not loads.failures) for seconds, outage in came]


def _row(seconds: float, outage: Outage, text: str, good: bool) -> Row:
    lasted = f" for {seconds:g} s" if seconds else ""
    rate = f", {outage.rate:.2f} requests a second meanwhile" if seconds else ""
    figure = f"asked again after {outage.again:.1f} s, live after {outage.live:.1f} s{rate}, {text}"
    met = good and outage.again < REACHED and (outage.rate <= 1 or not seconds)
    return Row(f"T11 {outage.fault.name}{lasted}", "relist < 5 s, <= 1 request/s while down, 0 failed", figure, met)


async def crowded_cluster(stage: Stage) -> Sequence[Row]:
    """T4: what the injector takes with 20,000 pods and 2,000 namespaces in the cluster, over what it takes with none."""
    rows = []
    for name, (more, labels) in {
        "--from-cluster": ((), {"istio.io/rev": REVISION}),
        "--watch-unserved, all served": (("--watch-unserved",), {"istio.io/rev": REVISION}),
        "--watch-unserved, none served": (("--watch-unserved",), {"istio.io/rev": "nobodys"}),
    }.items():
        empty, crowd = [], []
        for number in range(ROUNDS):
            empty.append(await _taken(stage, f"empty-{name}-{number}", more, {}, labels))
            there = {PODS.plural: PODS_THERE, NAMESPACES.plural: NAMESPACES_THERE}
            crowd.append(await _taken(stage, f"crowd-{name}-{number}", more, there, labels))
        differ = statistics.median(crowd) - statistics.median(empty)
        figure = f"{statistics.median(empty):.1f} MiB empty, {differ:+.1f} MiB with the crowd (medians of {ROUNDS})"
        what = f"T4 {PODS_THERE} pods, {NAMESPACES_THERE} namespaces, {name}"
        rows.append(Row(what, f"RSS differs < {MOST_MIB:g} MiB", figure, differ < MOST_MIB))
    return rows


async def _taken(stage: Stage, name: str, more: Sequence[str], there: dict[str, int], labels: dict[str, str]) -> float:
    async with kube_api(stage.folder / name.replace(" ", "_")) as api:
        api.put(CONFIG_MAPS, *config_maps(0, istio_texts()))
        api.put(NAMESPACES, *(_namespace(number, labels) for number in range(there.get(NAMESPACES.plural, 0))))
        api.put(PODS, *(_pod(number, labels) for number in range(there.get(PODS.plural, 0))))
        replica = await stage.replica(*flags(api), *more)
        async with loaded(replica, [REVISION], rate=100.0) as loads:
            await until(lambda: len(loads.by_name[REVISION].answers) > INJECTED)
            if more:
                await until(lambda: {PODS.plural, NAMESPACES.plural} <= api.watched())
            await asyncio.sleep(2.0)
        assert loads.failures == []
        memory = resident(replica.pid)
        replica.kill()
        return memory


def _namespace(number: int, labels: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": f"team-{number}", "labels": {"kubernetes.io/metadata.name": f"team-{number}", **labels}}
    return {"metadata": {**metadata, "annotations": {"owner": "x" * 200}}, "spec": {}, "status": {"phase": "Active"}}


def _pod(number: int, labels: dict[str, str]) -> dict[str, Any]:
    """A pod of one of the namespaces, whose own label does not count; one in ten stands in a namespace without a label."""
    home = f"team-{number % NAMESPACES_THERE}" if number % 10 else "plain"
    metadata = {"name": f"web-5d9f-{number}", "namespace": home, "labels": {"app": "web", **labels}}
    return {"metadata": {**metadata, "annotations": {"note": "x" * 500}}, "spec": {"containers": [{"name": "app"}]}}

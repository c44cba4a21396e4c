"""An API server that goes wrong while pods are created by a revision that it holds."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.reader import CONFIG_MAPS
from tests.e2e.manifests import config_map
from tests.reliability.paired import LOOK
from tests.reliability.replicas import LIMIT
from tests.reliability.versions import SMALL, one_file_of

if TYPE_CHECKING:
    from tests.reliability.kubeapi import Fault, KubeApi
    from tests.reliability.paired import Served
    from tests.reliability.versions import Texts

HOME: Final = "istio-system"
REVISION: Final = "canary"


def flags(api: KubeApi) -> tuple[str, ...]:
    """How the injector follows it."""
    return ("--from-cluster", "--kubeconfig", str(api.kubeconfig))


def config_maps(number: int, base: Texts = SMALL) -> tuple[dict[str, Any], ...]:
    """What Istio leaves of a version."""
    texts = one_file_of(number, base)
    suffix = f"-{REVISION}"
    return (
        config_map(f"istio-sidecar-injector{suffix}", HOME, REVISION, config=texts["config"], values=texts["values"]),
        config_map(f"istio{suffix}", HOME, REVISION, mesh=texts["mesh"]),
    )


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
    async with asyncio.timeout(LIMIT):
        while not fault.reasons <= (faults := await counted(served) - before).keys():  # noqa: ASYNC110 -- it is another process
            await asyncio.sleep(LOOK)
    ended = await api.end() if fault.lasts else begun
    # Where nobody can connect, only the injector knows how often it tried. That open watches were cut is no request.
    asked = max(len(api.since(begun)) - len(api.since(ended)), faults.total() - faults["cut"])
    live = await served.serves(new[0])
    await served.until(lambda: api.watched() == resources)
    again = [each for each in api.since(ended, answered=True) if each.resource in resources]
    # A watch that lived through it asks for nothing.
    first = [min((each.at for each in again if each.resource == name), default=ended) for name in resources]
    return Outage(fault, asked / max(ended - begun, 1.0), max(first) - ended, live, frozenset(faults))


async def counted(served: Served) -> Counter[str]:
    """How many faults of watches were counted, by reason."""
    found: Counter[str] = Counter()
    for line in (await served.replica.told("/metrics")).decode().splitlines():
        if line.startswith("injector_watch_faults_total{"):
            found[line.partition('reason="')[2].partition('"')[0]] += int(float(line.rsplit(" ", 1)[1]))
    return found

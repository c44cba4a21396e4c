"""Start or continue upgrades of one cluster, for the command and for the server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from injector.cluster.session import ThreadSession
from injector.upgrade.plan import Plan, check_tag, make_plan
from injector.upgrade.run import Runner
from injector.upgrade.store import Store, write_tag
from injector.upgrade.survey import read_fleet

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient
    from injector.fleet.sources import RevisionSources
    from injector.metrics import Metrics
    from injector.revisions.tags import Tag
    from injector.upgrade.document import Upgrade
    from injector.upgrade.gates import BearerToken
    from injector.upgrade.state import State


@dataclass(frozen=True, slots=True)
class Launcher:
    """Runs upgrades of one cluster with one client, on the event loop that the client belongs to. See ``Runner`` for the arguments.

    The work of reading and planning is done in a thread, because the event loop of a server answers admissions. While 5,000 workloads
    were read and compared, it was late by at most 0.34 s on a busy machine, instead of 3.3 s. One upgrade after the other does it:
    several would take the processor and every thread of the server, which reloads its configuration in one.
    """

    client: KubeClient
    sources: RevisionSources
    metrics: Metrics
    say: Callable[[Upgrade, State], None]
    token: BearerToken | None = None
    _planning: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self, store: Store, raw: Mapping[str, Any], document: Upgrade) -> State:
        """Run an upgrade until it ends or is paused, and return its state. Raises InjectorError if it cannot be started or go on."""
        home = self.sources.istio_namespace
        move_tag = partial(write_tag, ThreadSession(asyncio.get_running_loop(), self.client), home)
        await store.start(raw, document, partial(self._read_tag, document), time.time())
        return await Runner(self.client, store, home, self._survey, move_tag, self.metrics, self.say, self.token).run()

    async def _read_tag(self, document: Upgrade) -> Tag | None:
        """Return the tag of an upgrade as it is now; None if it has none. Raises InjectorError if the upgrade cannot move it."""
        async with self._planning:
            tag = (await read_fleet(self.client, self.sources, document, asyncio.to_thread)).tag
        if tag is not None:
            check_tag(document, tag)
        return tag

    async def _survey(self, document: Upgrade, before: Tag | None, wave: int | None) -> Plan:
        """Return the plan of an upgrade from the tag before it, with the classes of change of one wave."""
        waves = () if wave is None else (wave,)
        async with self._planning:
            fleet = await read_fleet(self.client, self.sources, document, asyncio.to_thread)
            return await asyncio.to_thread(
                make_plan, document, before, fleet.workloads, fleet.source, fleet.target, waves
            )

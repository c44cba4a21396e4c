"""Keeps ``caBundle`` of the webhooks that call this injector equal to the CA of its certificate.

As the loop of sidecar-injector (Istio 1.4, sidecar-injector/cmd/sidecar-injector/main.go patchCertLoop) and of istiod
(1.30, pkg/webhooks/webhookpatch.go), except for the rate: each object is written at most once a second, however often
another client changes it, and less often after each error.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from injector.cluster.listwatch import ListWatch
from injector.cluster.reader import WEBHOOKS, Scope
from injector.cluster.webhooks import MANAGER, bundle_patch
from injector.errors import ClusterError, InjectorError, whereabouts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from injector.cluster.listwatch import Client, Observer
    from injector.cluster.reader import Resource
    from injector.cluster.webhooks import OwnWebhooks, Target
    from injector.webhook.selfsigned import BundleRollout

_log = logging.getLogger(__name__)

PACE: Final = 1.0
"""Seconds between two patches of one object."""
WAITS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
"""After errors."""
JITTER: Final = 0.25
_NOT_FOUND: Final = 404
WATCH: Final = "cabundle"
"""The watch's ``resource`` in the metrics."""


class PatchClient(Protocol):
    """What is needed of the API server's client beside a list/watch."""

    async def patch(
        self, resource: Resource, name: str, operations: Sequence[Mapping[str, Any]], *, manager: str
    ) -> dict[str, Any]:
        """Change one object by a JSON patch."""


class PatchObserver(Protocol):
    """Who is told how the patches fare."""

    def cabundle_attempt(self, *, patched: bool) -> None:
        """Count an attempt."""

    def cabundle_outdated(self, count: int) -> None:
        """Note how many webhooks have another bundle."""


@dataclass(frozen=True, slots=True)
class _Named:
    """Tells of the watch by a name of its own: the tags of a cluster are a watch of the same resource."""

    observer: Observer

    def watch_fault(self, resource: str, reason: str) -> None:  # noqa: ARG002 -- an observer's signature
        self.observer.watch_fault(WATCH, reason)

    def watch_synced(self, resource: str, *, synced: bool) -> None:  # noqa: ARG002 -- an observer's signature
        self.observer.watch_synced(WATCH, synced=synced)


@dataclass(slots=True)
class _Turn:
    """When an object may be patched again, and how many attempts failed in a row."""

    earliest: float = 0.0
    failed: int = 0


class CaBundles:
    """The loop.

    Args:
        client: the API server.
        target: which webhooks.
        bundle: returns the bundle that they should have; None while that is not known.
        spread: is notified once all of them have it.
        observer: counts attempts and outdated webhooks.
        clock: returns monotonic seconds.
        chance: returns a random number from 0 to 1.
    """

    def __init__(  # noqa: PLR0913 -- clock and chance are for tests alone
        self,
        client: PatchClient,
        target: Target,
        bundle: Callable[[], bytes | None],
        *,
        spread: BundleRollout,
        observer: PatchObserver,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._target = target
        self._bundle = bundle
        self._spread = spread
        self._observer = observer
        self._clock = clock
        self._chance = chance
        self._known: dict[str, OwnWebhooks] | None = None
        self._turns: dict[str, _Turn] = {}
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Look at the bundle, which may have changed."""
        self._woken.set()

    def saw(self, known: Mapping[str, OwnWebhooks]) -> None:
        """Take the current webhooks."""
        self._known = dict(known)
        self._turns = {name: turn for name, turn in self._turns.items() if name in known}
        self._woken.set()

    async def follow(self, client: Client, observer: Observer) -> None:
        """Watch the webhooks and patch those with another bundle, for ever."""
        scope = Scope(WEBHOOKS, name=self._target.configuration)
        watch = ListWatch(client, scope, keep=self._target.keep, changed=self.saw, observer=_Named(observer))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch.run())
            tasks.create_task(self.work())

    async def work(self) -> None:
        """Patch the webhooks with another bundle, for ever."""
        while True:
            self._woken.clear()
            pause = await self.step()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._woken.wait()

    async def step(self) -> float | None:
        """Patch the webhooks that may be patched now. Return the seconds until the next try, or None if there is nothing to do."""
        bundle, pause = self._bundle(), math.inf
        outdated = self._outdated(bundle)
        if outdated:
            self._spread.note(None)
        for name in outdated:
            wait = self._turns.setdefault(name, _Turn()).earliest - self._clock()
            if wait <= 0:
                await self._patch(name, bundle)
                wait = self._turns[name].earliest - self._clock() if name in self._turns else 0.0
            pause = min(pause, max(wait, 0.0))
        left = self._outdated(bundle)
        self._observer.cabundle_outdated(len(left))
        self._spread.note(None if self._known is None or left else bundle)
        return None if math.isinf(pause) else pause

    def _outdated(self, bundle: bytes | None) -> list[str]:
        if bundle is None or self._known is None:
            return []
        return [name for name, own in self._known.items() if own.outdated(bundle)]

    async def _patch(self, name: str, bundle: bytes | None) -> None:
        own = (self._known or {}).get(name)
        if bundle is None or own is None:
            # The watch has seen it deleted while another object was patched.
            self._turns.pop(name, None)
            return
        turn = self._turns[name]
        try:
            found = await self._client.patch(WEBHOOKS, name, bundle_patch(own, bundle), manager=MANAGER)
        except Exception as error:  # noqa: BLE001 -- the loop of the task, which must not end; each is counted
            if isinstance(error, ClusterError) and error.status == _NOT_FOUND:
                # It is deleted; the watch reports it in a moment.
                turn.earliest = self._clock() + PACE
                return
            self._observer.cabundle_attempt(patched=False)
            wait = WAITS[min(turn.failed, len(WAITS) - 1)] * (1 + JITTER * self._chance())
            if not turn.failed:
                told = error if isinstance(error, InjectorError) else whereabouts(error)
                _log.warning("caBundle of MutatingWebhookConfiguration %s: %s", name, told)
            turn.failed += 1
        else:
            self._observer.cabundle_attempt(patched=True)
            _log.info("caBundle of MutatingWebhookConfiguration %s: brought up to date", name)
            wait, turn.failed = PACE, 0
            self._learned(name, found)
        turn.earliest = self._clock() + wait

    def _learned(self, name: str, found: Mapping[str, Any]) -> None:
        """Take the patched object. The watch reports it a little later."""
        if self._known is not None and name in self._known and (own := self._target.keep(found)) is not None:
            self._known[name] = own

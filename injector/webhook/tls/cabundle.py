"""Keeps ``caBundle`` of the webhooks that call this injector equal to the CA of its certificate.

Follows sidecar-injector (Istio 1.4, sidecar-injector/cmd/sidecar-injector/main.go patchCertLoop) and istiod (1.30,
pkg/webhooks/webhookpatch.go), except for the rate: each object is patched at most once a second, even if another client changes it more
often, and less often after errors.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from injector.backoff import backoff
from injector.cluster.listwatch import ListWatch
from injector.cluster.resources import WEBHOOKS, Scope
from injector.cluster.webhooks import BUNDLE_MANAGER, OwnWebhooks, WebhookSelector, bundle_patch
from injector.errors import ClusterError, InjectorError, whereabouts

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient
    from injector.metrics import Metrics
    from injector.webhook.tls.selfsigned import BundleRollout

_log = logging.getLogger(__name__)

PATCH_INTERVAL: Final = 1.0
"""Seconds between two patches of one object."""
MAX_RETRY_WAIT: Final = 60.0
"""Maximum seconds until the next try after errors."""
_JITTER: Final = 0.25
_NOT_FOUND: Final = 404
WATCH: Final = "cabundle"
"""The name of this watch in the metrics, because the tags of a cluster are a watch of the same resource."""


@dataclass(slots=True)
class _Retry:
    """When an object may be patched again, and how many attempts have failed in a row."""

    earliest: float = 0.0
    failures: int = 0


@dataclass
class CaBundles:
    """Keeps the webhooks' ``caBundle`` up to date.

    Args:
        bundle: returns the current bundle; None while it is not known.
        rollout: is notified when all webhooks have it.
        refresh: reads the bundle again, before webhooks are patched: another replica may have written a newer one into them.
    """

    client: KubeClient
    selector: WebhookSelector
    bundle: Callable[[], bytes | None]
    rollout: BundleRollout
    metrics: Metrics
    refresh: Callable[[], Awaitable[None]] | None = None
    _webhooks: dict[str, OwnWebhooks] | None = None
    _retries: defaultdict[str, _Retry] = field(default_factory=lambda: defaultdict(_Retry))
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Check the bundle, which may have changed."""
        self._woken.set()

    def webhooks_changed(self, webhooks: Mapping[str, OwnWebhooks]) -> None:
        """Use the current webhooks."""
        self._webhooks = dict(webhooks)
        for name in self._retries.keys() - webhooks.keys():
            del self._retries[name]
        self._woken.set()

    async def follow(self, ready: asyncio.Event) -> None:
        """Watch the webhooks and patch outdated ones until cancelled. The server does not wait for it."""
        ready.set()
        scope = Scope(WEBHOOKS, name=self.selector.configuration, watch_name=WATCH)
        watch = ListWatch(
            self.client,
            scope,
            keep=self.selector.keep,
            changed=self.webhooks_changed,
            metrics=self.metrics,
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch.run())
            tasks.create_task(self.work())

    async def work(self) -> None:
        """Patch outdated webhooks until cancelled."""
        while True:
            self._woken.clear()
            pause = await self.step()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._woken.wait()

    async def step(self) -> float | None:
        """Patch the webhooks that are due. Return the seconds until the next try, or None if all are up to date."""
        bundle, pause = self.bundle(), math.inf
        outdated = self._find_outdated(bundle)
        if outdated:
            self.rollout.note(None)
        if self.refresh is not None and any(self._wait(name) <= 0 for name in outdated):
            await self.refresh()
            if self.bundle() != bundle:
                return 0.0
            outdated = self._find_outdated(bundle)
        for name in outdated:
            if self._wait(name) <= 0:
                await self._patch(name, bundle)
            pause = min(pause, max(self._wait(name), 0.0))
        still_outdated = self._find_outdated(bundle)
        self.metrics.cabundle_outdated.set(len(still_outdated))
        self.rollout.note(None if self._webhooks is None or still_outdated else bundle)
        return None if math.isinf(pause) else pause

    def _wait(self, name: str) -> float:
        """Return the seconds until an object may be patched."""
        return self._retries[name].earliest - asyncio.get_running_loop().time()

    def _find_outdated(self, bundle: bytes | None) -> list[str]:
        if bundle is None or self._webhooks is None:
            return []
        return [name for name, own in self._webhooks.items() if own.find_outdated(bundle)]

    async def _patch(self, name: str, bundle: bytes | None) -> None:
        own = (self._webhooks or {}).get(name)
        if bundle is None or own is None:
            return  # it was deleted while another object was patched
        retry, clock = self._retries[name], asyncio.get_running_loop().time
        try:
            patched = await self.client.patch(WEBHOOKS, name, bundle_patch(own, bundle), manager=BUNDLE_MANAGER)
        except Exception as error:  # noqa: BLE001 -- the loop goes on; the error is counted
            if isinstance(error, ClusterError) and error.status == _NOT_FOUND:
                # It was deleted. The watch will report that.
                retry.earliest = clock() + PATCH_INTERVAL
                return
            self.metrics.cabundle_attempts.inc()
            wait = backoff(retry.failures, MAX_RETRY_WAIT) * (1 + _JITTER * random.random())  # noqa: S311 -- jitter
            if not retry.failures:
                cause = error if isinstance(error, InjectorError) else whereabouts(error)
                _log.warning("caBundle of MutatingWebhookConfiguration %s: %s", name, cause)
            retry.failures += 1
        else:
            self.metrics.cabundle_attempts.inc()
            self.metrics.cabundle_patches.inc()
            _log.info("caBundle of MutatingWebhookConfiguration %s: updated", name)
            wait, retry.failures = PATCH_INTERVAL, 0
            self._note_patched(name, patched)
        retry.earliest = clock() + wait

    def _note_patched(self, name: str, patched: Mapping[str, Any]) -> None:
        """Use the patched object, which the watch reports a little later."""
        if self._webhooks is not None and name in self._webhooks and (own := self.selector.keep(patched)) is not None:
            self._webhooks[name] = own

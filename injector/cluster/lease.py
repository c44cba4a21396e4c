"""Leader election: of several processes, the one that holds a Lease works.

Follows client-go (tools/leaderelection/leaderelection.go of Kubernetes 1.35) with its defaults. A lease has expired if it was not renewed
for its duration on the clock of the process that waits, so clocks may differ. ``kubernetes_asyncio.leaderelection`` is not used: a broken
connection ends it with an error, its times have no zone, and it does not wait for the work that it cancels.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.resources import Resource, find_object
from injector.errors import ClusterError

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient

_log = logging.getLogger(__name__)

LEASES: Final = Resource("coordination.k8s.io/v1", "leases", "Lease", namespaced=True)
LEASE_MANAGER: Final = "injector-lease"
DURATION: Final = 15
RENEW_DEADLINE: Final = 10.0
RETRY_INTERVAL: Final = 2.0
_SILENT: Final = "the API server does not answer"


@dataclass
class Lease:
    """A Lease. ``identity`` is the name of this process, which no other one has."""

    client: KubeClient
    namespace: str
    name: str
    identity: str
    _record: Mapping[str, Any] = field(default_factory=dict)
    _observed_at: float = 0.0
    _fault: str = ""

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run ``work`` whenever this process holds the lease, until cancelled. ``work`` runs until it is cancelled, or raises."""
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            if not await self._acquire(RENEW_DEADLINE):
                await asyncio.sleep(RETRY_INTERVAL)
                continue
            _log.info("%s holds Lease %s/%s", self.identity, self.namespace, self.name)
            task = asyncio.ensure_future(work())
            try:
                await self._keep(task, began)
            finally:
                task.cancel()
                await asyncio.wait([task])
                await self._release()
            if not task.cancelled():
                task.result()
            _log.warning("%s lost Lease %s/%s", self.identity, self.namespace, self.name)

    async def _keep(self, task: asyncio.Future[None], renewed: float) -> None:
        """Renew the lease until it is lost or the task ends. ``renewed`` is when the last successful request began."""
        loop = asyncio.get_running_loop()
        while loop.time() - renewed < RENEW_DEADLINE:
            done, _ = await asyncio.wait([task], timeout=RETRY_INTERVAL)
            if done:
                return
            began = loop.time()
            if await self._acquire(max(renewed + RENEW_DEADLINE - began, 0.0)):
                renewed = began
            elif self._record.get("holderIdentity") != self.identity:
                return

    async def _acquire(self, limit: float) -> bool:
        """Take or renew the lease within ``limit`` seconds. Return False if another process holds it, or on an error."""
        try:
            async with asyncio.timeout(limit):
                return await self._write(self.identity)
        except (ClusterError, TimeoutError) as error:
            fault = str(error) or _SILENT
            if fault != self._fault and not (isinstance(error, ClusterError) and error.reason == "conflict"):
                _log.warning("Lease %s/%s: %s", self.namespace, self.name, fault)
            self._fault = fault
            return False

    async def _release(self) -> None:
        """Let another process take the lease at once, if this one still holds it."""
        try:
            async with asyncio.timeout(RETRY_INTERVAL):
                await self._write("")
        except (ClusterError, TimeoutError) as error:
            _log.info("Lease %s/%s is not released, and expires: %s", self.namespace, self.name, str(error) or _SILENT)

    async def _write(self, holder: str) -> bool:
        """Write ``holder`` unless another process holds the lease."""
        meta = {"name": self.name, "namespace": self.namespace}
        item = await find_object(self.client, LEASES, self.name, namespace=self.namespace) or {"metadata": meta}
        spec = item.get("spec") or {}
        now = asyncio.get_running_loop().time()
        if spec != self._record:
            self._record, self._observed_at = spec, now
        current = spec.get("holderIdentity") or ""
        is_own = current == self.identity
        if not is_own and (
            not holder or (current and now < self._observed_at + (spec.get("leaseDurationSeconds") or DURATION))
        ):
            return False
        time = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        written = {
            "holderIdentity": holder,
            "leaseDurationSeconds": DURATION if holder else 1,
            "acquireTime": spec.get("acquireTime", time) if is_own else time,
            "renewTime": time,
            "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (not is_own),
        }
        if "resourceVersion" in item["metadata"]:
            await self.client.replace(LEASES, {**item, "spec": written}, manager=LEASE_MANAGER)
        else:
            await self.client.create(LEASES, {"metadata": meta, "spec": written}, manager=LEASE_MANAGER)
        self._record, self._observed_at, self._fault = written, now, ""
        return True

"""An API server of this process that keeps objects: versions, conflicts, JSON patches and watches, and faults on demand."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jsonpatch

from injector.cluster.client import KubeClient, Page
from injector.cluster.resources import Resource, Scope
from injector.errors import ClusterError


def refusal(reason: str, status: int = 0) -> ClusterError:
    return ClusterError(f"told {reason}", where="api", hint="wait", reason=reason, status=status)


@dataclass
class FakeApi(KubeClient):
    """Objects by plural, namespace and name.

    ``fault`` is raised by every call while it is set, those of ``fault_of`` by the calls of that name. ``delay`` says how
    long the next answer takes. ``calls`` are the requests that came, with the time of the loop.
    """

    objects: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    fault: Exception | None = None
    fault_of: dict[str, Exception] = field(default_factory=dict)
    delay: Callable[[], float] = lambda: 0.0
    calls: list[tuple[float, str]] = field(default_factory=list)
    version: int = 0
    opened: int = 0
    closed: int = 0
    _told: list[tuple[int, str, str, dict[str, Any]]] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def count(self, call: str) -> int:
        return sum(each == call for _, each in self.calls)

    async def open(self) -> None:
        self.opened += 1
        if self.fault is not None:
            raise self.fault

    async def close(self) -> None:
        self.closed += 1

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        found = self.objects.get((resource.plural, namespace, name))  # as it is before the answer takes its time
        await self._called("get")
        if found is None:
            raise refusal("missing", 404)
        return copy.deepcopy(found)

    async def create(
        self, resource: Resource, manifest: Mapping[str, Any], *, manager: str, dry_run: bool = False
    ) -> dict[str, Any]:
        assert not dry_run
        await self._called("create")
        assert manager
        if _key(resource, manifest) in self.objects:
            raise refusal("conflict", 409)
        return self.put(resource, manifest)

    async def replace(
        self, resource: Resource, manifest: Mapping[str, Any], *, manager: str, subresource: str = ""
    ) -> dict[str, Any]:
        await self._called("replace")
        assert manager
        before = self.objects.get(_key(resource, manifest))
        if before is None:
            raise refusal("missing", 404)
        if before["metadata"]["resourceVersion"] != manifest["metadata"].get("resourceVersion"):
            raise refusal("conflict", 409)
        part = subresource.removeprefix("/")
        return self.put(resource, {**before, part: manifest[part]} if part else manifest)

    async def patch(
        self, resource: Resource, name: str, operations: Sequence[Mapping[str, Any]], *, manager: str
    ) -> dict[str, Any]:
        await self._called("patch")
        assert manager
        before = self.objects.get((resource.plural, "", name))
        if before is None:
            raise refusal("missing", 404)
        try:
            after = jsonpatch.apply_patch(before, [dict(each) for each in operations])
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
            raise refusal("refused", 422) from error
        return copy.deepcopy(before) if after == before else self.put(resource, after)

    async def page(self, scope: Scope, *, token: str = "", limit: int = 0) -> Page:
        del limit
        await self._called("list")
        assert token == ""
        found = [each for key, each in self.objects.items() if key[0] == scope.resource.plural]
        return Page(tuple(copy.deepcopy(found)), str(self.version))

    async def watch(self, scope: Scope, *, resource_version: str, seconds: int) -> AsyncGenerator[bytes, None]:
        del seconds
        await self._called("watch")
        seen = int(resource_version)
        while True:
            for version, plural, kind, subject in list(self._told):
                if version > seen and plural == scope.resource.plural:
                    seen = version
                    yield json.dumps({"type": kind, "object": subject}).encode()
            await self._news.wait()

    def put(self, resource: Resource, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Write an object."""
        self.version += 1
        written: dict[str, Any] = copy.deepcopy(dict(manifest))
        written["metadata"] = {**written["metadata"], "resourceVersion": str(self.version)}
        self.objects[_key(resource, written)] = written
        self._tell(resource, "MODIFIED", written)
        return copy.deepcopy(written)

    def drop(self, resource: Resource, name: str, namespace: str = "") -> None:
        gone = self.objects.pop((resource.plural, namespace, name))
        self.version += 1
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._tell(resource, "DELETED", gone)

    def _tell(self, resource: Resource, kind: str, subject: dict[str, Any]) -> None:
        self._told.append((self.version, resource.plural, kind, copy.deepcopy(subject)))
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _called(self, call: str) -> None:
        self.calls.append((asyncio.get_running_loop().time(), call))
        await asyncio.sleep(self.delay())  # another request may be answered first
        if (fault := self.fault or self.fault_of.get(call)) is not None:
            raise fault


def _key(resource: Resource, manifest: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return resource.plural, metadata.get("namespace", ""), metadata["name"]


def webhook_configuration(name: str = "injector", *webhooks: str, **annotations: str) -> dict[str, Any]:
    """A MutatingWebhookConfiguration whose webhooks call the Service ``injector`` of ``injector-system``."""
    service = {"name": "injector", "namespace": "injector-system", "path": "/inject"}
    hooks = [{"name": each, "clientConfig": {"service": service}} for each in webhooks or ("a.test.io",)]
    return {"metadata": {"name": name, "annotations": annotations}, "webhooks": hooks}

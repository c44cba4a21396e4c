"""An API server of this process that keeps objects: labels, pages, versions, conflicts, patches and watches, and faults on demand."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import jsonpatch

from injector.cluster.client import KubeClient, Page
from injector.cluster.resources import Resource, Scope
from injector.cluster.session import ClusterSession
from injector.errors import ClusterError

T = TypeVar("T")
PAGE = 2


def refusal(reason: str, status: int = 0) -> ClusterError:
    return ClusterError(f"told {reason}", where="api", hint="wait", reason=reason, status=status)


@dataclass
class FakeApi(KubeClient):
    """Objects by plural, namespace and name.

    ``fault`` is raised by every call while it is set, those of ``fault_of`` by the calls of that name, and ``refused`` has reasons why
    requests like `list pods` are refused. ``delay`` says how long the next answer takes, ``watches_are_served`` whether watches are told of
    changes. ``calls`` are the requests that came, with the time of the loop, and ``requests`` the same with their arguments.
    ``watching`` is watched now. ``applied`` was applied.
    """

    objects: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    fault: Exception | None = None
    fault_of: dict[str, Exception] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    delay: Callable[[], float] = lambda: 0.0
    watches_are_served: bool = True
    calls: list[tuple[float, str]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    watching: list[Scope] = field(default_factory=list)
    applied: list[dict[str, Any]] = field(default_factory=list)
    version: int = 0
    _lists: dict[Scope, list[dict[str, Any]]] = field(default_factory=dict)
    _events: list[tuple[int, str, str, dict[str, Any]]] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def count(self, call: str) -> int:
        return sum(name == call for _, name in self.calls)

    async def open(self) -> None:
        self.requests.append("open")
        self._refuse("open")

    async def close(self) -> None:
        self.requests.append("close")

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        obj = self.objects.get((resource.plural, namespace, name))  # as it is before the answer takes its time
        await self._called("get", resource, name)
        if obj is None:
            raise refusal("missing", 404)
        return copy.deepcopy(obj)

    async def find_resource(self, kind: str, group: str) -> Resource | None:
        self._refuse("find")
        versions = [str(obj.get("apiVersion")) for obj in self.objects.values() if obj["kind"] == kind]
        version = next((version for version in versions if version.rpartition("/")[0] == group), None)
        return None if version is None else Resource(version, f"{kind.lower()}s", kind, namespaced=True)

    async def create(
        self, resource: Resource, manifest: Mapping[str, Any], *, manager: str, dry_run: bool = False
    ) -> dict[str, Any]:
        assert manager
        assert not dry_run
        await self._called("create", resource, manager)
        if _key(resource, manifest) in self.objects:
            raise refusal("conflict", 409)
        return self._write(resource, manifest)

    async def replace(
        self, resource: Resource, manifest: Mapping[str, Any], *, manager: str, subresource: str = ""
    ) -> dict[str, Any]:
        assert manager
        await self._called("replace", resource, manager)
        before = self.objects.get(_key(resource, manifest))
        if before is None:
            raise refusal("missing", 404)
        if before["metadata"]["resourceVersion"] != manifest["metadata"].get("resourceVersion"):
            raise refusal("conflict", 409)
        part = subresource.removeprefix("/")
        return self._write(resource, {**before, part: manifest[part]} if part else manifest)

    async def patch(
        self, resource: Resource, name: str, operations: Sequence[Mapping[str, Any]], *, manager: str
    ) -> dict[str, Any]:
        assert manager
        await self._called("patch", resource, name, manager)
        before = self.objects.get((resource.plural, "", name))
        if before is None:
            raise refusal("missing", 404)
        try:
            after = jsonpatch.apply_patch(before, [dict(operation) for operation in operations])
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
            raise refusal("refused", 422) from error
        return copy.deepcopy(before) if after == before else self._write(resource, after)

    async def apply(
        self,
        resource: Resource,
        manifest: Mapping[str, Any],
        *,
        manager: str,
        force: bool = False,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Webhooks are merged by name, as the API server does. The owners of fields are not considered."""
        flags = [*(["force"] if force else []), *(["dry"] if dry_run else [])]
        await self._called("apply", resource, manifest["metadata"]["name"], manager, *flags)
        before = self.objects.get(_key(resource, manifest), {"metadata": {}})
        version = manifest["metadata"].get("resourceVersion")
        if version is not None and version != before["metadata"].get("resourceVersion"):
            raise ClusterError("the object has been modified", reason="conflict", status=409)
        if not dry_run:
            self.applied.append(copy.deepcopy(dict(manifest)))
            item = {**manifest, "metadata": {**before["metadata"], **manifest["metadata"]}}
            if "webhooks" in manifest:
                there = {webhook["name"]: webhook for webhook in before.get("webhooks", [])}
                webhooks = {
                    webhook["name"]: {**there.get(webhook["name"], {}), **webhook} for webhook in manifest["webhooks"]
                }
                item["webhooks"] = list({**there, **webhooks}.values())
            self.put(resource, item)
        return {}

    async def delete(
        self, resource: Resource, name: str, *, namespace: str = "", resource_version: str = "", dry_run: bool = False
    ) -> None:
        await self._called("try to delete" if dry_run else "delete", resource, name)
        if (obj := self.objects.get((resource.plural, namespace, name))) is None:
            raise refusal("missing", 404)
        assert resource_version == obj["metadata"]["resourceVersion"]
        if not dry_run:
            self.drop(resource, name, namespace)

    async def page(self, scope: Scope, *, token: str = "", limit: int = 0) -> Page:
        place = f"in {scope.namespace}" if scope.namespace else ""
        await self._called("list", scope.resource, place, scope.labels, scope.fields)
        if not token:
            self._lists[scope] = [obj for key, obj in sorted(self.objects.items()) if _is_in(scope, key[0], obj)]
        items, start = self._lists[scope], int(token or 0)
        end = start + (limit or PAGE)
        more = str(end) if end < len(items) else ""
        return Page(tuple(copy.deepcopy(items[start:end])), str(self.version), more)

    async def texts(self, scope: Scope, token: str = "") -> tuple[list[bytes], str]:
        page = await self.page(scope, token=token)
        return [json.dumps(item).encode() for item in page.items], page.token

    async def watch(self, scope: Scope, *, resource_version: str, seconds: int) -> AsyncGenerator[bytes, None]:
        del seconds
        await self._called("watch", scope.resource, scope.labels)
        last = int(resource_version)
        self.watching.append(scope)
        try:
            yield b""
            while True:
                for version, plural, kind, subject in list(self._events):
                    if version > last and _is_in(scope, plural, subject):
                        last = version
                        yield json.dumps({"type": kind, "object": subject}).encode()
                await self._news.wait()
        finally:
            self.watching.remove(scope)

    def put(self, resource: Resource, *manifests: Mapping[str, Any]) -> None:
        """Write objects."""
        for manifest in manifests:
            self._write(resource, manifest)

    def drop(self, resource: Resource, name: str, namespace: str = "") -> None:
        gone = self.objects.pop((resource.plural, namespace, name))
        self.version += 1
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._tell(resource, "DELETED", gone)

    def _write(self, resource: Resource, manifest: Mapping[str, Any]) -> dict[str, Any]:
        self.version += 1
        written: dict[str, Any] = copy.deepcopy({**manifest, "kind": resource.kind})
        written["metadata"]["resourceVersion"] = str(self.version)
        self.objects[_key(resource, written)] = written
        self._tell(resource, "MODIFIED", written)
        return copy.deepcopy(written)

    def _tell(self, resource: Resource, kind: str, subject: dict[str, Any]) -> None:
        if not self.watches_are_served:
            return
        self._events.append((self.version, resource.plural, kind, copy.deepcopy(subject)))
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _called(self, call: str, resource: Resource, *arguments: str) -> None:
        self.calls.append((asyncio.get_running_loop().time(), call))
        self.requests.append(" ".join([call, resource.plural, *filter(None, arguments)]))
        await asyncio.sleep(self.delay())  # another request may be answered first
        self._refuse(f"{call} {resource.plural}")

    def _refuse(self, what: str) -> None:
        if (fault := self.fault or self.fault_of.get(what.partition(" ")[0])) is not None:
            raise fault
        if reason := self.refused.get(what):
            raise ClusterError(f"the API server says no to {what}", where="https://api", reason=reason, status=403)


class Direct(ClusterSession):
    """A session of a client that has no credentials."""

    def __init__(self, client: KubeClient) -> None:
        super().__init__(cast("asyncio.Runner", None), client)

    def run(self, work: Callable[[KubeClient], Coroutine[Any, Any, T]]) -> T:
        return asyncio.run(work(self.client))


def _key(resource: Resource, manifest: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return resource.plural, metadata.get("namespace", ""), metadata["name"]


def _is_in(scope: Scope, plural: str, subject: dict[str, Any]) -> bool:
    is_there = not scope.namespace or subject["metadata"].get("namespace") == scope.namespace
    is_named = scope.name in ("", subject["metadata"]["name"])
    return plural == scope.resource.plural and is_there and is_named and selected(scope.labels, subject)


def selected(selector: str, subject: Mapping[str, Any]) -> bool:
    """Whether an object has the labels of a selector: ``a``, ``!a``, ``a=b``, ``a!=b``, ``a notin (b,c)``."""
    labels = subject["metadata"].get("labels") or {}
    return all(_holds(part, labels) for part in re.split(r",(?![^(]*\))", selector) if part)


def _holds(part: str, labels: Mapping[str, str]) -> bool:
    if " in (" in part:
        key, _, values = part.rstrip(")").partition(" in (")
        return labels.get(key) in values.split(",")
    for operator in (" notin ", "!=", "="):
        key, separator, value = part.partition(operator)
        if separator:
            return (labels.get(key) in value.strip("()").split(",")) == (operator == "=")
    return part[1:] not in labels if part.startswith("!") else part in labels


def webhook_configuration(name: str = "injector", *webhooks: str, **annotations: str) -> dict[str, Any]:
    """A MutatingWebhookConfiguration whose webhooks call the Service ``injector`` of ``injector-system``."""
    service = {"name": "injector", "namespace": "injector-system", "path": "/inject"}
    hooks = [{"name": webhook, "clientConfig": {"service": service}} for webhook in webhooks or ("a.test.io",)]
    return {"metadata": {"name": name, "annotations": annotations}, "webhooks": hooks}

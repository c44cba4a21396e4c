"""An API server that keeps objects: it lists by label in pages, applies, and deletes."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from injector.cluster.client import KubeClient, Page
from injector.cluster.kubeconfig import ClusterSession
from injector.cluster.resources import Resource, Scope
from injector.errors import ClusterError

T = TypeVar("T")
PAGE = 2


@dataclass
class Objects(KubeClient):
    """Objects by resource and name; `refused` are the requests that fail, as `list pods`, and the reason."""

    items: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    applied: list[dict[str, Any]] = field(default_factory=list)
    version: int = 100

    def put(self, resource: Resource, *found: Mapping[str, Any]) -> None:
        for each in found:
            self.version += 1
            item = {**copy.deepcopy(dict(each)), "kind": resource.kind}
            item["metadata"]["resourceVersion"] = str(self.version)
            self.items[resource.plural, _key(item["metadata"])] = item

    async def open(self) -> None:
        self._ask("open")

    async def close(self) -> None:
        self.asked.append("close")

    async def page(self, scope: Scope, *, token: str = "", limit: int = 0) -> Page:
        self._ask(f"list {scope.resource.plural}", scope.labels)
        found = [
            item
            for (plural, _), item in sorted(self.items.items())
            if plural == scope.resource.plural
            and (not scope.namespace or item["metadata"].get("namespace") == scope.namespace)
            and _matches(scope.labels, item["metadata"].get("labels") or {})
        ]
        start = int(token or 0)
        end = start + (limit or PAGE)
        more = str(end) if end < len(found) else ""
        return Page(tuple(copy.deepcopy(found[start:end])), str(self.version), more)

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        self._ask(f"get {resource.plural}", name)
        try:
            return copy.deepcopy(self.items[resource.plural, _key({"namespace": namespace, "name": name})])
        except KeyError:
            raise ClusterError("no such object", reason="missing", status=404) from None

    async def apply(
        self,
        resource: Resource,
        manifest: Mapping[str, Any],
        *,
        manager: str,
        force: bool = False,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Webhooks are merged by name, as the API server does; whose fields are whose is not minded."""
        name, key = manifest["metadata"]["name"], (resource.plural, _key(manifest["metadata"]))
        self._ask(
            f"apply {resource.plural}", name, manager, *(["force"] if force else []), *(["dry"] if dry_run else [])
        )
        before = self.items.get(key, {"metadata": {}})
        version = manifest["metadata"].get("resourceVersion")
        if version is not None and version != before["metadata"].get("resourceVersion"):
            raise ClusterError("the object has been modified", reason="conflict", status=409)
        if not dry_run:
            self.applied.append(copy.deepcopy(dict(manifest)))
            item = {**manifest, "metadata": {**before["metadata"], **manifest["metadata"]}}
            if "webhooks" in manifest:
                there = {webhook["name"]: webhook for webhook in before.get("webhooks", [])}
                webhooks = {each["name"]: {**there.get(each["name"], {}), **each} for each in manifest["webhooks"]}
                item["webhooks"] = list({**there, **webhooks}.values())
            self.put(resource, item)
        return {}

    async def delete(self, resource: Resource, name: str, *, namespace: str = "", resource_version: str = "") -> None:
        self._ask(f"delete {resource.plural}", name)
        key = (resource.plural, _key({"namespace": namespace, "name": name}))
        assert resource_version == self.items[key]["metadata"]["resourceVersion"]
        del self.items[key]

    def _ask(self, what: str, *more: str) -> None:
        self.asked.append(" ".join([what, *filter(None, more)]))
        if what in self.refused:
            reason = self.refused[what]
            raise ClusterError(f"the API server says no to {what}", where="https://api", reason=reason, status=403)


class Direct(ClusterSession):
    """The way to objects without credentials."""

    def __init__(self, client: KubeClient) -> None:
        super().__init__(cast("asyncio.Runner", None), client)

    def run(self, work: Callable[[KubeClient], Coroutine[Any, Any, T]]) -> T:
        return asyncio.run(work(self.client))


def _key(metadata: Mapping[str, Any]) -> str:
    return "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)


def _matches(selector: str, labels: Mapping[str, str]) -> bool:
    return all(_holds(part, labels) for part in selector.split(",") if part)


def _holds(part: str, labels: Mapping[str, str]) -> bool:
    if "!=" in part:
        key, _, value = part.partition("!=")
        return labels.get(key) != value
    if "=" in part:
        key, _, value = part.partition("=")
        return labels.get(key) == value
    return part[1:] not in labels if part.startswith("!") else part in labels

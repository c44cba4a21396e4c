"""An API server over HTTP that lists in pages and tells watches, and goes wrong in every way in which one does.

While a fault lasts it is asked and does not answer as it should: ``asked`` has when. The objects are those of the test.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from injector.cluster.resources import Resource
from tests.cluster.fakeapi import selected
from tests.cluster.fakes import kubeconfig_of

GONE: Final = b'{"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}\n'
GARBAGE: Final = b"}{ this is no JSON\n"
HALF: Final = b'{"type": "MODIFIED", "object": {"kind": "ConfigMap", "metadata": {"na'
OLD, NEW = "token-of-before", "token-of-now"


@dataclass(frozen=True)
class Fault:
    """How the API server goes wrong.

    ``says`` is what every open watch is told before it ends, once. Else the fault lasts: each request is answered with
    ``status``, or with nothing where that is 0; ``refused`` lets nobody connect, ``expired`` wants another token.
    """

    name: str
    reasons: frozenset[str]
    says: bytes = b""
    status: int = 0
    retry_after: str = ""
    refused: bool = False
    expired: bool = False

    @property
    def lasts(self) -> bool:
        """Whether it is more than a word."""
        return not self.says


FAULTS: Final = (
    Fault("410", frozenset({"gone"}), says=GONE),
    Fault("EOF in a line", frozenset({"cut"}), says=HALF),
    Fault("garbage", frozenset({"garbage"}), says=GARBAGE),
    Fault("500", frozenset({"server"}), status=500),
    Fault("429", frozenset({"throttled"}), status=429, retry_after="3"),
    Fault("token expired", frozenset({"unauthorized"}), expired=True),
    Fault("refused", frozenset({"unreachable"}), refused=True),
)
STALL: Final = Fault("stall", frozenset())


@dataclass(frozen=True)
class ApiRequest:
    """A request: when, of which resource, whether it is a watch, and whether it is answered as it should be."""

    at: float
    resource: str
    watch: bool
    answered: bool


@dataclass
class KubeApi:
    """Objects by resource; ``folder`` holds the kubeconfig and the token of the client."""

    folder: Path
    objects: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    requests: list[ApiRequest] = field(default_factory=list)
    fault: Fault | None = None
    _version: int = 1
    _token: str = OLD
    _port: int = 0
    _lists: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _watches: dict[asyncio.Queue[bytes], tuple[str, str]] = field(default_factory=dict)
    _moving: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    @property
    def kubeconfig(self) -> Path:
        """How a client finds it."""
        return self.folder / "kubeconfig"

    def put(self, resource: Resource, *objects: dict[str, Any]) -> None:
        """Write objects, and tell the watches of them."""
        known = self.objects.setdefault(resource.plural, {})
        for item in objects:
            self._version += 1
            item["metadata"]["resourceVersion"] = str(self._version)
            name = f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
            kind = "MODIFIED" if name in known else "ADDED"
            known[name] = item
            line = json.dumps({"type": kind, "object": item}).encode() + b"\n"
            for events, (plural, labels) in self._watches.items():
                if plural == resource.plural and selected(labels, item):
                    events.put_nowait(line)

    def watched(self) -> set[str]:
        """The resources that are watched."""
        return {plural for plural, _ in self._watches.values()}

    def since(self, moment: float, *, answered: bool | None = None) -> list[ApiRequest]:
        """What was asked after a moment."""
        return [request for request in self.requests if request.at > moment and answered in (None, request.answered)]

    async def begin(self, fault: Fault) -> float:
        """Go wrong; return when."""
        for events in list(self._watches):
            if fault.says or fault != STALL:
                events.put_nowait(fault.says or HALF)
        if fault.lasts:
            self.fault = fault
            self._moving.clear()
            self._token = NEW if fault.expired else self._token
            if fault.refused:
                await self._close()
        return time.monotonic()

    async def end(self) -> float:
        """Be well again; return when."""
        if self.fault is not None and self.fault.refused:
            await self._listen()
        (self.folder / "token").write_text(self._token)
        self.fault = None
        self._moving.set()
        return time.monotonic()

    async def serve(self) -> None:
        """Listen."""
        self._server = web.Server(self._answer, handler_cancellation=True, access_log=None)
        self._moving.set()
        await self._listen()
        (self.folder / "token").write_text(self._token)
        server = f"http://127.0.0.1:{self._port}"
        self.kubeconfig.write_text(kubeconfig_of(server, tokenFile=str(self.folder / "token")))

    async def stop(self) -> None:
        """End all connections."""
        await self._close()
        await self._server.shutdown(1)

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(self._server, "127.0.0.1", self._port)
        self._port = self._listening.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._listening.close()
        for connection in list(self._server.connections):
            if connection.transport is not None:
                connection.transport.abort()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        plural, query = request.path.rsplit("/", 1)[-1], request.query
        watch, stale = query.get("watch") == "true", request.headers.get("Authorization") != f"Bearer {self._token}"
        answered = self.fault is None and not stale
        self.requests.append(ApiRequest(time.monotonic(), plural, watch, answered))
        if self.fault is not None and self.fault.status:
            headers = {"Retry-After": self.fault.retry_after} if self.fault.retry_after else {}
            return web.json_response({"kind": "Status"}, status=self.fault.status, headers=headers)
        if stale:
            return web.json_response({"kind": "Status"}, status=401)
        await self._moving.wait()
        if not answered:
            self.requests.append(ApiRequest(time.monotonic(), plural, watch, answered=True))
        labels, metadata_only = query.get("labelSelector", ""), "PartialObjectMetadata" in request.headers["Accept"]
        if watch:
            return await self._tell(request, plural, labels)
        return self._page(plural, labels, query.get("continue", ""), int(query["limit"]), metadata_only=metadata_only)

    def _page(self, plural: str, labels: str, token: str, limit: int, *, metadata_only: bool) -> web.Response:
        name, _, start = token.partition(" ") if token else (f"{len(self._lists)}", "", "0")
        if not token:
            self._lists[name] = [obj for obj in self.objects.get(plural, {}).values() if selected(labels, obj)]
        listed, end = self._lists[name], int(start) + limit
        more = {"continue": f"{name} {end}"} if end < len(listed) else {}
        items = [{"metadata": item["metadata"]} if metadata_only else item for item in listed[int(start) : end]]
        return web.json_response({"metadata": {"resourceVersion": str(self._version), **more}, "items": items})

    async def _tell(self, request: web.BaseRequest, plural: str, labels: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        events: asyncio.Queue[bytes] = asyncio.Queue()
        self._watches[events] = (plural, labels)
        for item in self.objects.get(plural, {}).values():
            if selected(labels, item) and int(item["metadata"]["resourceVersion"]) > int(
                request.query["resourceVersion"]
            ):
                events.put_nowait(json.dumps({"type": "MODIFIED", "object": item}).encode() + b"\n")
        try:
            while True:
                line = await events.get()
                if self.fault == STALL:
                    await self._moving.wait()
                await response.write(line)
                if line in (GONE, GARBAGE, HALF):
                    break
        except ConnectionError:
            pass
        finally:
            del self._watches[events]
        if line == HALF and request.transport is not None:
            request.transport.close()
        return response


@asynccontextmanager
async def kube_api(folder: Path) -> AsyncIterator[KubeApi]:
    """The API server, as long as the block runs."""
    api = KubeApi(folder)
    await api.serve()
    try:
        yield api
    finally:
        await api.stop()

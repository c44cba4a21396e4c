"""The client of the API server: requests, retries, errors and credentials."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import logging
import os
import ssl
import subprocess
import sys
from asyncio.base_subprocess import BaseSubprocessTransport
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes_asyncio.config import incluster_config

from injector.cluster import client as module
from injector.cluster import plugin
from injector.cluster.client import REASONS, ApiThrottle, KubeClient, Page, retry_after_seconds
from injector.cluster.kubeconfig import Kubeconfig
from injector.cluster.resources import CONFIG_MAPS, NODES, PODS, SECRETS, WEBHOOKS, Resource, Scope
from injector.errors import ClusterError, ConfigError
from tests.cases import cases
from tests.cluster.fakes import in_fake_time, kubeconfig_of
from tests.webhook.certificates import Issued, issue, write_certificate

CANARY = "canary-of-a-token"
SCOPE = Scope(CONFIG_MAPS, "istio-system", "istio.io/rev")


@dataclass
class Api:
    """An API server of this process: answers with `handler`, and remembers what it was asked."""

    kubeconfig: Path
    handler: Handler
    requests: list[tuple[str, str, dict[str, str], dict[str, str], bytes]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        self.requests.append((request.method, request.path, query, dict(request.headers), await request.read()))
        return await self.handler(request)

    def points_at(self, server: str, token: str = CANARY) -> None:
        """Write the kubeconfig."""
        self.kubeconfig.write_text(kubeconfig_of(server, token=token))


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    fake = Api(tmp_path / "kubeconfig", answering({}))
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", fake.answer)
    async with TestServer(app) as server:
        fake.points_at(str(server.make_url("")).rstrip("/"))
        yield fake


def client_of(api: Api, throttle: ApiThrottle | None = None) -> KubeClient:
    """Return a client, which asks when it is the turn of a request."""
    client = KubeClient(Kubeconfig((api.kubeconfig,)))
    client._throttle = throttle or client._throttle
    return client


@pytest.fixture
async def client(api: Api) -> AsyncIterator[KubeClient]:
    client = client_of(api)
    try:
        yield client
    finally:
        await client.close()


Handler: TypeAlias = "Callable[[web.Request], Awaitable[web.StreamResponse]]"
EMPTY_LIST = {"metadata": {"resourceVersion": "9"}, "items": []}


def answering(data: object, status: int = 200, **headers: str) -> Handler:
    """A handler that answers with bytes, or with other data as JSON."""
    body = data if isinstance(data, bytes) else json.dumps(data).encode()

    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=body, status=status, headers=headers, content_type="application/json")

    return handler


async def error_of(request: Awaitable[object]) -> ClusterError:
    """Return the error of a request, whose reason is one of the known ones."""
    with pytest.raises(ClusterError) as caught:
        await request
    assert caught.value.reason in REASONS
    return caught.value


def streaming(*pieces: bytes, status: int = 200, cut: bool = False, then: float = 0.0) -> Handler:
    """A handler that sends pieces, one by one."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status)
        response.enable_chunked_encoding()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(0.01)
        if then:
            await asyncio.sleep(then)
        if cut and request.transport is not None:
            request.transport.abort()
        return response

    return handler


async def page_of(client: KubeClient, scope: Scope, *, token: str = "") -> Page:
    """Return a page with its items read."""
    page = await client.page(scope, token=token)
    return replace(page, items=list(page.items))


async def lines(client: KubeClient) -> list[bytes]:
    first, *others = [line async for line in client.watch(SCOPE, resource_version="7", seconds=300)]
    assert first == b""
    return others


async def test_a_page_is_asked_for_with_its_scope_and_the_token_of_the_page_before(
    api: Api, client: KubeClient
) -> None:
    api.handler = answering({"metadata": {"resourceVersion": "9", "continue": "next"}, "items": [{"a": 1}]})

    page = await page_of(client, SCOPE, token="before")  # noqa: S106 -- a page's

    assert page == Page([{"a": 1}], "9", "next")
    method, path, query, headers, _ = api.requests[0]
    assert (method, path) == ("GET", "/api/v1/namespaces/istio-system/configmaps")
    assert query == {"labelSelector": "istio.io/rev", "limit": "100", "continue": "before"}
    assert (headers["Authorization"], headers["User-Agent"]) == (f"Bearer {CANARY}", "revision-injector")


async def test_a_page_of_texts_is_not_decoded(api: Api, client: KubeClient) -> None:
    text = b'{"metadata": {"continue": "next"}, "items": [{"a":  1}, {"b": []}]}'
    api.handler = streaming(text)

    assert await client.texts(SCOPE, "before") == ([b'{"a":  1}', b'{"b": []}'], "next")
    assert api.requests[0][2] == {"labelSelector": "istio.io/rev", "limit": "500", "continue": "before"}


async def test_an_item_of_a_page_of_texts_is_an_object(api: Api, client: KubeClient) -> None:
    api.handler = answering({"metadata": {}, "items": [{}, 1]})

    assert (await error_of(client.texts(SCOPE))).reason == "garbage"


async def test_metadata_alone_is_asked_for_as_a_list_and_as_a_watch(api: Api, client: KubeClient) -> None:
    scope, kinds = Scope(PODS, metadata_only=True), ("PartialObjectMetadataList", "PartialObjectMetadata")
    api.handler = answering(EMPTY_LIST)

    await client.page(scope)
    async for _ in client.watch(scope, resource_version="9", seconds=1):
        pass
    await client.page(Scope(PODS))

    wanted = [f"application/json;as={kind};g=meta.k8s.io;v=v1" for kind in kinds]
    assert [headers["Accept"] for *_, headers, _ in api.requests] == [*wanted, "application/json"]


@pytest.mark.parametrize(
    ("scope", "limit", "query"),
    [
        (Scope(PODS, fields="status.phase!=Failed"), 500, {"fieldSelector": "status.phase!=Failed"}),
        (Scope(PODS, name="w"), 100, {"fieldSelector": "metadata.name=w"}),
        (Scope(PODS, labels="l", name="w"), 100, {"fieldSelector": "metadata.name=w", "labelSelector": "l"}),
    ],
)
async def test_a_page_is_of_selected_objects_and_of_a_length(
    api: Api, client: KubeClient, scope: Scope, limit: int, query: dict[str, str]
) -> None:
    api.handler = answering(EMPTY_LIST)

    await client.page(scope, limit=limit)

    assert api.requests[0][1:3] == ("/api/v1/pods", {**query, "limit": str(limit)})


@pytest.mark.parametrize("items", [[], None])
async def test_an_empty_list_is_a_page(api: Api, client: KubeClient, items: list[Any] | None) -> None:
    api.handler = answering({"metadata": {"resourceVersion": "9"}, "items": items})

    assert await page_of(client, Scope(NODES)) == Page([], "9")


async def test_one_object_is_got_by_name(api: Api, client: KubeClient) -> None:
    api.handler = answering({"kind": "ConfigMap"})

    assert await client.get(CONFIG_MAPS, "istio", namespace="istio-system") == {"kind": "ConfigMap"}

    assert api.requests[0][1] == "/api/v1/namespaces/istio-system/configmaps/istio"


KINDS: dict[str, object] = {
    "/apis/example.com": {"versions": [{"groupVersion": "example.com/v2"}, {"groupVersion": "example.com/v1"}]},
    "/apis/example.com/v2": {"resources": [{"name": "others", "kind": "Other", "namespaced": True}]},
    "/apis/example.com/v1": {
        "resources": [
            {"name": "foos/scale", "kind": "Foo", "namespaced": True},
            {"name": "foos", "kind": "Foo", "namespaced": True},
        ]
    },
    "/api/v1": {"resources": [{"name": "podtemplates", "kind": "PodTemplate", "namespaced": True}]},
    "/apis/broken.com": {"versions": [{}]},
}


@pytest.mark.parametrize(
    ("kind", "group", "resource"),
    [
        ("Foo", "example.com", Resource("example.com/v1", "foos", "Foo", namespaced=True)),
        ("Other", "example.com", Resource("example.com/v2", "others", "Other", namespaced=True)),
        ("Bar", "example.com", None),
        ("Foo", "other.com", None),
        ("PodTemplate", "", Resource("v1", "podtemplates", "PodTemplate", namespaced=True)),
    ],
)
async def test_a_resource_is_found_by_kind_and_group(
    api: Api, client: KubeClient, kind: str, group: str, resource: Resource | None
) -> None:
    api.handler = lambda request: answering(KINDS.get(request.path, {}), 200 if request.path in KINDS else 404)(request)

    assert await client.find_resource(kind, group) == resource


@pytest.mark.parametrize(
    ("group", "status", "reason"), [("broken.com", 200, "garbage"), ("example.com", 403, "forbidden")]
)
async def test_a_resource_that_cannot_be_looked_up_is_an_error(
    api: Api, client: KubeClient, group: str, status: int, reason: str
) -> None:
    api.handler = lambda request: answering(KINDS[request.path], status)(request)

    assert (await error_of(client.find_resource("Foo", group))).reason == reason


WEBHOOK: dict[str, Any] = {"metadata": {"name": "w"}, "webhooks": []}
WEBHOOK_AT = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/w"
WITH_KIND = {"apiVersion": WEBHOOKS.api_version, "kind": WEBHOOKS.kind, **WEBHOOK}
SECRET: dict[str, Any] = {"metadata": {"name": "s", "namespace": "n", "resourceVersion": "7"}, "data": {"a": "b"}}
SECRETS_AT = "/api/v1/namespaces/n/secrets"
OPTIONS = {"apiVersion": "v1", "kind": "DeleteOptions"}
OPERATIONS: list[dict[str, Any]] = [{"op": "test", "path": "/a", "value": 1}, {"op": "remove", "path": "/a"}]
APPLY = f"PATCH {WEBHOOK_AT} application/apply-patch+yaml"
DELETE = f"DELETE {WEBHOOK_AT} application/json"
FORCED_TRIAL = {"force": "true", "dryRun": "All"}
WRITES: list[tuple[Callable[[KubeClient], Awaitable[object]], str, dict[str, str], object]] = [
    (lambda it: it.apply(WEBHOOKS, WEBHOOK, manager="m"), APPLY, {}, WITH_KIND),
    (lambda it: it.apply(WEBHOOKS, WEBHOOK, manager="m", force=True, dry_run=True), APPLY, FORCED_TRIAL, WITH_KIND),
    (
        lambda it: it.patch(WEBHOOKS, "w", OPERATIONS, manager="m"),
        f"PATCH {WEBHOOK_AT} application/json-patch+json",
        {},
        OPERATIONS,
    ),
    (
        lambda it: it.merge(SECRETS, SECRET, manager="m"),
        f"PATCH {SECRETS_AT}/s application/merge-patch+json",
        {},
        SECRET,
    ),
    (
        lambda it: it.create(SECRETS, SECRET, manager="m"),
        f"POST {SECRETS_AT} application/json",
        {},
        {"apiVersion": "v1", "kind": "Secret", **SECRET},
    ),
    (
        lambda it: it.replace(SECRETS, SECRET, manager="m"),
        f"PUT {SECRETS_AT}/s application/json",
        {},
        {"apiVersion": "v1", "kind": "Secret", **SECRET},
    ),
    (
        lambda it: it.create(replace(SECRETS, strict=True), SECRET, manager="m", dry_run=True),
        f"POST {SECRETS_AT} application/json",
        {"dryRun": "All", "fieldValidation": "Strict"},
        {"apiVersion": "v1", "kind": "Secret", **SECRET},
    ),
    (
        lambda it: it.replace(replace(SECRETS, strict=True), SECRET, manager="m", subresource="/status"),
        f"PUT {SECRETS_AT}/s/status application/json",
        {"fieldValidation": "Strict"},
        {"apiVersion": "v1", "kind": "Secret", **SECRET},
    ),
    (lambda it: it.delete(WEBHOOKS, "w"), DELETE, {}, OPTIONS),
    (
        lambda it: it.delete(WEBHOOKS, "w", resource_version="7"),
        DELETE,
        {},
        {**OPTIONS, "preconditions": {"resourceVersion": "7"}},
    ),
]


@pytest.mark.parametrize(("write", "request_line", "query", "body"), WRITES)
async def test_a_write_is_one_request(
    api: Api,
    client: KubeClient,
    write: Callable[[KubeClient], Awaitable[object]],
    request_line: str,
    query: dict[str, str],
    body: object,
) -> None:
    await write(client)

    (method, path, sent_query, headers, sent), *others = api.requests
    assert (f"{method} {path} {headers['Content-Type']}", others) == (request_line, [])
    assert sent_query == (query if method == "DELETE" else {"fieldManager": "m", **query})
    assert json.loads(sent) == body


async def test_the_first_of_several_kubeconfigs_wins_and_a_context_can_be_chosen(api: Api, tmp_path: Path) -> None:
    other = json.loads(api.kubeconfig.read_text())
    (tmp_path / "first").write_text(api.kubeconfig.read_text())
    other["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:1"
    for kind in ("clusters", "users", "contexts"):
        other[kind][0]["name"] = "away"
    other["contexts"][0]["context"] = {"cluster": "away", "user": "away"}
    (tmp_path / "second").write_text(json.dumps({**other, "current-context": "away"}))
    paths = (tmp_path / "first", tmp_path / "second")

    for kubeconfig in (Kubeconfig(paths), Kubeconfig(paths[::-1], "c")):
        client = KubeClient(kubeconfig)
        try:
            assert await client.get(CONFIG_MAPS, "istio", namespace="istio-system") == {}
        finally:
            await client.close()
    client = KubeClient(Kubeconfig(paths[::-1]))
    try:
        with pytest.raises(ClusterError, match="cannot be reached"):
            await client.get(CONFIG_MAPS, "istio", namespace="istio-system")
    finally:
        await client.close()


CLIENT = """
import asyncio, sys
from pathlib import Path
from injector.cluster.client import KubeClient
from injector.cluster.kubeconfig import Kubeconfig
from injector.cluster.resources import CONFIG_MAPS

async def main():
    client = KubeClient(Kubeconfig((Path(sys.argv[1]),)))
    print(await client.get(CONFIG_MAPS, "istio", namespace="istio-system"), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def plugin_of(pair: Issued, folder: Path) -> dict[str, Any]:
    """The user of a kubeconfig, whose plugin prints a certificate and its key."""
    status = {"clientCertificateData": pair.chain_pem.decode(), "clientKeyData": pair.key_pem.decode()}
    version = "client.authentication.k8s.io/v1"
    credential = {"apiVersion": version, "kind": "ExecCredential", "status": status}
    (folder / "credential").write_text(json.dumps(credential))
    return {"exec": {"apiVersion": version, "command": "cat", "args": [str(folder / "credential")]}}


def data_of(pair: Issued, folder: Path) -> dict[str, Any]:  # noqa: ARG001 -- as above
    """The user of a kubeconfig with a certificate and its key in it."""
    encoded = [base64.b64encode(pem).decode() for pem in (pair.chain_pem, pair.key_pem)]
    return {"client-certificate-data": encoded[0], "client-key-data": encoded[1]}


@pytest.mark.parametrize("user_of", [data_of, plugin_of])
async def test_a_killed_process_leaves_no_client_key_in_the_temporary_folder(
    tmp_path: Path, user_of: Callable[[Issued, Path], dict[str, Any]]
) -> None:
    pair = issue()
    pair.write(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "tls.crt"))
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    context.verify_mode = ssl.CERT_REQUIRED
    folder = tmp_path / "temporary"
    folder.mkdir()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answering({"kind": "ConfigMap"}))
    async with AsyncExitStack() as stack:
        server = TestServer(app, scheme="https")
        await server.start_server(ssl=context)
        stack.push_async_callback(server.close)
        config = json.loads(kubeconfig_of(f"https://localhost:{server.port}"))
        config["users"][0]["user"] = user_of(pair, tmp_path)
        config["clusters"][0]["cluster"]["certificate-authority-data"] = base64.b64encode(pair.chain_pem).decode()
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CLIENT, str(tmp_path / "kubeconfig")),
            env={**os.environ, "TMPDIR": str(folder)},
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(120):
                answer = await process.stdout.readline()
        finally:
            process.kill()
            await process.wait()

    assert answer == b"{'kind': 'ConfigMap'}\n"
    assert list(folder.iterdir()) == []


@cases("status", "reason", "down", "says")
async def test_a_refusal_says_where_what_and_what_to_do(
    api: Api, status: int, reason: str, down: bool, says: str
) -> None:
    api.handler = answering({"kind": "Status", "message": "told\nwhy"}, status, **{"Retry-After": "3"})
    client = client_of(api, pace := Turns())

    error = await error_of(client.page(SCOPE))
    await client.close()

    assert (error.reason, error.status, error.retry_after) == (reason, status, 3.0)
    assert says in str(error)
    assert error.where.endswith("/api/v1/namespaces/istio-system/configmaps")
    assert pace.notes == ["turn", "failed" if down else "answered"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        *((body, "") for body in (b"", b"<html>", b"[]", b'{"message": 1}', b"x" * 100_000)),
        (b'{"message": "no\\n such"}', ": no such"),
        (b'{"message": "%b"}' % (b"x" * 999), f": {'x' * 300}"),
    ],
)
async def test_a_refusal_has_the_message_of_its_status_on_one_short_line(
    api: Api, client: KubeClient, body: bytes, says: str
) -> None:
    api.handler = answering(body, 502, **{"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"})

    error = await error_of(lines(client))

    assert (error.reason, error.retry_after) == ("server", 0.0)
    assert error.what == f"the API server failed (HTTP 502){says}"


async def test_the_message_of_a_refusal_may_arrive_in_pieces(api: Api, client: KubeClient) -> None:
    api.handler = streaming(b'{"message": "the pod', b' has no name"}', status=422)

    assert (await error_of(client.get(CONFIG_MAPS, "x"))).what.endswith("(HTTP 422): the pod has no name")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"items": []}', b'{"metadata": {}, "items": 1}'])
async def test_a_response_that_is_not_a_list_is_garbage(api: Api, client: KubeClient, body: bytes) -> None:
    api.handler = answering(body)

    error = await error_of(client.page(SCOPE))

    assert (error.reason, error.what) == ("garbage", "the API server's answer cannot be read")


@pytest.mark.parametrize("item", [b"1", b'{"a": "\xff"}'])
async def test_an_item_of_a_list_that_is_not_an_object_is_garbage(api: Api, client: KubeClient, item: bytes) -> None:
    api.handler = answering(b'{"metadata": {}, "items": [{"metadata": {}}, %b]}' % item)

    error = await error_of(client.all(SCOPE, lambda obj: obj))

    assert (error.reason, error.where) == ("garbage", f"the list of {SCOPE}")


async def test_an_item_that_cannot_be_read_is_left_out_of_a_list_and_named(
    api: Api, client: KubeClient, caplog: pytest.LogCaptureFixture
) -> None:
    items = b'{"metadata": {"name": "junk"}, "spec": [1]}, {"metadata": {"name": "good"}, "spec": {"a": 1}}'
    api.handler = answering(b'{"metadata": {}, "items": [%b]}' % items)

    assert await client.all(SCOPE, lambda obj: obj["spec"]["a"]) == [1]
    assert caplog.messages == [f"{SCOPE}: 'junk' cannot be read and is left out (TypeError); correct it"]


async def test_lines_before_a_closed_connection_are_yielded(api: Api, client: KubeClient) -> None:
    api.handler = streaming(b'{"a":1}\n{"b"', cut=True)

    events = client.watch(SCOPE, resource_version="7", seconds=300)
    assert [await anext(events) for _ in range(2)] == [b"", b'{"a":1}']
    assert (await error_of(anext(events))).reason == "cut"


@pytest.mark.parametrize("asked_before", [False, True])
async def test_a_request_whose_connection_breaks_is_not_sent_again(
    api: Api, client: KubeClient, asked_before: bool
) -> None:
    async def broken(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    if asked_before:
        await client.get(CONFIG_MAPS, "x")
    api.requests.clear()
    api.handler = broken
    assert (await error_of(client.page(SCOPE))).reason == "cut"
    assert len(api.requests) == 1


async def test_many_watches_do_not_hold_up_other_requests(api: Api, client: KubeClient) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        is_watch = "watch" in request.query
        return await (streaming(b"{}\n", then=30.0) if is_watch else answering({"kind": "ConfigMap"}))(request)

    api.handler = handler
    async with AsyncExitStack() as stack:
        watches = [client.watch(SCOPE, resource_version="7", seconds=300) for _ in range(110)]
        for watch in watches:
            await stack.enter_async_context(aclosing(watch))
        async with asyncio.timeout(10.0):
            await asyncio.gather(*map(anext, watches))
            assert await client.get(CONFIG_MAPS, "x") == {"kind": "ConfigMap"}


async def test_a_watch_without_data_is_idle(api: Api, client: KubeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_TIMEOUT", 0.01)
    api.handler = streaming(b'{"a":1}\n', then=30.0)

    assert (await error_of(lines(client))).reason == "idle"


async def test_lines_are_whole_however_the_network_cuts_them(api: Api, client: KubeClient) -> None:
    large = b'{"data":"' + b"x" * 3_000_000 + b'"}'
    api.handler = streaming(b'{"a"', b":1}\n\n \r\n" + large[:70_000], large[70_000:] + b'\n{"b":2}\n', b'{"cut": ')

    received = await lines(client)

    assert received == [b'{"a":1}', large, b'{"b":2}']
    assert api.requests[0][2] == {
        "labelSelector": "istio.io/rev",
        "watch": "true",
        "resourceVersion": "7",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "300",
    }


@pytest.mark.parametrize("pieces", [(b"123456789",), (b"12345678", b"9\n"), (b"1\n123456789\n",)])
async def test_a_line_without_end_is_garbage_or_beyond_the_limit_is_garbage(
    api: Api, client: KubeClient, monkeypatch: pytest.MonkeyPatch, pieces: tuple[bytes, ...]
) -> None:
    monkeypatch.setattr(module, "MAX_LINE", 8)
    api.handler = streaming(*pieces)

    assert (await error_of(lines(client))).reason == "garbage"


@dataclass
class Turns(ApiThrottle):
    """Remembers what a client told of its requests."""

    notes: list[str] = field(default_factory=list)

    async def turn(self) -> None:
        self.notes.append("turn")

    def note_failure(self) -> None:
        self.notes.append("failed")

    def note_answer(self) -> None:
        self.notes.append("answered")


@pytest.mark.parametrize(
    ("status", "note"),
    [(200, "answered"), (403, "answered"), (404, "answered"), (401, "failed"), (429, "failed"), (500, "failed")],
)
async def test_each_request_waits_for_its_turn_and_says_whether_the_api_server_answers(
    api: Api, status: int, note: str
) -> None:
    api.handler = answering({}, status)
    client = client_of(api, pace := Turns())

    with suppress(ClusterError):
        await client.get(CONFIG_MAPS, "x")
    api.points_at("http://127.0.0.1:1")
    await client.close()
    with pytest.raises(ClusterError):
        await client.get(CONFIG_MAPS, "x")
    await client.close()

    assert pace.notes == ["turn", note, "turn", "failed"]


async def test_a_closed_port_is_unreachable(api: Api, client: KubeClient) -> None:
    api.points_at("http://127.0.0.1:1")

    error = await error_of(client.page(Scope(NODES)))

    assert error.reason == "unreachable"
    assert str(error).startswith("http://127.0.0.1:1/api/v1/nodes: the API server cannot be reached")


async def test_refused_credentials_are_read_again(api: Api, client: KubeClient) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"] != "Bearer renewed":
            return await answering({}, 401)(request)
        return await answering(EMPTY_LIST)(request)

    api.handler = handler
    with pytest.raises(ClusterError):
        await client.page(SCOPE)
    server = json.loads(api.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    api.points_at(server, "renewed")

    assert await page_of(client, SCOPE) == Page([], "9")


async def test_renewed_credentials_that_cannot_be_read_are_an_error_of_the_cluster(
    api: Api, client: KubeClient
) -> None:
    api.handler = answering({}, 401)
    await error_of(client.page(SCOPE))
    api.kubeconfig.unlink()

    error = await error_of(client.page(SCOPE))

    assert (error.reason, error.where) == ("credentials", str(api.kubeconfig))


async def test_a_token_in_a_file_whose_read_may_never_end_is_refused(api: Api, tmp_path: Path) -> None:
    """It would be read on the event loop, which answers the reviews."""
    token = tmp_path / "token"
    kubeconfig = json.loads(api.kubeconfig.read_text())
    kubeconfig["users"][0]["user"] = {"tokenFile": str(token)}
    api.kubeconfig.write_text(json.dumps(kubeconfig))
    client = KubeClient(Kubeconfig((api.kubeconfig,)))
    os.mkfifo(token)
    async with asyncio.timeout(5):
        error = await error_of(client.page(SCOPE))
    assert (error.reason, error.where) == ("credentials", str(api.kubeconfig))
    assert f"{token} is not a regular file" in error.what

    token.unlink()
    token.write_text("from a file")
    api.handler = answering(EMPTY_LIST)
    assert await page_of(client, SCOPE) == Page([], "9")
    await client.close()


async def test_a_plugin_for_credentials_that_hangs_does_not_hold_up_requests_for_ever(
    api: Api, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOGIN_TIMEOUT", 0.1)
    monkeypatch.setattr(module, "load_kube_config", lambda **_: asyncio.Event().wait())

    errors = await asyncio.gather(*(error_of(client.page(SCOPE)) for _ in range(3)))

    assert {(error.reason, error.where) for error in errors} == {("credentials", str(api.kubeconfig))}
    monkeypatch.undo()
    assert await client.get(CONFIG_MAPS, "x") == {}


HANGS = """
import asyncio, threading
from injector.cluster import client, kubeconfig

client.LOGIN_TIMEOUT = 0.1
kubeconfig.Kubeconfig.select_context = lambda _: threading.Event().wait()  # as a mount without its server
asyncio.run(client.KubeClient(kubeconfig.Kubeconfig((), "c")).open())
"""


def test_a_kubeconfig_whose_read_hangs_does_not_keep_the_process_from_ending() -> None:
    process = subprocess.run([sys.executable, "-c", HANGS], stderr=subprocess.PIPE, check=False, timeout=60)

    assert b"they cannot be read within 0.1 s" in process.stderr


def with_plugin(api: Api, script: str) -> KubeClient:
    """Return a client whose plugin is a shell script."""
    config = json.loads(api.kubeconfig.read_text())
    version = "client.authentication.k8s.io/v1"
    variables = [{"name": "SECRET", "value": CANARY}]
    plugin = {"apiVersion": version, "command": "sh", "args": ["-c", script], "env": variables}
    config["users"][0]["user"] = {"exec": plugin}
    api.kubeconfig.write_text(json.dumps(config))
    return client_of(api)


@cases("script", "says")
async def test_the_fault_of_a_plugin_has_its_name_and_not_its_output(
    api: Api, script: str, says: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A child of the plugin that has its output open ends with it."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(plugin, "PLUGIN_TIMEOUT", 30.0 if "sleep" not in script else 0.5)
    async with asyncio.timeout(20):
        with pytest.raises(ConfigError) as caught:
            await with_plugin(api, script).open()

    assert f"its credentials cannot be used ({says})" in str(caught.value)
    assert CANARY not in f"{caught.value}{caplog.text}"
    transports = [one for one in gc.get_objects() if isinstance(one, BaseSubprocessTransport)]
    for _ in range(3):  # of the event loop, which may end with the caller
        await asyncio.sleep(0)
    assert all(transport.is_closing() for transport in transports)


async def test_a_plugin_prints_the_token(api: Api) -> None:
    status = {"token": "of-a-plugin"}
    printed = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    client = with_plugin(api, f"head -c 200000 /dev/zero >&2; echo '{json.dumps(printed)}'")

    async with asyncio.timeout(20):
        await client.get(CONFIG_MAPS, "x")
    await client.close()

    assert [headers["Authorization"] for _, _, _, headers, _ in api.requests] == ["Bearer of-a-plugin"]


async def test_credentials_are_read_after_the_throttle(api: Api) -> None:
    server = json.loads(api.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]

    class Renewing(ApiThrottle):
        async def turn(self) -> None:
            api.points_at(server, "renewed")

    client = client_of(api, Renewing())
    await client.get(CONFIG_MAPS, "x")
    await client.close()

    assert [headers["Authorization"] for _, _, _, headers, _ in api.requests] == ["Bearer renewed"]


@cases("text", "says")
async def test_a_kubeconfig_that_cannot_be_used_is_named_and_not_quoted(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)

    with pytest.raises(ConfigError) as caught:
        await KubeClient(Kubeconfig((path,))).open()

    assert str(caught.value).startswith(f"{path}: {says}")
    assert CANARY not in str(caught.value)


async def test_outside_a_pod_a_kubeconfig_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    with pytest.raises(ConfigError, match="kubeconfig: no cluster is configured; give --kubeconfig"):
        await KubeClient().open()


@asynccontextmanager
async def api_with_tls(folder: Path, credentials: list[str], port: int = 0) -> AsyncIterator[int]:
    """An API server with a new certificate, which is written into the folder; its port. It notes the credentials."""

    async def handler(request: web.Request) -> web.StreamResponse:
        credentials.append(request.headers["Authorization"])
        return await answering(EMPTY_LIST)(request)

    app = web.Application()
    app.router.add_get("/api/v1/nodes", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*write_certificate(folder))
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@pytest.fixture
async def in_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[[int], KubeClient]]:
    """Return the client of a pod from the port of the API server, whose certificate is in `tmp_path`."""
    (tmp_path / "token").write_text(CANARY)
    client = KubeClient()

    def client_of(port: int) -> KubeClient:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "localhost")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(port))
        monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
        monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "tls.crt"))
        return client

    yield client_of
    await client.close()


async def test_inside_a_pod_the_service_accounts_token_is_sent(
    tmp_path: Path, in_pod: Callable[[int], KubeClient]
) -> None:
    credentials: list[str] = []
    async with api_with_tls(tmp_path, credentials) as port:
        assert await page_of(in_pod(port), Scope(NODES)) == Page([], "9")

    assert credentials == [f"Bearer {CANARY}"]


async def test_a_new_ca_of_the_api_server_is_read_after_it_was_rejected_once(
    tmp_path: Path, in_pod: Callable[[int], KubeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_INTERVAL", 0.01)
    credentials: list[str] = []
    async with api_with_tls(tmp_path, credentials) as port:
        client = in_pod(port)
        await page_of(client, Scope(NODES))
    async with api_with_tls(tmp_path, credentials, port):
        with pytest.raises(ClusterError, match="certificate verify failed"):
            await page_of(client, Scope(NODES))
        await page_of(client, Scope(NODES))

    assert len(credentials) == 2


async def test_a_request_is_not_cut_when_the_credentials_of_another_are_refused(api: Api, client: KubeClient) -> None:
    refused = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        if "pods" in request.path:
            await refused.wait()
            return await answering(EMPTY_LIST)(request)
        return await answering({}, 401)(request)

    api.handler = handler
    waiting = asyncio.create_task(page_of(client, Scope(PODS)))
    with pytest.raises(ClusterError, match="credentials"):
        await page_of(client, Scope(NODES))
    refused.set()

    assert await waiting == Page([], "9")


async def test_a_client_that_was_never_opened_can_be_closed() -> None:
    await KubeClient().close()


@pytest.mark.parametrize(
    ("text", "seconds"), [("3", 3.0), ("", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0), ("²", 0.0)]
)
def test_a_retry_after_is_read_where_it_has_seconds(text: str, seconds: float) -> None:
    assert retry_after_seconds(text) == seconds


WATCHES = 7
DOWN = 60.0


def request_times(answers: Callable[[float], bool], *, seconds: float, every: float) -> list[float]:
    """When so many watches ask, each again after so many seconds, by a clock that costs no time."""
    times: list[float] = []

    async def watch(pace: ApiThrottle) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await pace.turn()
            times.append(loop.time())
            if answers(loop.time()):
                pace.note_answer()
                await asyncio.sleep(seconds)
            pace.note_failure()
            await asyncio.sleep(every)

    async def run() -> None:
        pace = ApiThrottle()
        tasks = [asyncio.create_task(watch(pace)) for _ in range(WATCHES)]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    in_fake_time(run)()
    return times


def test_while_nothing_is_answered_all_watches_together_ask_once_a_second() -> None:
    times = request_times(lambda _: False, seconds=DOWN, every=1.0)

    # The first request has not failed yet.
    assert len(times) > DOWN / 2
    later = [moment for moment in times if moment > 0]
    assert all(after - before >= 1.0 for before, after in pairwise(later))


def test_once_one_is_answered_all_others_go_at_once() -> None:
    times = request_times(lambda now: now >= DOWN, seconds=DOWN + 10.0, every=4.5)

    back = sorted(moment for moment in times if moment >= DOWN)
    assert len(back) == WATCHES
    assert back[-1] - DOWN < 5.0


def test_requests_do_not_wait_while_the_api_server_answers() -> None:
    assert request_times(lambda _: True, seconds=1.0, every=1.0) == [0.0] * WATCHES


def test_a_turn_is_waited_for_by_one_after_the_other() -> None:
    async def run() -> list[float]:
        pace, loop = ApiThrottle(), asyncio.get_running_loop()
        pace.note_failure()

        async def one() -> float:
            await pace.turn()
            return loop.time()

        return sorted(await asyncio.gather(one(), one(), one()))

    assert in_fake_time(run)() == [1.0, 2.0, 3.0]


async def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nope: cannot be read: No such file or directory; correct --kubeconfig"):
        await KubeClient(Kubeconfig((tmp_path / "nope",))).open()


async def test_no_error_holds_the_token(api: Api, client: KubeClient) -> None:
    api.handler = answering({"message": f"token {CANARY} is not known"}, 401)

    assert CANARY not in str(await error_of(client.page(SCOPE)))

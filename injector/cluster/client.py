"""The client of the API server, on plain dictionaries. No other module imports ``kubernetes_asyncio``.

The library only provides credentials and TLS. Its models and watches are not used. After a 401, and after a failed TLS handshake, the
client reads the credentials and the CA again before the next request, so that it uses renewed ones.

The library writes the certificates and keys of a kubeconfig or of a plugin to temporary files, which stay if the process is killed. Here
they are files in memory instead, until OpenSSL has read them.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp
import msgspec
from aiohttp.http_exceptions import LineTooLong
from kubernetes_asyncio.client import ApiClient, Configuration
from kubernetes_asyncio.config import ConfigException, kube_config, load_incluster_config, load_kube_config
from kubernetes_asyncio.config.kube_config import FileOrData

from injector.cluster.kubeconfig import Kubeconfig, unusable
from injector.cluster.plugin import Plugin
from injector.cluster.resources import LIST_ATTEMPTS, Resource, Scope
from injector.errors import ClusterError, ConfigError, DataError, NotConfiguredError
from injector.golang.json import load_json
from injector.memoryfiles import file_in_memory
from injector.regularfiles import DAEMON_THREADS, read_file

T = TypeVar("T")

_log = logging.getLogger(__name__)

USER_AGENT: Final = "revision-injector"
# A page of 500 nodes, at about 20 KiB each, would take more memory than all objects that a watch remembers.
WATCH_PAGE_SIZE: Final = 100
PAGE_SIZE: Final = 500
"""The number of objects in a page, as kubectl's --chunk-size."""
RETRY_INTERVAL: Final = 1.0
"""Seconds between two requests while the API server is down."""
CONNECT_TIMEOUT: Final = 4.0
REQUEST_TIMEOUT: Final = 30.0
LOGIN_TIMEOUT: Final = 120.0
"""For reading the credentials, also after another request that reads them. A plugin has its own deadline."""
# The API server writes a bookmark each minute (k8s.io/apiserver/pkg/storage/cacher, defaultBookmarkFrequency). A watch
# without data for longer than two bookmarks is dead.
IDLE_TIMEOUT: Final = 150.0
# Seconds that a watch may last longer than requested before it counts as dead.
WATCH_GRACE: Final = 30.0
# An object has at most 1.5 MiB in etcd and 3 MiB in a request; JSON escapes can double that.
MAX_LINE: Final = 8 * 1024 * 1024
# The versions of the group without a name.
_CORE: Final = {"versions": [{"groupVersion": "v1"}]}
_MAX_ERROR_BODY: Final = 64 * 1024
_MAX_MESSAGE: Final = 300

_JSON: Final = "application/json"
# Kubernetes' "Alternate representations of resources": metadata only. The rest of a pod is about 10 KiB.
_METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_APPLY: Final = "application/apply-patch+yaml"
_MERGE_PATCH: Final = "application/merge-patch+json"
_JSON_PATCH: Final = "application/json-patch+json"


@dataclass(frozen=True, slots=True)
class StatusMeaning:
    """The meaning of an HTTP status; ``down`` if an immediate retry would fail too."""

    reason: str
    what: str
    hint: str
    down: bool = False


_STATUS: Final = {
    401: StatusMeaning("unauthorized", "does not know the credentials", "renew the token or certificate", down=True),
    403: StatusMeaning(
        "forbidden", "forbids it", "grant the injector's account the permissions that deploy/ has for it"
    ),
    404: StatusMeaning("missing", "has no such object or resource", "check the name and the API server's version"),
    409: StatusMeaning("conflict", "has a conflict", "check what else writes to it, and try again"),
    410: StatusMeaning("gone", "no longer has that version", "list again"),
    429: StatusMeaning("throttled", "asks to wait", "wait", down=True),
}
_REFUSED: Final = StatusMeaning("refused", "refuses it", "correct the request")
_SERVER: Final = StatusMeaning("server", "failed", "look at its log", down=True)

REASONS: Final = (
    *(meaning.reason for meaning in (*_STATUS.values(), _REFUSED, _SERVER)),
    *("unreachable", "idle", "cut", "garbage", "credentials"),
)
"""Every ``reason`` of a ClusterError."""


def meaning_of(status: int) -> StatusMeaning:
    """Return the meaning of a status of 400 or more."""
    return _STATUS.get(status) or (_REFUSED if status // 100 == 4 else _SERVER)  # noqa: PLR2004 -- HTTP's own classes


def message_of(body: bytes) -> str:
    """Return the message of a Status, on one line."""
    try:
        document = load_json(body)
    except DataError:
        return ""
    message = document.get("message") if isinstance(document, dict) else None
    return " ".join(message.split())[:_MAX_MESSAGE] if isinstance(message, str) else ""


def retry_after_seconds(text: str) -> float:
    """Return the seconds of a Retry-After header; 0 if it is missing or a date."""
    return float(text) if text.isascii() and text.isdigit() else 0.0


class ApiThrottle:
    """Limits requests to one per ``RETRY_INTERVAL`` after a failure, until a request is answered."""

    def __init__(self) -> None:
        self._next = 0.0
        self._answering = asyncio.Event()
        self._answering.set()

    async def turn(self) -> None:
        """Wait until a request may be sent."""
        loop = asyncio.get_running_loop()
        while not self._answering.is_set():
            wait = self._next - loop.time()
            if wait <= 0:
                self._next = loop.time() + RETRY_INTERVAL
                return
            try:
                async with asyncio.timeout(wait):
                    await self._answering.wait()
            except TimeoutError:
                continue

    def note_failure(self) -> None:
        """Note that a request was not answered, or that the API server is overloaded."""
        self._next = asyncio.get_running_loop().time() + RETRY_INTERVAL
        self._answering.clear()

    def note_answer(self) -> None:
        """Note that a request was answered."""
        self._answering.set()


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list; ``token`` requests the next page and is empty on the last.

    The items can be read once. Each is decoded when it is read: all objects of a page at once take about ten times the memory of the JSON.
    """

    items: Iterable[dict[str, Any]]
    resource_version: str
    token: str = ""


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    token: str | None = msgspec.field(name="continue", default=None)


class _List(msgspec.Struct):
    """What is read of a list. The items are not decoded."""

    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_LIST_DECODER: Final = msgspec.json.Decoder(_List)


class KubeClient:
    """A client of one API server, with a kubeconfig or the service account of the current pod.

    Every request raises ClusterError if the API server cannot be reached or refuses, or if renewed credentials cannot be read; its
    ``reason`` is one of ``REASONS``.
    """

    def __init__(self, kubeconfig: Kubeconfig | None = None) -> None:
        self._kubeconfig = kubeconfig or Kubeconfig()
        self._api: ApiClient | None = None
        self._in_use: Counter[ApiClient] = Counter()
        self._connecting = asyncio.Lock()
        self._throttle = ApiThrottle()

    @property
    def is_complete(self) -> bool:
        """True: the API server has all objects."""
        return True

    async def open(self) -> None:
        """Read the credentials now, not with the first request. Raises ConfigError if they are missing or cannot be used."""
        await self._login()

    async def page(self, scope: Scope, *, token: str = "", limit: int = WATCH_PAGE_SIZE) -> Page:
        """Return one page of the objects of ``scope``, with at most ``limit`` objects; ``token`` comes from the page before.

        Reading an item raises ClusterError if it is not JSON.
        """
        page = await self._list(scope, token, limit)
        items = (_object(memoryview(item), f"the list of {scope}") for item in page.items or ())
        return Page(items, page.metadata.resource_version, page.metadata.token or "")

    async def texts(self, scope: Scope, token: str = "") -> tuple[list[bytes], str]:
        """Return one page of the objects of ``scope`` as JSON; see ``TextReader``."""
        page = await self._list(scope, token, PAGE_SIZE)
        texts = [bytes(item) for item in page.items or ()]
        if not all(text.startswith(b"{") for text in texts):
            raise _garbage(f"the list of {scope}")
        return texts, page.metadata.token or ""

    async def _list(self, scope: Scope, token: str, limit: int) -> _List:
        query = {**_selectors(scope), "limit": str(limit), **({"continue": token} if token else {})}
        accept = _METADATA_LIST if scope.metadata_only else _JSON
        text = await self._text("GET", scope.resource.path(namespace=scope.namespace), query, accept=accept)
        try:
            return _LIST_DECODER.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise _garbage(f"the list of {scope}") from error

    async def all(self, scope: Scope, keep: Callable[[dict[str, Any]], T | None]) -> list[T]:
        """Return the results of ``keep`` for all objects of ``scope``, without None; see ``ObjectReader``."""
        for _ in range(LIST_ATTEMPTS - 1):
            try:
                return await self._all(scope, keep)
            except ClusterError as error:
                if error.reason != "gone":
                    raise
        return await self._all(scope, keep)

    async def _all(self, scope: Scope, keep: Callable[[dict[str, Any]], T | None]) -> list[T]:
        items: list[T] = []
        token = ""
        while True:
            page = await self.page(scope, token=token, limit=PAGE_SIZE)
            # The items of a list have no kind.
            reduced = (_reduce(scope, _with_kind(scope.resource, item), keep) for item in page.items)
            items += [item for item in reduced if item is not None]
            token = page.token
            if not token:
                return items

    async def watch(self, scope: Scope, *, resource_version: str, seconds: int) -> AsyncGenerator[bytes, None]:
        """Yield the changes of the objects of ``scope`` after ``resource_version``, one line of JSON each.

        The first line is empty: the API server has accepted the watch, and may have nothing to report for a minute. It ends the watch
        after ``seconds`` at the latest. A closed connection, and one without data for too long, are ClusterErrors.
        """
        query = {
            **_selectors(scope),
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        limits = aiohttp.ClientTimeout(
            total=seconds + WATCH_GRACE,
            sock_connect=CONNECT_TIMEOUT,
            sock_read=min(IDLE_TIMEOUT, seconds + WATCH_GRACE),
        )
        path = scope.resource.path(namespace=scope.namespace)
        accept = _METADATA if scope.metadata_only else _JSON
        async with self._request("GET", path, query, headers={"Accept": accept}, timeout=limits) as response:
            yield b""
            try:
                # An incomplete line at the end of the connection is dropped; the next watch repeats it.
                while (line := await response.content.readline(max_line_length=MAX_LINE)).endswith(b"\n"):
                    if stripped := line.strip():
                        yield stripped
            except LineTooLong as error:
                raise _garbage(f"the watch of {scope}") from error

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        """Return one object."""
        return await self._json("GET", resource.path(namespace=namespace, name=name), {})

    async def get_from_pod(self, name: str, path: str, *, namespace: str, port: int) -> dict[str, Any]:
        """Return the JSON that a pod serves at a path, over plain HTTP. The API server forwards the request."""
        proxy = f"/api/v1/namespaces/{namespace}/pods/http:{name}:{port}/proxy/{path}"
        return await self._json("GET", proxy, {})

    async def post_to_proxy(self, path: str, body: Mapping[str, Any], *, seconds: float, limit: int) -> bytes:
        """Return the answer of a Service to a JSON object, which the API server forwards to it, up to one byte more than ``limit``."""
        limits = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_TIMEOUT)
        headers = {"Accept": _JSON, "Content-Type": _JSON}
        async with self._request("POST", path, {}, body=body, headers=headers, timeout=limits) as response:
            return await read_up_to(response.content, limit + 1)

    async def find_resource(self, kind: str, group: str) -> Resource | None:
        """Return the resource of a kind; see ``ObjectReader``."""
        try:
            versions = await self._json("GET", f"/apis/{group}", {}) if group else _CORE
            for version in (offered["groupVersion"] for offered in versions["versions"]):
                listed = await self._json("GET", f"/apis/{version}" if group else f"/api/{version}", {})
                for resource in listed["resources"]:
                    if resource["kind"] == kind and "/" not in resource["name"]:  # not a subresource
                        return Resource(version, resource["name"], kind, namespaced=resource["namespaced"])
        except ClusterError as error:
            if error.reason != "missing":
                raise
        except (KeyError, TypeError) as error:
            raise _garbage(f"the list of kinds of {group}") from error
        return None

    async def apply(
        self,
        resource: Resource,
        manifest: Mapping[str, Any],
        *,
        manager: str,
        force: bool = False,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Write ``manifest`` by server-side apply and return the object.

        ``manager`` becomes the manager of its fields. Fields of another manager are a conflict unless ``force`` takes them over. An
        outdated ``metadata.resourceVersion`` is always a conflict. With ``dry_run`` the API server checks everything and writes nothing.
        """
        query = {
            "fieldManager": manager,
            **({"force": "true"} if force else {}),
            **({"dryRun": "All"} if dry_run else {}),
        }
        return await self._json(
            "PATCH", _path(resource, manifest), query, _with_kind(resource, manifest), content_type=_APPLY
        )

    async def create(
        self, resource: Resource, manifest: Mapping[str, Any], *, manager: str, dry_run: bool = False
    ) -> dict[str, Any]:
        """Create an object and return it; reason ``conflict`` if it exists. With ``dry_run`` it is only checked."""
        path = resource.path(namespace=manifest["metadata"].get("namespace", ""))
        query = {"fieldManager": manager, **({"dryRun": "All"} if dry_run else {}), **_validation(resource)}
        return await self._json("POST", path, query, _with_kind(resource, manifest))

    async def replace(
        self, resource: Resource, manifest: Mapping[str, Any], *, manager: str, subresource: str = ""
    ) -> dict[str, Any]:
        """Replace the version of an object that ``resourceVersion`` names, and return it; reason ``conflict`` if it has changed.

        With a ``subresource`` such as ``/status``, only that part of the object.
        """
        path, query = f"{_path(resource, manifest)}{subresource}", {"fieldManager": manager, **_validation(resource)}
        return await self._json("PUT", path, query, _with_kind(resource, manifest))

    async def patch(
        self, resource: Resource, name: str, operations: Sequence[Mapping[str, Any]], *, manager: str
    ) -> dict[str, Any]:
        """Change one cluster-scoped object by a JSON patch, atomically, and return the object; reason ``refused`` if a test fails."""
        query, body = {"fieldManager": manager}, list(operations)
        return await self._json("PATCH", resource.path(name=name), query, body, content_type=_JSON_PATCH)

    async def merge(self, resource: Resource, manifest: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        """Change the fields of one object that ``manifest`` has, by a JSON merge patch, and return the object.

        With ``metadata.resourceVersion`` only if the object still has it; otherwise the reason is ``conflict``.
        """
        query = {"fieldManager": manager}
        return await self._json("PATCH", _path(resource, manifest), query, manifest, content_type=_MERGE_PATCH)

    async def delete(
        self, resource: Resource, name: str, *, namespace: str = "", resource_version: str = "", dry_run: bool = False
    ) -> None:
        """Delete one object; with ``resource_version`` only if the object still has it. With ``dry_run`` it is only checked."""
        preconditions = {"preconditions": {"resourceVersion": resource_version}} if resource_version else {}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **preconditions}
        query = {"dryRun": "All"} if dry_run else {}
        await self._json("DELETE", resource.path(namespace=namespace, name=name), query, body)

    async def close(self) -> None:
        """Close every connection."""
        api, self._api = self._api, None
        if api is not None:
            await api.close()

    async def _json(
        self, method: str, path: str, query: dict[str, str], body: Any = None, *, content_type: str = _JSON
    ) -> dict[str, Any]:
        return _object(await self._text(method, path, query, body, content_type=content_type), path)

    async def _text(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: Any = None,
        *,
        accept: str = _JSON,
        content_type: str = _JSON,
    ) -> bytes:
        limits = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT, sock_connect=CONNECT_TIMEOUT)
        headers = {"Accept": accept} if body is None else {"Accept": accept, "Content-Type": content_type}
        async with self._request(method, path, query, body=body, headers=headers, timeout=limits) as response:
            return await response.read()

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        *,
        body: Any = None,
        headers: dict[str, str],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 -- one for each phase of a request, which aiohttp tells apart
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        # The credentials may be renewed while this waits.
        await self._throttle.turn()
        try:
            api = await self._login()
        except ConfigError as fault:
            raise ClusterError(fault.what, where=fault.where, hint=fault.hint, reason="credentials") from None
        self._in_use[api] += 1
        where = f"{api.configuration.host}{path}"
        try:
            response: aiohttp.ClientResponse = await api.call_api(
                path,
                method,
                query_params=query,
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _request_timeout=timeout,
            )
            async with response:
                await self._check(response, where, api)
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._throttle.note_failure()
            if isinstance(error, aiohttp.ClientSSLError):
                self._forget(api)
            raise _broken(error, where) from error
        finally:
            self._in_use[api] -= 1
            if not self._in_use[api]:
                del self._in_use[api]
                if api is not self._api:
                    await api.close()

    async def _check(self, response: aiohttp.ClientResponse, where: str, api: ApiClient) -> None:
        status = response.status
        if status < 400:  # noqa: PLR2004 -- HTTP's own border
            self._throttle.note_answer()
            return
        message = message_of(await read_up_to(response.content, _MAX_ERROR_BODY))
        if status == 401:  # noqa: PLR2004 -- Unauthorized
            self._forget(api)
        meaning = meaning_of(status)
        (self._throttle.note_failure if meaning.down else self._throttle.note_answer)()
        # The message names accounts, objects and fields. The message of a 401 may quote the credentials.
        said = f": {message}" if message and status not in (401, 410, 429) else ""
        raise ClusterError(
            f"the API server {meaning.what} (HTTP {status}){said}",
            where=where,
            hint=meaning.hint,
            reason=meaning.reason,
            status=status,
            retry_after=retry_after_seconds(response.headers.get("Retry-After", "")),
        )

    def _forget(self, api: ApiClient) -> None:
        """Read the credentials again for the next request, unless another request has done so.

        Connections in use stay open: aiohttp would cancel a request that resolves a name, and its task would end without an error.
        """
        if self._api is api:
            self._api = None

    async def _login(self) -> ApiClient:
        """Return the library's client. Raises ConfigError if the credentials cannot be used, or not be read in time."""
        try:
            async with asyncio.timeout(LOGIN_TIMEOUT):
                return await self._connect()
        except TimeoutError as error:
            raise unusable(self._kubeconfig, f"they cannot be read within {LOGIN_TIMEOUT:g} s") from error

    async def _connect(self) -> ApiClient:
        async with self._connecting:  # several watches may find their credentials refused at once
            if self._api is None:
                with ExitStack() as files:
                    _CREDENTIALS.set(files)
                    configuration = await _configuration(self._kubeconfig)
                    # Each upgrade has six watches. With the library's limit of 100, other requests would wait for the end of one.
                    configuration.connection_pool_maxsize = 0
                    configuration.disable_strict_ssl_verification = True  # as kubectl: see ``tls.client_context``
                    try:
                        self._api = ApiClient(configuration)
                    except (OSError, ValueError) as error:
                        raise unusable(self._kubeconfig, "a certificate or key is not valid") from error
                self._api.user_agent = USER_AGENT
                # aiohttp would retry a broken connection at once; the list/watch decides when to retry.
                self._api.rest_client.pool_manager._retry_connection = False  # noqa: SLF001 -- there is no other switch
            return self._api


_CREDENTIALS: Final[ContextVar[ExitStack]] = ContextVar("credentials")
"""Closes the files of the credentials that are being read."""


def _file_of_credentials(_: FileOrData, content: str | bytes) -> str:
    """Return the path of a file in memory with a certificate or key."""
    data = content.encode() if isinstance(content, str) else content
    return _CREDENTIALS.get().enter_context(file_in_memory(data))


def _text_of_credentials(
    credentials: FileOrData, read: Callable[[FileOrData], str | None] = FileOrData.as_data
) -> str | None:
    """Read a token. Raises ConfigError if its file is not a regular one: a read of it may never end."""
    path = credentials._file  # noqa: SLF001 -- the library has no other way
    if path:
        read_file(Path(path))
    return read(credentials)


FileOrData.as_data = _text_of_credentials  # type: ignore[assignment,method-assign]
# The library has no other way to keep them out of the temporary folder.
FileOrData._create_temp_file_with_content = _file_of_credentials  # type: ignore[assignment,method-assign]  # noqa: SLF001
kube_config.ExecProvider = Plugin  # type: ignore[assignment,attr-defined]
# Its messages quote kubeconfigs and plugins. All faults are errors here.
logging.getLogger("kubernetes_asyncio").setLevel(logging.CRITICAL)


async def _configuration(kubeconfig: Kubeconfig) -> Configuration:
    """Read the credentials. The library's error messages are left out because they quote the file."""
    configuration = Configuration()
    if not kubeconfig.paths and kubeconfig.context is None:
        try:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        except (ConfigException, OSError) as error:
            if "KUBERNETES_SERVICE_HOST" not in os.environ:
                raise kubeconfig.without_cluster() from error
            what, hint = "this pod has no service account token", "set automountServiceAccountToken: true"
            raise NotConfiguredError(what, where="kubeconfig", hint=hint) from error
        return configuration
    context = await asyncio.get_running_loop().run_in_executor(DAEMON_THREADS, kubeconfig.select_context)
    if context is None:
        raise kubeconfig.without_context()
    try:
        await load_kube_config(
            config_file=str(kubeconfig), context=context, client_configuration=configuration, persist_config=False
        )
    except Exception as error:
        raise unusable(kubeconfig, _fault(error)) from error
    return configuration


def _fault(error: Exception) -> str:
    """Return the reason of an error of the library, without the content of the file."""
    match error:
        case ConfigError():
            return f"{error.where} {error.what}"
        case FileNotFoundError():
            return f"there is no {error.filename}"
        case OSError(filename=str()):
            return f"{error.filename} cannot be read: {error.strerror}"
        case ConfigException() | TypeError():  # a TypeError for a user that the file does not have
            return "a cluster, user, certificate or key is missing or not valid"
        case _:
            return type(error).__name__


async def read_up_to(content: aiohttp.StreamReader, limit: int) -> bytes:
    """Return a body, which may arrive in pieces, up to a length."""
    try:
        return await content.readexactly(limit)
    except asyncio.IncompleteReadError as error:
        return error.partial


def _selectors(scope: Scope) -> dict[str, str]:
    name = f"metadata.name={scope.name}" if scope.name else ""
    selectors = {"fieldSelector": ",".join(filter(None, (name, scope.fields))), "labelSelector": scope.labels}
    return {key: selector for key, selector in selectors.items() if selector}


def _reduce(scope: Scope, item: dict[str, Any], keep: Callable[[dict[str, Any]], T | None]) -> T | None:
    """Return the result of ``keep``; None, with a line in the log, for an object of a shape that it cannot read."""
    try:
        return keep(item)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        name = (item.get("metadata") or {}).get("name")
        _log.warning("%s: %.300r cannot be read and is left out (%s); correct it", scope, name, type(error).__name__)
        return None


def _with_kind(resource: Resource, manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **manifest}


def _validation(resource: Resource) -> dict[str, str]:
    return {"fieldValidation": "Strict"} if resource.strict else {}


def _path(resource: Resource, manifest: Mapping[str, Any]) -> str:
    metadata = manifest["metadata"]
    return resource.path(namespace=metadata.get("namespace", ""), name=metadata["name"])


def _broken(error: Exception, where: str) -> ClusterError:
    """Return the error for a failed connection."""
    if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
        return ClusterError("the API server sent nothing for too long", where=where, hint="wait", reason="idle")
    if isinstance(error, aiohttp.ClientPayloadError | ConnectionResetError | aiohttp.ServerDisconnectedError):
        return ClusterError("the API server closed the connection", where=where, hint="wait", reason="cut")
    detail = getattr(error, "strerror", None) or type(error).__name__
    return ClusterError(
        f"the API server cannot be reached: {detail}",
        where=where,
        hint="check the address, the network and the CA",
        reason="unreachable",
    )


def _object(text: bytes | memoryview, where: str) -> dict[str, Any]:
    """Decode a JSON object of the API server."""
    try:
        document = load_json(text)
    except DataError as error:
        raise _garbage(where) from error
    if not isinstance(document, dict):
        raise _garbage(where)
    return document


def _garbage(where: str) -> ClusterError:
    return ClusterError(
        "the API server's answer cannot be read", where=where, hint="check for a proxy in between", reason="garbage"
    )

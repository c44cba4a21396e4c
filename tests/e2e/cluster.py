"""A real API server for tests, with ports, data and certificates of its own, and requests to it."""

from __future__ import annotations

import base64
import itertools
import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml

from tests.e2e.controlplane import ControlPlane

LIMIT = 1200.0
"""Seconds for one command or request."""
PATHS = {
    "deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "mutatingwebhookconfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "validatingwebhookconfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    **{kind: f"/api/v1/namespaces/{{namespace}}/{kind}s" for kind in ("pod", "secret", "service")},
}
"""The objects of each kind that tests read."""
ALL = b"/registry/"
"""Before the keys of all objects in an API server's store."""
NAMESPACES = b"/registry/namespaces/"
GARBAGE_COLLECTOR: Mapping[str, str] = MappingProxyType({"GOGC": "400"})
"""What the programs of a cluster run with. Their heaps are small, so they collect garbage rarely, which is an eighth of their CPU time."""
UNSETTLED = (b"/registry/leases/", b"/registry/masterleases/", b"/registry/events/")
"""Before the keys of what the programs of a cluster write all the time."""


class Stored(NamedTuple):
    """An object in the store: the version of its last change, and its bytes in base64."""

    version: str
    value: str


class Cluster:
    """One API server; what it holds is kept while it is down.

    With ``controllers`` Deployments make ReplicaSets and these make pods; without, objects stay as they were created. With ``nodes``
    pods also become Running and Ready. ``flags`` are further ones of the API server, ``environment`` is that of all programs. It starts
    with the ``objects`` of a file, among them a definition of a resource.
    """

    def __init__(
        self,
        home: Path,
        *,
        controllers: bool = False,
        nodes: int = 0,
        flags: str = "",
        environment: Mapping[str, str] = GARBAGE_COLLECTOR,
        objects: Path | None = None,
    ) -> None:
        self._plane = ControlPlane(home, controllers=controllers, nodes=nodes, flags=flags, environment=environment)
        self.home, self.url, self.tls, self.kubeconfig = home, self._plane.url, self._plane.tls, self._plane.kubeconfig
        self._etcd = f"{self._plane.etcd}/v3/kv/"
        self._objects = objects
        self._first: dict[bytes, Stored] = {}
        self._kinds: dict[tuple[str, str], tuple[str, bool]] = {}

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self._plane.start()

    def stop(self) -> None:
        """End it."""
        self._plane.stop()

    def remember(self) -> None:
        """Keep what it holds now, for ``restore``."""
        if self._objects:
            self.define(*yaml.safe_load_all(self._objects.read_text()))
        self._first = self._stored()

    def restore(self) -> None:
        """Make it hold what it held when ``remember`` was called: by changes of its store, which it follows.

        That takes a second, and a new API server ten. It is done again while controllers write, but not forever. The scheduler ends
        when its pods disappear from the store and others with their names come, so it is stopped meanwhile.
        """
        with self._plane.without_scheduler():
            self._restore()

    def _restore(self) -> None:
        for _ in range(10):
            stored = self._stored(keys_only=True)
            # Namespaces first: controllers can create nothing in a namespace that is gone.
            self._delete(key for key in stored if key.startswith(NAMESPACES))
            self._delete(stored)
            for key in self._first:
                before, now = self._first[key], stored.get(key)
                if not key.startswith(UNSETTLED) and (now is None or now.version != before.version):
                    written = self._call("put", key=_base64(key), value=before.value)
                    self._first[key] = before._replace(version=written["header"]["revision"])
            if all(key in self._first or key.startswith(UNSETTLED) for key in stored):
                break
            time.sleep(0.2)

    def _delete(self, keys: Iterable[bytes]) -> None:
        """Delete keys from the store, less those that are remembered, by one request for all that lie between two of these."""
        for stays, run in itertools.groupby(sorted(keys), self._first.__contains__):
            if not stays:
                first, *others = run
                self._call("deleterange", key=_base64(first), range_end=_base64([first, *others][-1] + b"\0"))

    def _stored(self, **options: bool) -> dict[bytes, Stored]:
        """Return what the store has by key."""
        pairs = self._call("range", key=_base64(ALL), range_end=_base64(ALL[:-1] + b"0"), **options)["kvs"]
        return {base64.b64decode(pair["key"]): Stored(pair["mod_revision"], pair.get("value", "")) for pair in pairs}

    def _call(self, method: str, **fields: Any) -> Any:
        request = urllib.request.Request(self._etcd + method, json.dumps(fields).encode())  # noqa: S310 -- loopback
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:  # noqa: S310 -- loopback
            return json.load(answer)

    def end(self) -> None:
        """End it for good; nothing of it is left, least of all its keys."""
        self._plane.end()

    def request(
        self, path: str, body: Any = None, method: str | None = None, content: str = "application/json"
    ) -> tuple[int, dict[str, Any]]:
        """The status and the object of an answer: without kubectl, which takes ten times as long."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": content}, method=method)  # noqa: S310 -- loopback
        try:
            with urllib.request.urlopen(request, context=self.tls, timeout=LIMIT) as answer:  # noqa: S310 -- loopback
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def apply(self, *manifests: dict[str, Any]) -> None:
        """Create objects, or change them, as `kubectl apply --server-side --force-conflicts`."""
        for manifest in manifests:
            path = f"{self._path(manifest)}?fieldManager=kubectl&force=true&fieldValidation=Strict"
            status, said = self.request(path, manifest, "PATCH", "application/apply-patch+yaml")
            assert status < HTTPStatus.BAD_REQUEST, said

    def define(self, *definitions: dict[str, Any]) -> None:
        """Create CustomResourceDefinitions, and wait until their resources are served."""
        self.apply(*definitions)
        names = [f"crd/{item['metadata']['name']}" for item in definitions]
        self._kubectl("wait", "--for=condition=Established", "--timeout=1200s", *names)

    def _path(self, manifest: dict[str, Any]) -> str:
        """Return the path of an object; a kind is looked up once."""
        kind, meta = (manifest["apiVersion"], manifest["kind"]), manifest["metadata"]
        root = f"/{'api' if kind[0] == 'v1' else 'apis'}/{kind[0]}"
        if kind not in self._kinds:
            resources = [resource for resource in self.request(root)[1]["resources"] if "/" not in resource["name"]]
            self._kinds |= {
                (kind[0], resource["kind"]): (resource["name"], resource["namespaced"]) for resource in resources
            }
        name, is_namespaced = self._kinds[kind]
        place = f"/namespaces/{meta.get('namespace', 'default')}" if is_namespaced else ""
        return f"{root}{place}/{name}/{meta['name']}"

    def kubectl(self, *arguments: str, stdin: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl as a user does; it may fail."""
        command = [str(self.home / "bin" / "kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        text = None if stdin is None else json.dumps(stdin)
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False)

    def create(self, manifest: dict[str, Any]) -> tuple[bool, str]:
        """Create one object as a user does; whether that was allowed, and all that kubectl said."""
        done = self.kubectl("create", "-f", "-", stdin=manifest)
        return done.returncode == 0, done.stdout + done.stderr

    def tried(self, pod: dict[str, Any]) -> dict[str, Any]:
        """What the API server would make of a pod; it keeps nothing of it."""
        answer = self._tried(pod, pod["metadata"].get("namespace", "default"), "&fieldValidation=Strict")
        assert answer["kind"] == "Pod", answer
        return answer

    def refusal(self, pod: dict[str, Any], namespace: str) -> str:
        """Why the API server refuses a pod, which it does not keep; empty where it accepts it."""
        answer = self._tried(pod, namespace)
        return "" if answer["kind"] == "Pod" else str(answer["message"])

    def _tried(self, pod: dict[str, Any], namespace: str, options: str = "") -> dict[str, Any]:
        """The pod that the API server would make, or its refusal."""
        return self.request(f"{PATHS['pod'].format(namespace=namespace)}?dryRun=All{options}", pod)[1]

    def is_allowed(self, account: str, **attributes: str) -> bool:
        """Whether a service account, ``namespace:name``, has a permission: the attributes of a SubjectAccessReview.

        The API server knows a permission a moment after it is written.
        """
        spec = {"user": f"system:serviceaccount:{account}", "resourceAttributes": attributes}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        status: dict[str, bool] = self.request("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)[1][
            "status"
        ]
        return status["allowed"]

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        """Delete one object."""
        self._kubectl("delete", kind, name, "-n", namespace, "--wait=false")

    def version(self) -> str:
        """The version of the API server, as ``v1.35.4``."""
        return str(json.loads(self._kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"])

    def pods(self) -> list[dict[str, Any]]:
        """Every pod of every namespace."""
        return self.items("/api/v1/pods")

    def items(self, path: str) -> list[dict[str, Any]]:
        """What the API server lists below a path."""
        listed: list[dict[str, Any]] = self.request(path)[1]["items"]
        return listed

    def dry_run(self, text: str) -> str:
        """What kubectl says of manifests that the API server has checked and not written."""
        return self._kubectl("apply", "--dry-run=server", "-f", "-", stdin=text)

    def get(self, kind: str, name: str, namespace: str = "default") -> dict[str, Any]:
        """One object, with whose fields are whose; empty where there is none."""
        status, item = self.request(f"{PATHS[kind].format(namespace=namespace)}/{name}")
        assert status in (HTTPStatus.OK, HTTPStatus.NOT_FOUND), item
        return item if status == HTTPStatus.OK else {}

    def names(self, kind: str) -> list[str]:
        """The names of the objects of a kind, `kind/name` each."""
        return self._kubectl("get", kind, "-o", "name").split()

    def patch(self, kind: str, name: str, operations: list[dict[str, Any]], namespace: str = "default") -> None:
        """Change one object by a JSON patch."""
        self._kubectl("patch", kind, name, "-n", namespace, "--type=json", "-p", json.dumps(operations))

    def merge(self, path: str, change: dict[str, Any]) -> None:
        """Change the object at a path by a merge patch, unless it is gone or others are changing it."""
        status, said = self.request(path, change, "PATCH", "application/merge-patch+json")
        assert status in (HTTPStatus.OK, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT), said

    def kubeconfig_of(self, account: str, namespace: str) -> Path:
        """A kubeconfig with a token of a service account, for a day."""
        admin = yaml.safe_load(self.kubeconfig.read_text())
        token = self._kubectl("create", "token", account, "-n", namespace, "--duration=24h").strip()
        path = self.home / f"{account}.kubeconfig"
        path.write_text(json.dumps({**admin, "users": [{"name": "admin", "user": {"token": token}}]}))
        return path

    def _kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        command = [str(self.home / "bin" / "kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=LIMIT)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@contextmanager
def running(cluster: Cluster) -> Iterator[Cluster]:
    """Give an API server started, which remembers what it holds; end it whatever happens."""
    try:
        cluster.start()
        cluster.remember()
        yield cluster
    finally:
        cluster.end()


def _base64(text: bytes) -> str:
    return base64.b64encode(text).decode()

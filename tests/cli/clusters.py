"""Small clusters of made-up objects, read from memory or through a client's stand-in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from injector.cli import main
from injector.cluster import resources
from injector.cluster.client import KubeClient, Page, meaning_of
from injector.cluster.resources import Resource, Scope
from injector.errors import ClusterError
from injector.fleet.files import FileReader
from injector.istio.webhooks.configurations import Endpoint, WebhookOptions, revision_webhook, tag_webhook
from tests.cluster.fakeapi import FakeApi
from tests.factories import make_pod, owner_of
from tests.istiods import Answering, Review
from tests.manifests import namespace_of, revision_maps
from tests.revisions.fakes import CONFIG, VALUES

HOME = "istio-system"
REV = "istio.io/rev"


def with_cpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Let this process run on so many CPUs, as commands see it."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(count)), raising=False)


def cluster(*objects: dict[str, Any]) -> FileReader:
    return FileReader((("", item) for item in objects), where="memory")


def revision(name: str, version: str, *, config: str = CONFIG) -> tuple[dict[str, Any], ...]:
    """The two ConfigMaps and the webhooks of a revision."""
    values = VALUES.replace("1.24.6", version)
    return (
        *config_maps(name, config=config, values=values),
        revision_webhook(name, WebhookOptions(ca_bundle="QQ==")),
    )


def config_maps(rev: str, **data: str) -> tuple[dict[str, Any], ...]:
    """The two ConfigMaps of a revision. Without values they do not tell the version of Istio."""
    return revision_maps(HOME, rev, **{"config": CONFIG, **data})


INJECTOR = {"metadata": {"name": "injector", "namespace": "injector-system"}}
"""The Service of the injector."""


ISTIOD = Endpoint("istiod-1-30", "istio-system")


def istiod_webhook(
    name: str = "1-30", endpoint: Endpoint = ISTIOD, path: str = "/inject", **client: Any
) -> dict[str, Any]:
    """The webhook of a revision, which calls an istiod; keywords are fields of its `clientConfig`."""
    configuration = revision_webhook(name, WebhookOptions(endpoint))
    for entry in configuration["webhooks"]:
        service = entry["clientConfig"].get("service")
        if service is not None:
            service["path"] = path
        entry["clientConfig"] = {**entry["clientConfig"], **client}
    return configuration


def tag(name: str, target: str) -> dict[str, Any]:
    return tag_webhook(name, target, WebhookOptions(ca_bundle="QQ=="))


def namespace(name: str, **labels: str) -> dict[str, Any]:
    return namespace_of(name, labels)


def labelled(name: str, rev: str) -> dict[str, Any]:
    return namespace(name, **{REV: rev})


def owned(name: str, place: str, *, kind: str = "ReplicaSet", **meta: Any) -> dict[str, Any]:
    """A pod of a Deployment, or of another kind of controller; further keywords are of its metadata."""
    owner = f"{name}-abc" if kind == "ReplicaSet" else name
    labels = {"app": name, "pod-template-hash": "abc", **meta.pop("labels", {})}
    named = {"name": f"{owner}-1", "generateName": f"{owner}-", "namespace": place}
    return {**make_pod(), "metadata": {**named, "ownerReferences": [owner_of(owner, kind)], "labels": labels, **meta}}


def deployment(name: str, place: str, **fields: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": make_pod()["spec"]}
    metadata = {"name": name, "namespace": place, **fields.pop("metadata", {})}
    kind = fields.pop("kind", "Deployment")
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {"template": template}, **fields}


def endpoints(ready: int = 1, unready: int = 0) -> dict[str, Any]:
    """The EndpointSlice of the injector's Service."""
    labels = {"kubernetes.io/service-name": "injector"}
    conditions = [{"ready": True}] * ready + [{"ready": False}] * unready
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "injector-x", "namespace": "injector-system", "labels": labels},
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": condition} for condition in conditions],
    }


def proxy_config(place: str, **variables: str) -> dict[str, Any]:
    """A ProxyConfig for a whole namespace."""
    metadata = {"name": "all", "namespace": place}
    spec = {"environmentVariables": variables}
    return {"apiVersion": "networking.istio.io/v1beta1", "kind": "ProxyConfig", "metadata": metadata, "spec": spec}


SHOWS_A = CONFIG.replace("{{ .Values.global.tag }}", "{{ index .ProxyConfig.ProxyMetadata `A` | default `none` }}")
"""An inject config whose proxy image shows the variable A of the pod's ProxyConfig."""


_RESOURCES = {resource.kind: resource for resource in vars(resources).values() if isinstance(resource, Resource)}


class FakeKube(FakeApi):
    """An API server with made-up objects. ``denied`` has the permissions that are missing, such as ``patch deployments shop``.

    ``forbidden`` are the resources that may not be listed. ``refuses`` says why a dry run of a pod is refused, with the HTTP status.
    """

    def __init__(
        self,
        *objects: dict[str, Any],
        forbidden: tuple[str, ...] = (),
        refuses: Callable[[Mapping[str, Any]], tuple[int, str] | None] = lambda _: None,
        denied: tuple[str, ...] = (),
    ) -> None:
        super().__init__(refused={f"list {plural}": "forbidden" for plural in forbidden})
        self.refuses, self.denied = refuses, denied
        self.tried: list[Mapping[str, Any]] = []
        for item in objects:
            kind, version = item["kind"], item.get("apiVersion", "")
            self.put(_RESOURCES.get(kind) or Resource(version, f"{kind.lower()}s", kind, namespaced=True), item)

    async def create(
        self, resource: Resource, manifest: Mapping[str, Any], *, manager: str, dry_run: bool = False
    ) -> dict[str, Any]:
        if resource.plural == "selfsubjectaccessreviews":
            attributes = manifest["spec"]["resourceAttributes"]
            permission = f"{attributes['verb']} {attributes['resource']} {attributes['namespace']}"
            return {"status": {"allowed": not any(text.startswith(permission) for text in self.denied)}}
        assert (resource.plural, bool(manager), dry_run) == ("pods", True, True)
        self.tried.append(manifest)
        if answer := self.refuses(manifest):
            raise ClusterError(answer[1], hint="x", reason=meaning_of(answer[0]).reason, status=answer[0])
        return dict(manifest)

    async def page(self, scope: Scope, *, token: str = "", limit: int = 0) -> Page:
        listed = await super().page(scope, token=token, limit=limit)
        # The items of a list have no kind.
        items = [{key: item[key] for key in item if key not in ("kind", "apiVersion")} for item in listed.items]
        return Page(items, listed.resource_version, listed.token)


class ProxyingKube(FakeKube):
    """An API server whose proxy leads to an istiod in memory."""

    def __init__(self, *objects: dict[str, Any], answering: Answering) -> None:
        super().__init__(*objects)
        self.answering = answering
        self.posted: list[tuple[str, Review]] = []

    async def post_to_proxy(self, path: str, body: Mapping[str, Any], *, seconds: float, limit: int) -> bytes:
        del seconds, limit
        self.posted.append((path, json.loads(json.dumps(body))))
        return self.answering(path.partition("/proxy")[2], self.posted[-1][1])


def reached(monkeypatch: pytest.MonkeyPatch, client: KubeClient) -> None:
    """Let commands reach this cluster, whatever their flags."""
    monkeypatch.setattr("injector.cluster.client.KubeClient", lambda _: client)


def written(folder: Path, *objects: dict[str, Any]) -> str:
    """Write a file with the objects, and return its name."""
    path = folder / "objects.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def invoke(*arguments: str, text: str | None = None) -> Result:
    """Run ``injector`` with these arguments, and with a text on stdin."""
    return CliRunner().invoke(main, arguments, input=text)


def parsed(options: Callable[..., Any], *arguments: str, use: Callable[..., Any] = dict) -> Any:
    """Return the result of ``use`` in a command with these options and arguments, by default the values of the options."""

    def command(**values: Any) -> Any:
        return use(**values)

    return click.command(options(command)).main(arguments, standalone_mode=False)


def assert_fails(result: Result, code: int, text: str) -> None:
    """Check that a command failed with an exit code and one line on stderr, and printed nothing."""
    assert (result.exit_code, result.stdout) == (code, "")
    (error,) = result.stderr.splitlines()
    assert error.startswith("error: ")
    assert text in error

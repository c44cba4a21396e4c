"""The webhooks of an API server: written by the injector's own commands, there as long as a test, and one that records its calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from uuid import uuid4

import yaml

from tests.e2e.cluster import PATHS, Cluster
from tests.e2e.served import Certificate, command, until
from tests.istiods import Review, answer, serving
from tests.manifests import make_object, pod_webhook


def written(what: str, *arguments: str, port: int, trusted: Certificate) -> list[dict[str, Any]]:
    """The configurations that `injector WHAT generate` prints for an injector on the loopback."""
    endpoint = ("--url", f"https://127.0.0.1:{port}", "--ca-bundle", trusted.authority, "--timeout", "30s")
    offline = ("--offline",) if what == "tag" else ()
    return list(yaml.safe_load_all(command(what, "generate", *arguments, *offline, *endpoint)))


@dataclass(frozen=True)
class Recorder:
    """A webhook that allows all pods: its address, and the paths and reviews that it received."""

    url: str
    received: list[tuple[str, Review]]

    def calls(self) -> dict[tuple[str, str], set[str]]:
        """The paths that were called, by the namespace and the name of the pod. They are forgotten."""
        calls = defaultdict[tuple[str, str], set[str]](set)
        for path, review in self.received:
            request = review["request"]
            calls[request["namespace"], request["object"]["metadata"].get("name", "")].add(path.partition("?")[0])
        self.received.clear()
        return calls


@contextmanager
def recorder(trusted: Certificate) -> Iterator[Recorder]:
    """Serve the webhook on the loopback while the block runs."""
    with serving(lambda _, review: answer(review), (trusted.chain, trusted.key)) as (url, received):
        yield Recorder(url, received)


@contextmanager
def calling(cluster: Cluster, configurations: list[dict[str, Any]]) -> Iterator[None]:
    """Let the API server call these webhooks while the block runs."""
    cluster.apply(*configurations)
    wait_for_webhooks(cluster)
    try:
        yield
    finally:
        for configuration in configurations:
            cluster.delete("mutatingwebhookconfiguration", configuration["metadata"]["name"])


def wait_for_webhooks(cluster: Cluster) -> None:
    """Wait until the API server calls the webhooks that were written before, as they are now.

    It learns of webhooks in the order of their changes, a moment after they are written. So the last one is written here: it refuses a
    ConfigMap, because nothing answers.
    """
    name = f"probe-{uuid4().hex}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    entry = pod_webhook(
        "probe.example.com",
        {"url": "https://127.0.0.1:1/"},
        rules=[rule],
        objectSelector={"matchLabels": {"probe": name}},
    )
    path = f"{PATHS['mutatingwebhookconfiguration']}/{name}"
    probe = make_object("ConfigMap", name, "default", {"probe": name})
    cluster.apply(make_object("MutatingWebhookConfiguration", name, webhooks=[entry]))
    try:
        until(
            lambda: cluster.request("/api/v1/namespaces/default/configmaps?dryRun=All", probe)[0] != HTTPStatus.CREATED
        )
    finally:
        cluster.request(path, method="DELETE")

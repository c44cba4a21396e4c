"""The webhooks of an API server: written by the injector's own commands, there as long as a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from tests.e2e.cluster import Cluster
from tests.e2e.served import Certificate, command


def written(what: str, *arguments: str, port: int, trusted: Certificate) -> list[dict[str, Any]]:
    """The configurations that `injector WHAT generate` prints for an injector on the loopback."""
    endpoint = ("--url", f"https://127.0.0.1:{port}", "--ca-bundle", trusted.authority, "--timeout", "30s")
    offline = ("--offline",) if what == "tag" else ()
    return list(yaml.safe_load_all(command(what, "generate", *arguments, *offline, *endpoint)))


@contextmanager
def calling(cluster: Cluster, configurations: list[dict[str, Any]]) -> Iterator[None]:
    """Let the API server call these webhooks while the block runs."""
    cluster.apply(*configurations)
    try:
        yield
    finally:
        for each in configurations:
            cluster.delete("mutatingwebhookconfiguration", each["metadata"]["name"])

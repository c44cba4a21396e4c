"""Paths of webhooks: ``/inject/<revision or tag>``, so that one process can serve all of them. Istio's own path is ``/inject``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

PATH_PREFIX: Final = "/inject"
PAIRS: Final = ("cluster", "net")
"""The keys of Istio's pairs after the name: ``/inject/<name>/cluster/<cluster>/net/<network>``."""
SLASH: Final = "--slash--"
"""Stands for a slash in the values of the pairs (pkg/kube/inject/webhook.go, URLParameterToEnv)."""


def path_of(client: Mapping[str, Any]) -> str:
    """Return the path that a ``clientConfig`` calls, or an empty text."""
    service = client.get("service") or {}
    return str(service.get("path") or "") if service else urlsplit(str(client.get("url") or "")).path


def is_injectors(path: str) -> bool:
    """Tell whether an injector serves the path."""
    return path.partition("?")[0].rstrip("/") == PATH_PREFIX or path.startswith(f"{PATH_PREFIX}/")


def has_path_of(client_config: Mapping[str, Any], name: str) -> bool:
    """Tell whether a webhook calls ``/inject/<name>``, with or without pairs."""
    return f"{PATH_PREFIX}/{name}/" in f"{path_of(client_config)}/"

"""The Multus network list of a pod (annotation ``k8s.v1.cni.cncf.io/networks``), which Istio's CNI is appended to.

Follows ``appendMultusNetwork`` in pkg/kube/inject/template.go (1.30.3).
"""

from __future__ import annotations

import json
from typing import Any


def append_multus_network(existing: str, network: str) -> str:
    """Return the network list with ``network`` (``namespace/name`` or ``name``) in it once.

    The list is comma-separated text or a JSON array; JSON that does not decode is returned as it is.
    """
    if not existing:
        return network
    end = existing.rfind("]")
    if end >= 0:
        return _append_to_json(existing, end, network)
    if network in (item.strip() for item in existing.split(",")):
        return existing
    return f"{existing}, {network}"


def _append_to_json(existing: str, end: int, network: str) -> str:
    networks = _decode(existing)
    if networks is None:
        return existing
    namespace, _, name = network.rpartition("/")
    for item in networks:
        if item.get("name") == name and (item.get("namespace") or "") == namespace:
            return existing
    added = f', {{"name": "{name}", "namespace": "{namespace}"}}' if namespace else f', {{"name": "{name}"}}'
    return existing[:end] + added + existing[end:]


def _decode(text: str) -> list[dict[str, Any]] | None:
    try:
        networks = json.loads(text)
    except ValueError:
        return None
    if not isinstance(networks, list) or not all(isinstance(item, dict) for item in networks):
        return None
    return networks

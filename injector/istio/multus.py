"""The Multus network list of a pod (annotation ``k8s.v1.cni.cncf.io/networks``), which Istio's CNI is appended to.

Follows ``appendMultusNetwork`` in pkg/kube/inject/template.go (1.30.3), webhook.go or inject.go before 1.14.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from injector.errors import DataError
from injector.kube.serial import load_json

if TYPE_CHECKING:
    from injector.istio.minor import Minor


@dataclass(frozen=True, slots=True)
class AppendNetwork:
    """``appendMultusNetwork``: adds a network to a list.

    ``once`` (since 1.9): a network that is there is not added again, and a list that looks like JSON and is none is left alone.
    ``namespaced`` (since 1.23): ``namespace/name`` is split in two in a JSON list.
    """

    once: bool
    namespaced: bool

    @classmethod
    def of(cls, minor: Minor) -> AppendNetwork:
        """Return the function as ``minor`` has it."""
        return cls(once=minor >= (1, 9), namespaced=minor >= (1, 23))

    def __call__(self, existing: str, network: str) -> str:
        """Return the list ``existing``, comma-separated text or a JSON array, with ``network`` in it."""
        if not existing:
            return network
        end = existing.rfind("]")
        if end >= 0:
            return self._to_json(existing, end, network)
        if self.once and network in (item.strip() for item in existing.split(",")):
            return existing
        return f"{existing}, {network}"

    def _to_json(self, existing: str, end: int, network: str) -> str:
        namespace, _, name = network.partition("/") if self.namespaced and "/" in network else ("", "", network)
        if self.once:
            networks = _decoded(existing)
            if networks is None or any(self._is(item, namespace, name) for item in networks):
                return existing
        added = f', {{"name": "{name}", "namespace": "{namespace}"}}' if namespace else f', {{"name": "{name}"}}'
        return existing[:end] + added + existing[end:]

    def _is(self, item: dict[str, Any], namespace: str, name: str) -> bool:
        return item.get("name") == name and (not self.namespaced or (item.get("namespace") or "") == namespace)


def _decoded(text: str) -> list[dict[str, Any]] | None:
    try:
        networks = load_json(text)
    except DataError:
        return None
    if not isinstance(networks, list) or not all(isinstance(item, dict) for item in networks):
        return None
    return networks

"""One Secret of a cluster, read and written as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.resources import SECRETS, find_object

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient

CA_MANAGER: Final = "injector-ca"
"""The field manager of the Secret."""


@dataclass(frozen=True, slots=True)
class SecretStore:
    """One Secret of a cluster, read and written as a whole, which may not exist. Its methods raise ClusterError as the client does.

    A write names the version that it replaces, so that no other write is lost.
    """

    client: KubeClient
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"Secret {self.namespace}/{self.name}"

    async def read(self) -> dict[str, Any] | None:
        """Return the Secret; None if it does not exist."""
        return await find_object(self.client, SECRETS, self.name, namespace=self.namespace)

    async def write(self, data: Mapping[str, str], before: Mapping[str, Any] | None) -> None:
        """Write ``data`` into ``before``, the Secret that was read; labels and annotations stay.

        If the Secret has changed since, the ``reason`` of the error is ``conflict``.
        """
        if before is not None:
            await self.client.replace(SECRETS, {**before, "data": data}, manager=CA_MANAGER)
        else:
            secret = {"metadata": {"name": self.name, "namespace": self.namespace}, "type": "Opaque", "data": data}
            await self.client.create(SECRETS, secret, manager=CA_MANAGER)

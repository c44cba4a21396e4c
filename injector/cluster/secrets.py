"""One Secret, read and written as a whole. A write names the version that it replaces, so that no other write is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.resources import SECRETS
from injector.errors import ClusterError

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient

CA_MANAGER: Final = "injector-ca"
"""The field manager of the Secret."""


@dataclass(frozen=True, slots=True)
class SecretContent:
    """The data of a Secret, in base64, and the rest of the object."""

    data: Mapping[str, str]
    rest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SecretStore:
    """One Secret of a cluster, which may not exist. Its methods raise ClusterError as the client does."""

    client: KubeClient
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"Secret {self.namespace}/{self.name}"

    async def read(self) -> SecretContent | None:
        """Return its content; None if it does not exist."""
        try:
            found = await self.client.get(SECRETS, self.name, namespace=self.namespace)
        except ClusterError as error:
            if error.reason == "missing":
                return None
            raise
        data = {key: str(value) for key, value in (found.pop("data", None) or {}).items()}
        return SecretContent(data, found)

    async def write(self, data: Mapping[str, str], before: SecretContent | None) -> None:
        """Write ``data`` in place of ``before``, the content that was read; labels and annotations stay.

        If the Secret has changed since, the ``reason`` of the error is ``conflict``.
        """
        if before is not None:
            await self.client.replace(SECRETS, {**before.rest, "data": dict(data)}, manager=CA_MANAGER)
            return
        metadata = {"name": self.name, "namespace": self.namespace}
        await self.client.create(
            SECRETS, {"metadata": metadata, "type": "Opaque", "data": dict(data)}, manager=CA_MANAGER
        )

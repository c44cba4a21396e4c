"""Reads objects once, as commands do that look at a cluster and end: whole lists, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from injector.cluster.objects import listed
from injector.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from injector.cluster.client import Page
    from injector.cluster.resources import Resource, Scope

T = TypeVar("T")

PAGE: Final = 500
"""Objects in a page: kubectl's own --chunk-size."""
# A list that takes longer than the API server keeps its version, some five minutes, is begun anew.
TRIES: Final = 3


class Reader(Protocol):
    """Where objects are read: a cluster, or files that hold what one had."""

    async def all(self, scope: Scope, keep: Callable[[dict[str, Any]], T | None]) -> list[T]:
        """Return what ``keep`` makes of each object of a scope, without None."""

    async def one(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        """Return one object."""


class Client(Protocol):
    """What a reader needs of the API server's client."""

    async def page(self, scope: Scope, *, token: str = "", limit: int = PAGE) -> Page:
        """Return one page of a list."""

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        """Return one object."""


class ClusterReader:
    """Reads a cluster. Of each object no more stays in memory than what ``keep`` returns."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def all(self, scope: Scope, keep: Callable[[dict[str, Any]], T | None]) -> list[T]:
        """Return what ``keep`` makes of each object of a scope, without None.

        Raises:
            ClusterError: the API server cannot be reached, or refuses, or forgets the list again and again.
        """
        for tried in range(TRIES):
            try:
                return await self._listed(scope, keep)
            except ClusterError as error:
                if error.reason != "gone" or tried == TRIES - 1:
                    raise
        raise AssertionError("unreachable")  # pragma: no cover -- the last try returns or raises

    async def one(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        """Return one object.

        Raises:
            ClusterError: there is none, or the API server cannot be reached, or refuses.
        """
        return await self._client.get(resource, name, namespace=namespace)

    async def _listed(self, scope: Scope, keep: Callable[[dict[str, Any]], T | None]) -> list[T]:
        # The items of a list do not say of what kind they are.
        named = {"apiVersion": scope.resource.api_version, "kind": scope.resource.kind}
        items = listed(lambda token: self._client.page(scope, token=token, limit=PAGE))
        found = [keep({**named, **item}) async for item in items]
        return [each for each in found if each is not None]

"""Objects of the API server, read once rather than watched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from injector.cluster.client import Page
    from injector.cluster.resources import Resource, Scope


class Client(Protocol):
    """What reading and writing objects needs of the API server's client."""

    async def page(self, scope: Scope, *, token: str = "") -> Page:
        """Return one page of a list."""

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        """Return one object."""

    async def apply(
        self,
        resource: Resource,
        manifest: Mapping[str, Any],
        *,
        manager: str,
        force: bool = False,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Bring an object's fields to what the manifest says."""

    async def delete(self, resource: Resource, name: str, *, namespace: str = "", resource_version: str = "") -> None:
        """Delete one object."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of some objects, ``namespace/name`` where they have one, and how many there are with the others."""

    first: tuple[str, ...]
    total: int


async def every(client: Client, scope: Scope) -> AsyncIterator[dict[str, Any]]:
    """Give the objects of ``scope``, asked for page by page; no more than a page is held at once.

    Raises:
        ClusterError: the API server cannot be reached, or refuses.
    """
    async for item in listed(lambda token: client.page(scope, token=token)):
        yield item


async def listed(page_of: Callable[[str], Awaitable[Page]]) -> AsyncIterator[dict[str, Any]]:
    """Give the items of a list; ``page_of`` asks for the page of a token, the first by an empty one."""
    token = ""
    while True:
        page = await page_of(token)
        for item in page.items:
            yield item
        token = page.token
        if not token:
            return


async def names(client: Client, scope: Scope, *, most: int) -> Names:
    """Return the names of the first ``most`` objects of ``scope``, and how many there are.

    Raises:
        ClusterError: the API server cannot be reached, or refuses.
    """
    first: list[str] = []
    total = 0
    async for item in every(client, scope):
        total += 1
        if total <= most:
            metadata = item["metadata"]
            first.append("/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part))
    return Names(tuple(first), total)

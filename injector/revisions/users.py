"""Who uses a revision or a tag, and would get no sidecars without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.errors import TagError
from injector.istio.webhooks import DEFAULT_NAME, INJECTION_LABEL, REVISION_LABEL

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

SHOWN: Final = 20
"""How many are named in a message."""


@dataclass(frozen=True, slots=True)
class Users:
    """Users by kind and name, the first of them, and how many there are with the others."""

    first: tuple[str, ...] = ()
    total: int = 0

    def __add__(self, other: Users) -> Users:
        return Users((*self.first, *other.first), self.total + other.total)

    def __str__(self) -> str:
        shown = self.first[:SHOWN]
        more = self.total - len(shown)
        return ", ".join(shown) + (f" and {more} more" if more else "")


def users(kind: str, names: Collection[str], *, total: int | None = None) -> Users:
    """Return users of one kind; ``total`` counts those too that ``names`` leaves out."""
    return Users(tuple(f"{kind} {name}" for name in names), len(names) if total is None else total)


def refuse_used(found: Users, *, doing: str) -> None:
    """Check that there are no users; ``doing`` begins the text of the error.

    Raises:
        TagError: there are; the text names the first of them.
    """
    if found.total:
        raise TagError(
            f"{doing}: it is in use by {found}",
            hint="move or label them otherwise first, or add --force: they get no sidecars then",
        )


def followers(namespaces: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, tuple[str, ...]]:
    """Return the namespaces that name each revision or tag, given with their labels.

    ``istio-injection=enabled`` names the default.
    """
    found: dict[str, set[str]] = {}
    for namespace, labels in namespaces:
        named = [labels.get(REVISION_LABEL), DEFAULT_NAME if labels.get(INJECTION_LABEL) == "enabled" else None]
        for name in named:
            if isinstance(name, str):
                found.setdefault(name, set()).add(namespace)
    return {name: tuple(sorted(each)) for name, each in found.items()}

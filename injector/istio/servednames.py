"""Names that are served, told to somebody who asked for another one."""

from __future__ import annotations

from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

# A label's value has at most 63 characters (k8s.io/apimachinery/pkg/util/validation, LabelValueMaxLength); admission
# webhooks see labels before the API server checks them.
MAX_VALUE: Final = 63
# To compare two names takes up to 0.1 ms: what one answer may cost is bounded, however many names are served.
_COMPARED: Final = 100
_REMEMBERED: Final = 256


def nearest(name: str, names: Collection[str]) -> str | None:
    """Return the name of ``names`` that is most like ``name``; None where none is."""
    return _nearest(name[:MAX_VALUE], frozenset(names))


@lru_cache(maxsize=_REMEMBERED)
def _nearest(name: str, names: frozenset[str]) -> str | None:
    found = get_close_matches(name.lower(), sorted(names)[:_COMPARED], n=1)
    return found[0] if found else None


def meant(name: str, names: Collection[str]) -> str:
    """Return a question for the nearest name, with a blank before it; nothing where none is near."""
    found = nearest(name, names)
    return f" (did you mean {found}?)" if found else ""


def listed(names: Iterable[str], *, room: int) -> str:
    """Return names in order, as many as fit into ``room`` characters, and how many more there are."""
    ordered = sorted(names)
    if not ordered:
        return "none"
    for count in range(min(len(ordered), room), 0, -1):
        rest = len(ordered) - count
        text = ", ".join(ordered[:count]) + (f" and {rest} more" if rest else "")
        if len(text) <= room:
            return text
    return f"{len(ordered)} names"

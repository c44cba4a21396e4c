"""Names in messages: the one that was probably meant, and lists that are cut."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

# Keeps an error message readable in kubectl's output.
_MAX_NAMES: Final = 20
EXAMPLES: Final = 3
"""How many of many names or notes are shown where all of them would hide the rest."""
# Comparing two names takes up to 0.1 ms, so their lengths and their number are limited. A label's value has at most 63 letters, but
# admission webhooks see labels before the API server checks them.
_MAX_LENGTH: Final = 63
_MAX_COMPARED: Final = 100


def did_you_mean(name: str, names: Collection[str]) -> str:
    """Return `` (did you mean X?)`` with the most similar of ``names``, or an empty text if none is similar."""
    similar = _most_similar(name[:_MAX_LENGTH], frozenset(names))
    return f" (did you mean {similar}?)" if similar else ""


@lru_cache(maxsize=256)
def _most_similar(name: str, names: frozenset[str]) -> str | None:
    matches = get_close_matches(name.lower(), sorted(names)[:_MAX_COMPARED], n=1)
    return matches[0] if matches else None


def first_of(names: Sequence[str], most: int = _MAX_NAMES) -> str:
    """Return the first names, and how many more there are."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def count_of(count: int, noun: str) -> str:
    """Return a number with its noun, which has an ``s`` in the plural."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def fitting_names(names: Iterable[str], *, room: int = 200) -> str:
    """Return names in order, as many as fit into ``room`` characters, and the number of the others."""
    ordered = sorted(names)
    if not ordered:
        return "none"
    for count in range(min(len(ordered), room), 0, -1):
        text = first_of(ordered, count)
        if len(text) <= room:
            return text
    return f"{len(ordered)} names"

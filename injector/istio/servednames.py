"""Lists of served names, and suggestions for a name that is not served, for messages to users."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

# The longest label value (k8s.io/apimachinery/pkg/util/validation, LabelValueMaxLength). Admission webhooks see labels before the API
# server checks them.
MAX_LABEL_VALUE: Final = 63
# Comparing two names takes up to 0.1 ms, so the number of comparisons is limited.
_MAX_COMPARED: Final = 100


def did_you_mean(name: str, names: Collection[str]) -> str:
    """Return `` (did you mean X?)`` with the most similar of ``names``, or an empty text if none is similar."""
    similar = _most_similar(name[:MAX_LABEL_VALUE], frozenset(names))
    return f" (did you mean {similar}?)" if similar else ""


@lru_cache(maxsize=256)
def _most_similar(name: str, names: frozenset[str]) -> str | None:
    matches = get_close_matches(name.lower(), sorted(names)[:_MAX_COMPARED], n=1)
    return matches[0] if matches else None


def fitting_names(names: Iterable[str], *, room: int) -> str:
    """Return names in order, as many as fit into ``room`` characters, and the number of the others."""
    ordered = sorted(names)
    if not ordered:
        return "none"
    for count in range(min(len(ordered), room), 0, -1):
        rest = len(ordered) - count
        text = ", ".join(ordered[:count]) + (f" and {rest} more" if rest else "")
        if len(text) <= room:
            return text
    return f"{len(ordered)} names"

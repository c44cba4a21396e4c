"""The deadline of a call: the ``timeout`` that the API server puts into the query of each.

Follows k8s.io/apiserver, pkg/admission/plugin/webhook/mutating/dispatcher.go: the webhook's ``timeoutSeconds`` as a Go
duration, ``?timeout=10s``. Without one nobody said how long he waits.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qs

from injector.errors import UsageError
from injector.flagvalues import parse_duration

NONE: Final = math.inf
# An API server sends a dozen at most: one for each webhook.
_REMEMBERED: Final = 64
_MAX_FIELDS: Final = 16


@lru_cache(_REMEMBERED)
def timeout_of(query: str) -> float:
    """Return the seconds that the caller waits for an answer, by the raw query of its URL; ``NONE`` where it does not say.

    Of several the first counts, as in Go; one that is no duration, or 0, says nothing.
    """
    if not query:
        return NONE
    try:
        (first, *_) = parse_qs(query, max_num_fields=_MAX_FIELDS).get("timeout", [""])
        return parse_duration(first) or NONE
    except (UsageError, ValueError):
        return NONE

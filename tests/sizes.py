"""How much a test tries: enough to find what is likely, with ``TESTS_LONG=1`` what is rare too, or as much as a variable says."""

from __future__ import annotations

import os

LONG = bool(os.environ.get("TESTS_LONG"))


def sized(short: int, long: int, variable: str = "") -> int:
    """Return how many of something a test tries; an environment variable of this name has precedence."""
    return int(os.environ.get(variable, long if LONG else short))

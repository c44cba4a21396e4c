"""How much a test tries: enough to find what is likely, or, with ``TESTS_LONG=1``, what is rare too."""

from __future__ import annotations

import os

LONG = bool(os.environ.get("TESTS_LONG"))


def sized(short: int, long: int) -> int:
    """Return how many of something a test tries."""
    return long if LONG else short

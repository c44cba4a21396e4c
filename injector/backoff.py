"""Waits between attempts, which grow with the number of failures in a row."""

from __future__ import annotations


def backoff(failures: int, limit: float) -> float:
    """Return the seconds until the next attempt, after ``failures`` failures before the last one: 1, 2, 4 and so on, up to ``limit``."""
    return min(limit, 2.0 ** min(failures, 10))

"""How long a thread has worked: the clock of every rendering's budget."""

from __future__ import annotations

import time


def worked() -> float:
    """Return how many seconds this thread has worked. The time of other threads and processes is not the template's fault."""
    return time.thread_time()

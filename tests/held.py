"""What failures leave behind: the exceptions, tracebacks and frames that are alive."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Final

LOOKS: Final = 2_000
"""How often a failure is repeated. If each left an object behind, ``few_failures_held`` would tell."""
MAX_HELD: Final = 20


@contextmanager
def few_failures_held() -> Iterator[None]:
    """Check that few exceptions, tracebacks and frames of the block are reachable after it, from anywhere.

    Objects from before are frozen, because those of other tests are millions.
    """
    gc.collect()
    gc.freeze()
    yield
    gc.collect()
    assert sum(isinstance(obj, BaseException | TracebackType | FrameType) for obj in gc.get_objects()) <= MAX_HELD

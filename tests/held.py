"""What failures leave behind: the exceptions, tracebacks and frames that are alive."""

from __future__ import annotations

import gc
from types import FrameType, TracebackType
from typing import Final

LOOKS: Final = 2_000
"""How often a failure is repeated. If each left an object behind, ``failures_held`` would tell."""


def failures_held() -> int:
    """How many exceptions, tracebacks and frames are reachable from anywhere."""
    gc.collect()
    return sum(isinstance(each, BaseException | TracebackType | FrameType) for each in gc.get_objects())

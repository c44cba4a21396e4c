"""What failures leave behind: the exceptions, tracebacks and frames that are alive."""

from __future__ import annotations

import gc
from types import FrameType, TracebackType
from typing import Final

DAY: Final = 86_400
"""The seconds of a day: so often is a file looked at in a day."""


def failures_held() -> int:
    """How many exceptions, tracebacks and frames are reachable from anywhere."""
    gc.collect()
    return sum(isinstance(each, BaseException | TracebackType | FrameType) for each in gc.get_objects())

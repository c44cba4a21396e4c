"""How long an input may take."""

from __future__ import annotations

import itertools
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.fuzz.limit import TooSlowError, limited

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def handler_as_before() -> Iterator[None]:
    """What the signal does elsewhere."""
    before = signal.getsignal(signal.SIGPROF)
    yield
    signal.signal(signal.SIGPROF, before)


def test_an_input_that_works_without_end_is_ended() -> None:
    def without_end(_: bytes) -> None:
        for _number in itertools.count():
            with suppress(Exception):
                int("1" * 100)

    with pytest.raises(TooSlowError, match=r"more than 0\.05 seconds of the processor"):
        limited(without_end, seconds=0.05)(b"")


def test_time_that_passes_without_work_is_no_fault_of_the_input() -> None:
    tried = []

    def paused(data: bytes) -> None:
        time.sleep(0.2)
        tried.append(data)

    limited(paused, seconds=0.1)(b"x")

    assert tried == [b"x"]
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_an_error_of_an_input_comes_through() -> None:
    def wrong(_: bytes) -> None:
        raise KeyError

    with pytest.raises(KeyError):
        limited(wrong)(b"")
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)

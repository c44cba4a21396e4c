from __future__ import annotations

import asyncio
import platform
import subprocess
import sys

import pytest

from injector.webhook.freememory import EVERY, FreeMemory, heap_trim

# Text of half a page each, every other one dropped: what is free is nowhere at the end.
SCATTERED = """
from pathlib import Path
from injector.webhook.freememory import heap_trim

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1])

kept = [bytes(2000 + each % 7) for each in range(40_000)]
full = resident()
kept = [each for number, each in enumerate(kept) if number % 16 == 0]
before = resident()
heap_trim()()
print(full, before, resident())
"""


class Ended(Exception):  # noqa: N818 -- not an error
    """The test has seen enough."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="no other C library has the function")
def test_pages_between_what_is_kept_are_given_back() -> None:
    told = subprocess.run([sys.executable, "-c", SCATTERED], capture_output=True, text=True, check=True, timeout=60)
    full, before, after = map(int, told.stdout.split())

    assert full - before < full - after
    assert before - after > (full - after) // 2


async def test_it_goes_on_for_ever_with_a_pause_before_each_time() -> None:
    told: list[float | str] = []

    async def pause(seconds: float) -> None:
        told.append(seconds)
        if len(told) == 5:
            raise Ended

    with pytest.raises(Ended):
        await FreeMemory(lambda: told.append("trim"), pause).follow()

    assert told == [EVERY, "trim", EVERY, "trim", EVERY]


async def test_where_nothing_can_be_given_back_there_is_nothing_to_do() -> None:
    async with asyncio.timeout(5.0):
        await FreeMemory(None).follow()


def test_a_c_library_without_the_function_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other:
        """A C library."""

        def __init__(self, name: object) -> None:
            del name

    monkeypatch.setattr("ctypes.CDLL", Other)

    assert heap_trim() is None

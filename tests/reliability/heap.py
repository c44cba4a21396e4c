"""An injector that writes how much of its heap is in use, when asked: ``python -m tests.reliability.heap FILE serve ...``.

Garbage is collected for each such measurement and at no other time but those of Python itself. So the memory in use is what is kept, and
the resident memory between two measurements has what cycles of garbage take.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import time
from pathlib import Path
from typing import Final, NamedTuple

from injector.cli import main
from tests.tasks import until

INTERVAL: Final = 0.2
"""Seconds between looks for a request."""


class Heap(NamedTuple):
    """What is in use: KiB that malloc has given (mallinfo2 of glibc), and small blocks that Python's allocator has given."""

    kib: int
    blocks: int


class _Mallinfo(ctypes.Structure):
    """The return value of mallinfo2(3)."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    )


async def measure_heap(file: Path) -> Heap:
    """Let an injector collect its garbage and write what is in use; return that."""
    _ask(file)
    await until(file.exists)
    return _read(file)


def _ask(file: Path) -> None:
    file.unlink(missing_ok=True)
    _request(file).touch()


def _read(file: Path) -> Heap:
    kib, blocks = map(int, file.read_text().split())
    return Heap(kib, blocks)


def _request(file: Path) -> Path:
    return file.with_suffix(".request")


def _answer_requests(file: Path) -> None:
    """Write what is in use, without garbage, whenever there is a request for it."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Mallinfo
    while True:
        time.sleep(INTERVAL)
        if not _request(file).exists():
            continue
        _request(file).unlink()
        gc.collect()
        info = mallinfo()
        beside = file.with_suffix(".new")
        beside.write_text(f"{(info.uordblks + info.hblkhd) // 1024} {sys.getallocatedblocks()}")
        beside.replace(file)


if __name__ == "__main__":
    file = Path(sys.argv.pop(1))
    threading.Thread(target=_answer_requests, args=(file,), daemon=True).start()
    main(prog_name="injector")

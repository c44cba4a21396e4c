"""An injector that writes how much of its heap is in use: ``python -m tests.reliability.heap FILE serve ...``.

The resident memory of a process does not say what a request leaves behind. It also grows, in steps that become rarer, when more requests
than ever before need memory at the same time. Memory in use grows only if something is kept.
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

INTERVAL: Final = 3.0


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


def read_heap(file: Path) -> Heap | None:
    """Return what an injector wrote last, None if it has not written yet."""
    words = file.read_text().split() if file.exists() else []
    return Heap(int(words[0]), int(words[1])) if words else None


def _watch(file: Path) -> None:
    """Write what is in use again and again, without garbage."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Mallinfo
    while True:
        gc.collect()
        info = mallinfo()
        beside = file.with_suffix(".new")
        beside.write_text(f"{(info.uordblks + info.hblkhd) // 1024} {sys.getallocatedblocks()}")
        beside.replace(file)
        time.sleep(INTERVAL)


if __name__ == "__main__":
    file = Path(sys.argv.pop(1))
    threading.Thread(target=_watch, args=(file,), daemon=True).start()
    main(prog_name="injector")

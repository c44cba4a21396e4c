"""Work on many items in forked processes, one for each CPU."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
R = TypeVar("R")

_PER_PROCESS: Final = 100
"""The least number of items for each of two processes: a process takes about as long to start as ten pods to inject."""
_MOST_PROCESSES: Final = 8
"""The largest number of processes. Each needs memory of its own, and the process that reads the results cannot serve many more."""
_AT_ONCE: Final = 50
"""The number of items that a process takes at once. Neighbours are in one namespace and have one revision, which take time once."""
_AHEAD: Final = 20
"""The largest number of such groups without a result. A page of pods has ten: one is worked on while the next is read."""


def in_processes(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield the result of ``function`` for each item, in order. Many items are divided among forked processes, one for each CPU.

    A process inherits the function, and receives the items and sends the results as pickles. Items are taken as they are needed, so that
    reading them and working on them happen at the same time. On systems other than Linux there is only this process.
    """
    cpus = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
    remaining = iter(items)
    first = list(islice(remaining, 2 * _PER_PROCESS)) if cpus > 1 else []
    remaining = chain(first, remaining)
    if len(first) < 2 * _PER_PROCESS:
        yield from map(function, remaining)
        return
    import multiprocessing  # noqa: PLC0415 -- few commands need it
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415

    context = multiprocessing.get_context("fork")
    executor = ProcessPoolExecutor(min(cpus, _MOST_PROCESSES), context, _start, (function,))
    pending: deque[Future[list[R]]] = deque()
    try:
        while group := list(islice(remaining, _AT_ONCE)):
            pending.append(executor.submit(_apply, group))
            if len(pending) > _AHEAD:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()
    finally:
        executor.shutdown(cancel_futures=True)


_work: Callable[[Any], Any]
"""The function of a forked process."""


def _start(function: Callable[[Any], Any]) -> None:
    global _work  # noqa: PLW0603 -- a process has one
    _work = function
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the first process reports the interrupt
    gc.freeze()  # a collection would copy the pages of all inherited objects
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the first one is killed. Otherwise it would wait for items forever."""
    from multiprocessing import parent_process  # noqa: PLC0415 -- as above

    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def _apply(items: list[Any]) -> list[Any]:
    return [_work(item) for item in items]

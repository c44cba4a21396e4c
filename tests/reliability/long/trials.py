"""Trials of pods shared out to two processes, which leave the processors to whoever else wants them."""

from __future__ import annotations

import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from itertools import islice
from typing import TypeVar

from tests.trials import TrialResults

WORKERS = 2
AHEAD = 2
"""Parts handed out to each worker, so that none waits for its next."""
LEAST_OF_ALL = 19
"""The niceness that yields to everybody."""
TELLING = 30.0
"""How often progress is told, in seconds."""

Part = TypeVar("Part")


def shared(
    trial: Callable[[Part], TrialResults], parts: Iterator[Part], wanted: float = math.inf, minutes: float = math.inf
) -> TrialResults:
    """Try part after part until so many pods were tried, the parts are at an end or the time is up; progress goes to stderr.

    A part has to say by itself what its pods are: which process tries it is left to chance.
    """
    results, begun = TrialResults(), time.monotonic()
    reported_at = begun
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, context, initializer=os.nice, initargs=(LEAST_OF_ALL,)) as pool:
        running = {pool.submit(trial, part) for part in islice(parts, WORKERS * AHEAD)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                result = future.result()
                results.add(result)
                print(*result.faults, sep="\n", end="\n" * bool(result.faults), file=sys.stderr, flush=True)
            passed = time.monotonic() - begun
            if results.tried < wanted and passed < minutes * 60:
                running |= {pool.submit(trial, part) for part in islice(parts, len(done))}
            if time.monotonic() - reported_at >= TELLING:
                reported_at = time.monotonic()
                _progress(results, wanted, passed)
    print(dict(results.came), file=sys.stderr, flush=True)
    return results


def _progress(results: TrialResults, wanted: float, passed: float) -> None:
    line = f"{results.tried} of {wanted:.0f} pods in {passed:.0f} s, {len(results.faults)} wrong"
    print(line, file=sys.stderr, flush=True)

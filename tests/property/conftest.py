"""A process of its own for a test, so that what other tests have filled does not count."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeAlias

import pytest

Apart: TypeAlias = Callable[..., Any]


@pytest.fixture(scope="session")
def apart() -> Iterator[Apart]:
    """Run a function in a process with one thread, which copies can be made of."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        yield lambda function, *arguments: pool.submit(function, *arguments).result()

"""Replicas for a test, which are gone after it whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.reliability.replicas import Replica

ReplicaFactory: TypeAlias = Callable[..., Replica]


@pytest.fixture
def start_replica(tmp_path: Path) -> Iterator[ReplicaFactory]:
    """Starts a replica with further flags; does not wait until it is ready."""
    started: list[Replica] = []

    def start(*flags: str) -> Replica:
        replica = Replica(tmp_path / f"{len(started)}.log", flags or ("--insecure-http",))
        started.append(replica)
        replica.start()
        return replica

    yield start
    for replica in started:
        replica.kill()

"""Replicas for a test, which are gone after it whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reliability.replicas import Stage
from tests.webhook.certificates import write_certificate


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """Starts replicas."""
    stage = Stage(tmp_path, *write_certificate(tmp_path))
    yield stage
    stage.end()

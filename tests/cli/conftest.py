"""The cluster that commands reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.clusters import reached
from tests.cluster.fakeapi import FakeApi


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeApi:
    """An empty cluster, and a home without a kubeconfig."""
    api = FakeApi()
    reached(monkeypatch, api)
    monkeypatch.setenv("HOME", str(tmp_path))
    return api

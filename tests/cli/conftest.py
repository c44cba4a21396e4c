"""The cluster that commands reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.fakeapi import FakeApi


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeApi:
    """An empty cluster, and a home without a kubeconfig."""
    api = FakeApi()
    monkeypatch.setattr("injector.cluster.client.KubeClient", lambda _: api)
    monkeypatch.setenv("HOME", str(tmp_path))
    return api

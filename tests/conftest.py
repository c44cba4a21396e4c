"""Fixtures that all folders share."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.factories import make_pod, make_review
from tests.sizes import sized

# How long an example takes says more about the machine than about the code.
# TESTS_LONG=1 tries more.
settings.register_profile(
    "tests", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=sized(40, 100)
)
settings.load_profile("tests")


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test uses the cluster of whoever runs it."""
    monkeypatch.setenv("KUBECONFIG", os.devnull)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


@pytest.fixture
def pod() -> dict[str, Any]:
    """A plain pod."""
    return make_pod()


@pytest.fixture
def review(pod: dict[str, Any]) -> dict[str, Any]:
    """An AdmissionReview v1 for ``pod``."""
    return make_review(pod)

"""Fixtures that all folders share."""

from __future__ import annotations

import gc
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

# No test may use the cluster of the user who runs it. This is set once, because a fixture for each test would cost seconds.
os.environ["KUBECONFIG"] = os.devnull
os.environ.pop("KUBERNETES_SERVICE_HOST", None)


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking at the tests again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def pod() -> dict[str, Any]:
    """A plain pod."""
    return make_pod()


@pytest.fixture
def review(pod: dict[str, Any]) -> dict[str, Any]:
    """An AdmissionReview v1 for ``pod``."""
    return make_review(pod)

"""Fixtures that every folder of tests shares; each is a noun."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories import make_pod, make_review


@pytest.fixture
def pod() -> dict[str, Any]:
    """A pod that nothing was done to."""
    return make_pod()


@pytest.fixture
def review(pod: dict[str, Any]) -> dict[str, Any]:
    """An AdmissionReview v1 that asks about ``pod``."""
    return make_review(pod)

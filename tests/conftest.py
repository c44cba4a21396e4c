"""Fixtures that all folders share."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories import make_pod, make_review


@pytest.fixture
def pod() -> dict[str, Any]:
    """A plain pod."""
    return make_pod()


@pytest.fixture
def review(pod: dict[str, Any]) -> dict[str, Any]:
    """An AdmissionReview v1 for ``pod``."""
    return make_review(pod)

"""Fixtures that all folders share."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.architecture.forkserver import forking
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


gc.disable()  # while the tests are collected: it would look at them again and again, a third of the time


def pytest_collection_finish() -> None:
    """Turn the garbage collector on, except for the tests. It runs less often, because caches of tests keep most objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


@pytest.fixture(scope="session")
def commands_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a command ``injector`` that needs less CPU time than the installed one."""
    with forking(tmp_path_factory.mktemp("commands")) as folder:
        yield folder


@pytest.fixture
def pod() -> dict[str, Any]:
    """A plain pod."""
    return make_pod()


@pytest.fixture
def review(pod: dict[str, Any]) -> dict[str, Any]:
    """An AdmissionReview v1 for ``pod``."""
    return make_review(pod)

"""Fixtures that all folders share."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import needs
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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that only check Istio's own cases, if these are not beside the project."""
    if needs.missing("corpus"):
        left_out = [item for item in items if "corpus" in _needs_of(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test if a program that it needs is missing."""
    for name in _needs_of(item):
        if reason := needs.missing(name):
            pytest.skip(reason)


def _needs_of(item: pytest.Item) -> list[str]:
    return [name for mark in item.iter_markers("needs") for name in mark.args]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that is skipped for a reason that tests/needs.py does not list. A skip is reported at its test."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        assert isinstance(report.longrepr, tuple)
        reason = report.longrepr[2].removeprefix("Skipped: ")
        path, line, _ = item.reportinfo()
        report.longrepr = (str(path), (line or 0) + 1, f"Skipped: {reason}")
        if not needs.is_listed(reason):
            report.outcome, report.longrepr = "failed", f"a reason to skip that is not in tests/needs.py: {reason}"
    return report


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

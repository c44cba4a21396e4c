"""The API server that end-to-end tests share, and their place: after all others, while it is being built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
from _pytest.terminal import TerminalReporter

from tests.e2e.kubelab import Lab, missing, running
from tests.e2e.served import Certificate, certificate

Figure: TypeAlias = Callable[[str], None]

HERE = Path(__file__).resolve().parent
LONGEST = "test_upgrade.py"
MEASURED = "measured"


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print the figures of the tests: speed is shown, and asserted with a wide margin or not at all."""
    reports = [each for name in ("passed", "failed") for each in terminalreporter.getreports(name)]
    figures = [text for report in reports for name, text in report.user_properties if name == MEASURED]
    if figures:
        terminalreporter.section("measured end to end")
        for text in dict.fromkeys(figures):
            terminalreporter.line(text)


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Figure:
    """Records a figure, which is printed at the end of the run."""
    return partial(record_property, MEASURED)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put them after all others, and the longest file first of them, so that no process works on it alone at the end."""
    items.sort(key=lambda item: (HERE in item.path.parents, HERE in item.path.parents and item.path.name != LONGEST))


@pytest.fixture(scope="session")
def built() -> None:
    """Wait for what an API server is made of; skip, with the reason, where there is none to be had."""
    if reason := missing():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def lab(built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """An API server without controllers. Each test has namespaces of its own, and takes its webhooks away again."""
    del built
    with running(Lab(tmp_path_factory.mktemp("kubelab"))) as made:
        yield made


@pytest.fixture(scope="module")
def controlled_lab(built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """An API server where Deployments make pods."""
    del built
    with running(Lab(tmp_path_factory.mktemp("controlled"), controllers=True)) as made:
        yield made


@pytest.fixture(scope="session")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """The certificate that injectors serve with."""
    return certificate(tmp_path_factory.mktemp("certificate"))

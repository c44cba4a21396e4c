"""The API server that end-to-end tests share, and their place: after all others, while it is being built."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.kubelab import Lab, missing, running
from tests.e2e.served import Certificate, certificate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from _pytest.terminal import TerminalReporter

    Figure: TypeAlias = Callable[[str], None]

HERE = Path(__file__).resolve().parent
FIGURES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FIGURES] = []


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Print what was measured: speed is shown, and asserted with a wide margin or not at all."""
    if config.stash[FIGURES]:
        terminalreporter.section("measured end to end")
        for text in config.stash[FIGURES]:
            terminalreporter.line(text)


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Figure:
    """Takes what was measured, as a line for the end of the run."""
    return request.config.stash[FIGURES].append


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put them last; their order among each other stays."""
    items.sort(key=lambda item: HERE in item.path.parents)


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

"""Fixtures that all folders share, and how the tests are distributed to processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.factories import make_pod, make_review

TESTS: Final = Path(__file__).parent
SERVERS: Final = ("reliability", "e2e")
"""Folders whose tests start servers and put load on them. One process runs them one after another, before all other tests."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of a file, and all tests with servers, in one process of pytest-xdist (``--dist loadgroup``)."""
    if not hasattr(config, "workerinput"):
        return
    groups = {item: _group(item.path) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: groups[item] != "servers")


def _group(path: Path) -> str:
    name = path.relative_to(TESTS)
    return "servers" if name.parts[0] in SERVERS else str(name)


@pytest.fixture
def pod() -> dict[str, Any]:
    """A plain pod."""
    return make_pod()


@pytest.fixture
def review(pod: dict[str, Any]) -> dict[str, Any]:
    """An AdmissionReview v1 for ``pod``."""
    return make_review(pod)

"""Record Helm's answers about the chart: runs the tests that render it, with Helm, and keeps each answer."""

from __future__ import annotations

import sys

import pytest

from tests.deploy import rendering

TESTS = ("tests/deploy", "tests/architecture/test_docs.py::test_the_files_of_a_page_are_valid")


def record() -> int:
    """Run the tests and write the answers. Returns the exit status of the tests."""
    rendering.recorded_now = {}
    status = pytest.main(["-q", "--deselect=tests/deploy/test_renderings.py", *TESTS])
    if not rendering.recorded_now:
        return status or 1
    rendering.write(rendering.recorded_now)
    return status


if __name__ == "__main__":
    sys.exit(record())

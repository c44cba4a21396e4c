"""Go asked live, where it is installed: other inputs than the recorded ones, and patches applied and decoded as the API server does.

``scripts/reliability differential`` does the same by the hundred thousand.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.differential.comparing import differences
from tests.differential.comparisons import COMPARISONS
from tests.differential.golang import built
from tests.differential.soundness import Soundness
from tests.property.subjects import subjects

pytestmark = pytest.mark.needs("go")
INPUTS = 400
PODS = 60
MINORS = ("1.8", "1.20", "1.30")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that asks Go."""
    path = built(tmp_path_factory.mktemp("go"))
    if path is None:
        pytest.skip("Go's modules cannot be downloaded")
    return path


@pytest.mark.parametrize("name", COMPARISONS)
def test_go_and_we_answer_alike(program: Path, name: str) -> None:
    came = differences(COMPARISONS[name], program, "live", INPUTS)

    assert came.wrong == []
    assert came.alike > INPUTS * 0.9


@pytest.mark.parametrize("minor", MINORS)
def test_every_patch_applies_and_gives_a_pod(program: Path, minor: str) -> None:
    soundness = Soundness(program=program)

    soundness.put_to_the_test(subjects(minor), random.Random(minor), PODS)  # noqa: S311 -- inputs of tests

    assert soundness.faults == []
    assert soundness.came["injected"] > PODS / 2

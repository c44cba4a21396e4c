"""Tests are skipped only for reasons that are listed, with what to install."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.needs import NEEDS, OTHERS, ROOT, is_listed

SKIPS = """
import pytest

@pytest.mark.needs("helm")
def test_helm():
    raise AssertionError("not skipped")

def test_listed():
    pytest.skip("the project is not a git checkout")

def test_unlisted():
    pytest.skip("I do not like it")

@pytest.mark.skipif(True, reason="nor this")
def test_marked():
    pass

@pytest.mark.xfail(reason="it is wrong")
def test_wrong():
    raise AssertionError
"""


def test_a_skip_for_a_reason_that_is_not_listed_fails(tmp_path: Path) -> None:
    (tmp_path / "test_skips.py").write_text(SKIPS)
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    command += ["-c", str(ROOT / "pyproject.toml"), f"--rootdir={tmp_path}", str(tmp_path)]
    environment = {**os.environ, "PATH": "/nowhere", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}

    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert "1 failed, 2 skipped, 1 xfailed, 1 error" in done.stdout, done.stdout + done.stderr
    assert f"test_skips.py:4: {NEEDS['helm'].reason}\n" in done.stdout
    for reason in ("I do not like it", "nor this"):
        assert f"a reason to skip that is not in tests/needs.py: {reason}" in done.stdout


def test_every_reason_is_a_sentence_of_its_own() -> None:
    reasons = [need.reason for need in NEEDS.values()]

    assert len(set(reasons)) == len(reasons)
    assert all(is_listed(reason) for reason in (*reasons, *OTHERS))
    assert not is_listed("")

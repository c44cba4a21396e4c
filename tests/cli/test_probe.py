"""``injector probe``: whether a file is fresh, for probes of the kubelet."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from click.testing import Result

from injector.cli.serve import check_fresh
from injector.errors import InjectorError
from tests.cases import cases
from tests.cli.clusters import assert_fails, invoke

WRITTEN = 1_000_000.0


@pytest.fixture
def health(tmp_path: Path) -> Path:
    """A file that was written at a known time."""
    path = tmp_path / "health"
    path.write_text("ok")
    os.utime(path, (WRITTEN, WRITTEN))
    return path


def run(path: Path, interval: str) -> Result:
    """Run the command, with the flags of Istio's own."""
    return invoke("probe", f"--probe-path={path}", f"--interval={interval}")


@pytest.mark.parametrize("age", [-5.0, 0.0, 4.0, 4.005])
def test_a_file_that_was_written_within_the_interval_is_fresh(health: Path, age: float) -> None:
    check_fresh(health, 4.0, WRITTEN + age)


def test_a_file_older_than_the_interval_is_stale(health: Path) -> None:
    with pytest.raises(InjectorError, match=r"health: was written 4\.2 s ago, which is more than 4 s; "):
        check_fresh(health, 4.0, WRITTEN + 4.2)


def test_a_fresh_file_is_ok_and_0(health: Path) -> None:
    os.utime(health, (time.time(), time.time()))

    result = run(health, "1h")

    assert (result.exit_code, result.stdout, result.stderr) == (0, "OK\n", "")


@pytest.mark.parametrize(("name", "says"), [("health", "was written "), ("nope", "cannot be read: No such")])
def test_a_file_that_is_old_or_missing_is_one_line_and_1(health: Path, name: str, says: str) -> None:
    assert_fails(run(health.with_name(name), "4s"), 1, f"error: {health.with_name(name)}: {says}")


@cases("arguments", "says")
def test_a_wrong_flag_is_one_line_and_64(arguments: list[str], says: str) -> None:
    assert_fails(invoke("probe", *arguments), 64, says)

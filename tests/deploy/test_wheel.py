"""The wheel is the same to the bit wherever and whenever it is built, and holds what is run and nothing else."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("pyproject.toml", "README.md", "LICENSE", ".gitignore", "injector", "revisions", "deploy/chart/crds")
RELEASED = "1767225600"
"""Seconds since the epoch, as SOURCE_DATE_EPOCH has them: those of the commit that is released."""


def built(folder: Path, *, modified: float, mode: int, epoch: str) -> Path:
    """The wheel of a copy of the project whose files are of another time and mode."""
    folder.mkdir(parents=True)
    for name in NEEDED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(mode)
        os.utime(path, (modified, modified))
    # What a run leaves is no part of the project.
    (folder / "injector" / "__pycache__").mkdir()
    (folder / "injector" / "__pycache__" / "errors.pyc").write_bytes(os.urandom(8))
    env = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"]
    done = subprocess.run(build, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two wheels, from two folders, a year apart."""
    folder = tmp_path_factory.mktemp("wheels")
    return [
        built(folder / "a", modified=1.70e9, mode=0o644, epoch=RELEASED),
        built(folder / "b" / "deeper", modified=1.73e9, mode=0o600, epoch=RELEASED),
    ]


def test_the_description_on_an_index_has_no_link_that_leads_nowhere(wheels: list[Path]) -> None:
    with zipfile.ZipFile(wheels[0]) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        description = wheel.read(name).decode().partition("\n\n")[2]

    assert "One sidecar injector" in description
    assert re.findall(r"\]\((?!https://)[^)]*\)", description) == []


def test_two_builds_in_two_folders_are_the_same_to_the_bit(wheels: list[Path]) -> None:
    first, second = (hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels)

    assert first == second


def test_another_release_date_is_another_wheel(wheels: list[Path], tmp_path: Path) -> None:
    later = built(tmp_path / "c", modified=1.70e9, mode=0o644, epoch=str(int(RELEASED) + 86_400))

    assert later.read_bytes() != wheels[0].read_bytes()


def test_it_holds_the_package_and_the_revisions_and_nothing_else(wheels: list[Path]) -> None:
    with zipfile.ZipFile(wheels[0]) as wheel:
        names = wheel.namelist()
        modes = {entry.external_attr >> 16 & 0o777 for entry in wheel.infolist()}

    assert {name.split("/")[0].partition("-")[0] for name in names} == {"injector", "revision_injector"}
    assert {"injector/__init__.py", "injector/py.typed", "injector/_revisions/stable/config"} <= set(names)
    assert [name for name in names if "__pycache__" in name or "tests/" in name] == []
    assert modes == {0o644}


def test_the_sdist_has_the_tests_and_the_documentation(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)
    (archive,) = tmp_path.iterdir()

    with tarfile.open(archive) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}

    assert names >= {"docs/quickstart.md", "tests/cases.py", "scripts/test", ".ci/run", "CHANGELOG.md"}
    assert [name for name in names if name.startswith((".venv", "deploy/tls"))] == []

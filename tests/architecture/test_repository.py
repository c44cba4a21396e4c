"""Committed files work anywhere: they name no package registry and no path of one machine, and the locks are current."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]

REGISTRY_HOSTS = [
    ".".join(text.split())
    for text in (
        "pypi org",
        "pythonhosted org",
        "proxy golang org",
        "sum golang org",
        "registry npmjs org",
        "crates io",
    )
]
"""Users configure their own package index."""

LOCAL_PATHS = ["/".join(("", *parts, "")) for parts in [("work",), ("root",), ("home",), ("tmp", "istio")]]
ARGO_CD = "/home/argocd/"
"""A folder in Argo CD's image."""


@pytest.mark.parametrize("text", [*REGISTRY_HOSTS, *LOCAL_PATHS])
def test_no_committed_file_names_a_registry_or_a_path_of_one_machine(text: str) -> None:
    assert [name for name, content in tracked().items() if text in content.replace(ARGO_CD, "")] == []


def test_no_pattern_has_a_possessive_group() -> None:
    # Python 3.11.2, Debian's, matches less than it should after such a group with alternatives, and valid pods were refused.
    possessive = re.compile(r"(?<!\\)\)(?:[*+?]|\{[0-9,]+\})\+")
    assert [bool(possessive.search(text)) for text in ("(?:a|b)*+", "(a){1,2}+", "(?:a|b)*")] == [True, True, False]

    assert [str(path) for path in (ROOT / "injector").rglob("*.py") if possessive.search(path.read_text())] == []


def test_what_only_tests_need_is_not_published() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    assert list(extras) == ["tracing", "cel"]


@pytest.mark.parametrize(
    ("lock", "section"),
    [
        ("requirements.lock", ("project", "dependencies")),
        ("requirements.lock", ("project", "optional-dependencies", "tracing")),
        ("requirements-dev.lock", ("project", "dependencies")),
        ("requirements-dev.lock", ("dependency-groups", "dev")),
        ("requirements-dev.lock", ("dependency-groups", "build")),
        ("requirements-build.lock", ("dependency-groups", "build")),
        ("requirements-image.lock", ("dependency-groups", "image")),
        ("requirements-audit.lock", ("dependency-groups", "audit")),
        ("requirements-fuzz.lock", ("dependency-groups", "fuzz")),
    ],
)
def test_the_lock_meets_the_requirements_of_the_project(lock: str, section: tuple[str, ...]) -> None:
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for key in section:
        requirements = requirements[key]
    locked = {Requirement(f"{name}=={version}") for name, version in entries(lock)}

    unmet = [text for text in requirements if not any(meets(pin, Requirement(text)) for pin in locked)]

    assert unmet == [], "run scripts/lock"


def test_the_tested_versions_are_the_installed_ones() -> None:
    run, tested = pins("requirements.lock"), pins("requirements-dev.lock")

    assert {name: tested[name] for name in run} == run


@pytest.mark.parametrize(
    "lock", [f"requirements{part}.lock" for part in ("", "-build", "-image", "-dev", "-audit", "-fuzz")]
)
def test_every_locked_package_has_hashes(lock: str) -> None:
    entries = re.split(r"\n(?=\S)", (ROOT / lock).read_text())

    assert [entry.split()[0] for entry in entries if "==" in entry and "--hash=sha256:" not in entry] == []


def pins(lock: str) -> dict[str, str]:
    """Return the versions of a lock file by canonical name."""
    return {canonicalize_name(name): version for name, version in entries(lock)}


def entries(lock: str) -> list[tuple[str, str]]:
    """Return the names and versions of a lock file. Some packages have one version for each minor of Python."""
    return re.findall(r"^([\w.-]+)==([^ ;\\]+)", (ROOT / lock).read_text(), re.MULTILINE)


def meets(pin: Requirement, wish: Requirement) -> bool:
    """Tell whether the locked version meets the requirement."""
    (version,) = (specifier.version for specifier in pin.specifier)
    return canonicalize_name(pin.name) == canonicalize_name(wish.name) and wish.specifier.contains(version)


def tracked() -> dict[str, str]:
    """Return the text of every committed file by path. Skip the test in an unpacked archive."""
    if not (ROOT / ".git").exists():
        pytest.skip("the project is not a git checkout")
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in listing.split("\0") if name]
    return {str(path.relative_to(ROOT)): path.read_text(errors="replace") for path in paths if path.is_file()}

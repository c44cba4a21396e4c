"""What the package offers to importers, and the map at its door."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import injector

ROOT = Path(__file__).resolve().parents[2]
PUBLIC: list[str] = []
"""The names that ``injector`` exports: users have the command line and HTTP, and rely on no Python module."""

NAMES = "import injector, json; print(json.dumps([name for name in vars(injector) if not name.startswith('_')]))"


def test_the_package_exports_what_is_pinned_here() -> None:
    listed = subprocess.run([sys.executable, "-c", NAMES], capture_output=True, text=True, check=True).stdout

    assert sorted(json.loads(listed)) == PUBLIC


def test_the_map_names_modules_that_exist() -> None:
    named = set(
        re.findall(
            r"\b(?:cli|webhook|revisions|injection|cluster|istio|kube|gotemplate)[./]\w+", injector.__doc__ or ""
        )
    )
    missing = [name for name in named if not module(name).exists() and not module(name).with_suffix("").is_dir()]

    assert missing == []


def module(name: str) -> Path:
    """The file of a module as the map writes it, ``webhook/inject`` or ``webhook.inject``."""
    return (ROOT / "injector" / name.removesuffix(".py").replace(".", "/")).with_suffix(".py")

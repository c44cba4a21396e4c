from __future__ import annotations

import json
import tomllib
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from click.testing import CliRunner

from injector.cli import main
from injector.cli.version import own_version

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_the_version_is_that_of_the_distribution() -> None:
    assert own_version() == VERSION


def test_it_is_one_line_with_the_istio_versions() -> None:
    result = CliRunner().invoke(main, ["version"])

    assert (result.exit_code, result.stdout) == (0, f"revision-injector {VERSION} (Istio 1.0 to 1.30)\n")


def test_json_and_yaml_say_the_same() -> None:
    as_json = CliRunner().invoke(main, ["version", "-o", "json"]).stdout
    as_yaml = CliRunner().invoke(main, ["version", "-o", "yaml"]).stdout

    assert json.loads(as_json) == yaml.safe_load(as_yaml)
    assert json.loads(as_json)["version"] == VERSION


def test_a_tree_that_was_never_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)

    assert own_version() == "unknown"

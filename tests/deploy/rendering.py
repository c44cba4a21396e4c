"""What the chart renders, and where there is nothing to render it with, why."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "chart"
BASES = DEPLOY / "kustomize"
NAMESPACE = "injector-system"
RELEASE = "injector"

Object = dict[str, Any]


@cache
def missing() -> str:
    """Why the chart cannot be rendered; empty where it can. Builds Helm where there is Go and no Helm."""
    done = _run("version", "--short")
    return "" if done.returncode == 0 else f"no Helm: {(done.stderr.strip() or 'it does not start').splitlines()[-1]}"


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Helm's answer; skips the test where there is no Helm."""
    if missing():
        pytest.skip(missing())
    return _run(*arguments)


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ROOT / "scripts" / "helm"), *arguments], capture_output=True, text=True, check=False, env={**os.environ}
    )


_rendering = cache(helm)
"""The chart in the repository stays the same, so that equal commands have equal answers."""


def templated(values: Object, *flags: str) -> subprocess.CompletedProcess[str]:
    """Helm's answer to rendering the chart with ``values``."""
    given = [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]
    return _rendering("template", RELEASE, str(CHART), f"--namespace={NAMESPACE}", *given, *flags)


def rendered(values: Object | None = None) -> list[Object]:
    """The objects of the chart with ``values``."""
    done = templated(values or {})
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)


def documents(text: str) -> list[Object]:
    """The objects of a YAML text."""
    return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]


def base(name: str) -> list[Object]:
    """The objects of one of the kustomize bases."""
    return documents((BASES / name / "manifests.yaml").read_text())


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    """Those of one kind."""
    return [each for each in objects if each["kind"] == kind]


def one(objects: list[Object], kind: str) -> Object:
    """The only one of a kind."""
    (found,) = of_kind(objects, kind)
    return found


def pod_spec(objects: list[Object]) -> Object:
    """The pod that the Deployment makes."""
    spec: Object = one(objects, "Deployment")["spec"]["template"]["spec"]
    return spec


def container(objects: list[Object]) -> Object:
    """The container of the injector, which is the first."""
    found, *_ = pod_spec(objects)["containers"]
    assert isinstance(found, dict)
    return found


def flags(objects: list[Object]) -> dict[str, str]:
    """The flags that the container is started with; one that takes no value has an empty one."""
    return {name: value for name, _, value in (arg.partition("=") for arg in container(objects)["args"][1:])}

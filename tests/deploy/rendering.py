"""Renderings of the chart: recorded answers of Helm, so that the tests need no Helm.

``scripts/renderings`` runs the tests with Helm and records each answer. A recording is used only for the chart that it was made of. For
another chart, and for values that were not recorded, Helm answers; a test fails if there is no Helm.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
RECORDED = Path(__file__).with_name("renderings.json.gz")
REMEDY = "run scripts/renderings, which needs Helm or Go, and commit what it writes"
SEPARATOR = re.compile(r"^(?=---$)", re.MULTILINE)

WRITTEN = "folder:"

Object = dict[str, Any]
Arguments = tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """What Helm answered to some arguments."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Recording:
    """Helm's answers for one state of the chart, by its arguments."""

    helm: str
    chart: str
    answers: dict[Arguments, Answer]


recorded_now: dict[Arguments, Answer] | None = None
"""The answers of this run, if they are to be recorded: then nothing is read from the recording."""


def checksum(folder: Path, files: Iterable[Path]) -> str:
    """Return a checksum of the names and the content of files."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file.relative_to(folder)} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def files_in(folder: Path) -> list[Path]:
    """Return the files of a folder and of those in it."""
    return [path for path in folder.rglob("*") if path.is_file()]


@cache
def chart_checksum() -> str:
    """Return the checksum of all files that the answers depend on."""
    return checksum(DEPLOY, [*files_in(CHART), *BASES.glob("*/values.yaml")])


@cache
def recording() -> Recording:
    """Return the recorded answers. The file has each document once, and the answers have its number."""
    data = json.loads(gzip.decompress(RECORDED.read_bytes()))
    documents: list[str] = data["documents"]
    answers = {
        tuple(arguments): Answer(status, "".join(documents[number] for number in numbers), errors)
        for arguments, status, numbers, errors in data["answers"]
    }
    return Recording(data["helm"], data["chart"], answers)


def write(answers: Mapping[Arguments, Answer]) -> None:
    """Write the recording of this chart."""
    documents: dict[str, int] = {}
    entries = [
        (
            arguments,
            answer.returncode,
            [documents.setdefault(document, len(documents)) for document in SEPARATOR.split(answer.stdout)],
            answer.stderr,
        )
        for arguments, answer in sorted(answers.items())
    ]
    data = {"helm": version(), "chart": chart_checksum(), "documents": list(documents), "answers": entries}
    RECORDED.write_bytes(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), mtime=0))


@cache
def missing() -> str:
    """Return why Helm cannot be run; empty if it can. Builds Helm if there is Go and no Helm."""
    done = run("version", "--short")
    return "" if done.returncode == 0 else f"no Helm: {(done.stderr.strip() or 'it does not start').splitlines()[-1]}"


def version() -> str:
    """Return the version of Helm, without the commit of its build."""
    return run("version", "--short").stdout.partition("+")[0].strip()


def run(*arguments: str) -> Answer:
    """Run Helm in the root of the project."""
    command = [str(ROOT / "scripts" / "helm"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return Answer(done.returncode, done.stdout, done.stderr)


def helm(*arguments: str, folder: Path | None = None) -> Answer:
    """Return Helm's answer. The recording knows ``folder``, one that the test writes, by the checksum of its files."""
    relative = tuple(argument.replace(f"{ROOT}/", "") for argument in arguments)
    key = relative
    if folder is not None:
        name = f"{WRITTEN}{checksum(folder, files_in(folder))}"
        key = tuple(argument.replace(str(folder), name) for argument in relative)
    if recorded_now is None and recording().chart == chart_checksum() and key in recording().answers:
        return recording().answers[key]
    if missing():
        pytest.fail(f"the chart has no recorded rendering with these values: {REMEDY}")
    answer = run(*relative)
    if recorded_now is not None:
        recorded_now[key] = answer
    return answer


_rendering = cache(helm)


def templated(values: Object, *flags: str) -> Answer:
    """Helm's answer to rendering the chart with ``values``."""
    settings = [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]
    return _rendering("template", RELEASE, str(CHART), f"--namespace={NAMESPACE}", *settings, *flags)


def rendered(values: Object | None = None) -> list[Object]:
    """The objects of the chart with ``values``."""
    done = templated(values or {})
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)


def permissions(values: Object) -> list[Object]:
    """The account of the chart with ``values``, its roles, and their bindings."""
    return [obj for obj in rendered(values) if obj["kind"] == "ServiceAccount" or "Role" in obj["kind"]]


def documents(text: str) -> list[Object]:
    """The objects of a YAML text."""
    return [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]


def base(name: str) -> list[Object]:
    """The objects of one of the kustomize bases."""
    return documents((BASES / name / "manifests.yaml").read_text())


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    """Those of one kind."""
    return [obj for obj in objects if obj["kind"] == kind]


def one(objects: list[Object], kind: str) -> Object:
    """The only one of a kind."""
    (only,) = of_kind(objects, kind)
    return only


def pod_spec(objects: list[Object]) -> Object:
    """The pod that the Deployment makes."""
    spec: Object = one(objects, "Deployment")["spec"]["template"]["spec"]
    return spec


def container(objects: list[Object]) -> Object:
    """The container of the injector, which is the first."""
    first, *_ = pod_spec(objects)["containers"]
    assert isinstance(first, dict)
    return first


def flags(objects: list[Object]) -> dict[str, str]:
    """The flags that the container is started with; one that takes no value has an empty one."""
    return {name: value for name, _, value in (arg.partition("=") for arg in container(objects)["args"][1:])}

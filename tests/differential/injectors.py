"""Istio's own webhooks, asked about pods: some releases built from source, and what they make of a pod beside what we make of it.

A driver of ``injectors/`` is built within Istio's source tree, because old releases cannot be imported as modules. Source trees and
programs stay in a work folder. If Go's proxy lacks a module that a release needs, add a ``replace`` to the tree's ``go.mod``.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeAlias

import jsonpatch
import yaml

from injector.errors import DataError
from injector.injection.pipeline import inject_pod
from injector.injection.result import OFF, Injected, RequestFacts
from injector.istio.behaviours import missing_fields, parse_minor
from injector.istio.proxyconfig import ProxyConfigs, read_proxy_config_resource
from injector.istio.revision import Revision, RevisionSettings, build_revision
from injector.kube.typed import go_encode, normalise
from injector.revisions.registry import parse_path
from tests.conformance import corpus
from tests.differential import chartplanes
from tests.differential.dice import Dice
from tests.differential.injectorpods import Pods
from tests.factories import make_container, make_pod

Pod: TypeAlias = "dict[str, Any]"
Answer: TypeAlias = "dict[str, Any]"

RELEASES = {
    "1.8": "1.8.2",
    "1.10": "1.10.6",
    "1.12": "1.12.9",
    "1.13": "1.13.5",
    "1.14": "1.14.4",
    "1.15": "1.15.1",
    "1.16": "1.16.7",
    "1.17": "1.17.8",
    "1.18": "1.18.7",
    "1.20": "1.20.8",
    "1.22": "1.22.5",
    "1.24": "1.24.6",
    "1.26": "1.26.8",
    "1.28": "1.28.10",
    "1.29": "1.29.1",
    "1.30": "1.30.3",
    "1.31": "1.31.0-rc.0",
    "1.32": "master",
}
"""The tags to compare with, by minor, and the branch of the minor in development: its recorded answers are of commit 86c9f01."""
SOURCE = "https://github.com/istio/istio"
FOLDER = Path(__file__).with_name("injectors")
NAMESPACE = "shop"
REFUSED: Answer = {"refused": True}
INVALID_MESH = "istiod does not use this mesh config"
SKIPPED: Answer = {"skipped": True}


@dataclass(frozen=True)
class ControlPlane:
    """What one istiod runs with: the keys of its ConfigMaps, its environment, the versions of the nodes by name, and ProxyConfigs; and
    the path of its webhook and the name of its revision."""

    minor: str
    config: str
    values: str
    mesh: str
    env: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)
    proxy_configs: Sequence[Mapping[str, Any]] = ()
    path: str = "/inject"
    name: str = ""

    @cached_property
    def revision(self) -> Revision:
        """Our revision of it."""
        settings = RevisionSettings(
            istio_version=self.minor, env=self.env, node_versions=tuple(self.nodes.values()), revision=self.name
        )
        texts = {"config": self.config, "values": self.values, "mesh": self.mesh}
        return replace(
            build_revision("default", **texts, settings=settings, origin="test"),
            versions_by_node=dict(self.nodes),
            proxy_configs=ProxyConfigs.of(map(read_proxy_config_resource, self.proxy_configs)),
        )


def built(minor: str, work: Path, source: str = SOURCE) -> Path:
    """Build the program that answers as a minor's release does, unless the work folder has it."""
    release, program = RELEASES[minor], work / f"driver-{minor}"
    tree = work / f"istio-{release}"
    if not tree.exists():
        clone = ["git", "clone", "--quiet", "--depth", "1", "--branch", release, source, str(tree)]
        subprocess.run(clone, check=True)
    if not program.exists():
        driver = tree / "pkg" / "kube" / "inject" / "driver"
        driver.mkdir(exist_ok=True)
        # Of each file with a minor in its name, the newest that is not newer than this minor.
        files: dict[str, Path] = {}
        for file in sorted(FOLDER.glob("*_*_*.go"), key=_minor_of):
            if _minor_of(file) <= parse_minor(minor):
                files[file.stem.partition("_")[0]] = file
        for name, file in files.items():
            (driver / f"{name}.go").write_text(file.read_text().removeprefix("//go:build ignore\n"))
        shutil.copy(FOLDER / "driver.go", driver)
        # golang.org/x/net of releases up to 1.15 refers to names that Go 1.23 and later hide.
        build = ["go", "build", "-mod=mod", "-ldflags=-checklinkname=0", "-o", str(program), "./pkg/kube/inject/driver"]
        subprocess.run(build, cwd=tree, check=True)
    return program


def _minor_of(file: Path) -> tuple[int, int]:
    return parse_minor(file.stem.partition("_")[2].replace("_", "."))


def istios(program: Path, plane: ControlPlane, pods: Sequence[Pod]) -> list[Answer]:
    """Return what Istio makes of pods: the injected pod, or that it skips or refuses it."""
    lines = "\n".join(json.dumps({"path": plane.path, "namespace": NAMESPACE, "pod": pod}) for pod in pods)
    with tempfile.TemporaryDirectory() as name:
        files = [Path(name, key) for key in ("config", "values", "mesh", "proxyconfigs")]
        resources = json.dumps([_as_the_driver_reads(each) for each in plane.proxy_configs])
        for file, text in zip(files, (plane.config, plane.values, plane.mesh, resources), strict=True):
            file.write_text(text)
        nodes = [f"{node}={version}" for node, version in plane.nodes.items()]
        command = [str(program), *map(str, files), plane.name, *nodes]
        done = subprocess.run(
            command, input=lines.encode(), check=False, capture_output=True, env={**os.environ, **plane.env}
        )
    if done.returncode:
        assert b"main.webhook(" in done.stderr, done.stderr.decode()
        return [{**REFUSED, "why": INVALID_MESH}] * len(pods)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return [_istios(pod, answer) for pod, answer in zip(pods, answers, strict=True)]


def _as_the_driver_reads(resource: Mapping[str, Any]) -> dict[str, Any]:
    metadata = resource["metadata"]
    created = metadata.get("creationTimestamp", "0001-01-01T00:00:00Z")
    return {
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "created": created,
        "spec": resource.get("spec", {}),
    }


def _istios(pod: Pod, answer: Answer) -> Answer:
    if "patch" in answer:
        return {"pod": as_served(jsonpatch.apply_patch(pod, answer["patch"]))}
    return SKIPPED if answer.get("skipped") else {**REFUSED, "why": answer["error"]}


def ours(plane: ControlPlane, pod: Pod) -> Answer:
    """Return what we make of a pod, without the guard, which Istio does not have."""
    annotated = "NAMESPACE_ANNOTATIONS" in plane.env and pod["metadata"].get("namespace", NAMESPACE) == NAMESPACE
    namespace = {"annotations": json.loads(plane.env["NAMESPACE_ANNOTATIONS"])} if annotated else None
    facts = RequestFacts(
        NAMESPACE, parse_path(plane.path).envs, namespace_meta=namespace, guard=OFF, deny_invalid=False
    )
    try:
        result = inject_pod(plane.revision, deepcopy(pod), facts)
    except DataError as error:
        return {**REFUSED, "why": str(error)}
    if not isinstance(result, Injected):
        return SKIPPED
    return {"pod": as_served(jsonpatch.apply_patch(pod, json.loads(json.dumps(result.patch))))}


def alike(left: Answer, right: Answer) -> bool:
    """Return whether two answers are the same; why a pod is refused does not count."""
    left, right = ({key: value for key, value in each.items() if key != "why"} for each in (left, right))
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def as_served(pod: Pod) -> Pod:
    """Return a pod as the API server encodes it."""
    encoded: Pod = go_encode(normalise(pod, "v1.Pod"), "v1.Pod")
    if encoded.get("metadata", {}).get("creationTimestamp", "") is None:
        del encoded["metadata"]["creationTimestamp"]
    return encoded


@dataclass(frozen=True)
class Case:
    """A pod to inject, and whether our answer may differ."""

    name: str
    minor: str
    plane: ControlPlane
    pod: Pod
    differs: str


@cache
def cases() -> tuple[Case, ...]:
    """Return the cases of ``injectors/cases.yaml`` for each of their minors."""
    data = yaml.load((FOLDER / "cases.yaml").read_text(), yaml.CSafeLoader)
    found: list[Case] = []
    for name, case in data["cases"].items():
        texts = {"values": "{}", "mesh": "{}", **data["settings"][case["settings"]]}
        for minor in case["minors"]:
            own = {key: case.get(key, {}) for key in ("env", "nodes")}
            templates = {"sidecar": texts["overlay"], **texts.get("templates", {})}
            template = {"template": texts["list"]} if minor == "1.8" else {"templates": templates}
            config = json.dumps({"policy": "enabled", **template})
            mesh = case.get("mesh", texts["mesh"])
            own |= {"proxy_configs": case.get("proxyConfigs", ()), "path": case.get("path", "/inject")}
            plane = ControlPlane(minor, config, texts["values"], mesh, **own)
            pod = make_pod("web", containers=[make_container()])
            pod = {"metadata": pod["metadata"] | case.get("metadata", {}), "spec": pod["spec"] | case.get("spec", {})}
            found.append(Case(name, minor, plane, as_served(pod), case.get("differs", "")))
    return tuple(found)


RECORDED = FOLDER.parent / "recorded" / "injectors.jsonl"


@cache
def recorded() -> dict[str, dict[str, Answer]]:
    """Return Istio's answers to the cases, by minor and name."""
    answers: dict[str, dict[str, Answer]] = {}
    for line in RECORDED.read_text().splitlines():
        minor, name, answer = json.loads(line)
        answers.setdefault(minor, {})[name] = answer
    return answers


def record(programs: Mapping[str, Path]) -> None:
    """Ask Istio about all cases, and keep its answers; those of minors without a program stay."""
    lines = []
    for case in cases():
        if case.minor in programs:
            (answer,) = istios(programs[case.minor], case.plane, [case.pod])
        else:
            answer = recorded()[case.minor][case.name]
        lines.append(json.dumps([case.minor, case.name, answer], sort_keys=True, separators=(",", ":")))
    RECORDED.write_text("\n".join(lines) + "\n")


RUNS_OF_A_DIFFERENCE = 30
GOGO = (1, 12)
"""The last minor whose mesh config gogo/protobuf reads."""
KEEPS_DELETED = (1, 18)
RECORDS = "sidecar.istio.io/status"
CONTAINERS = ("containers", "initContainers")


@dataclass
class Tally:
    """How Istio answered, why answers may differ, and the differences without a reason."""

    answers: Counter[str] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def corpus_planes(minor: str, recordings: Path) -> list[ControlPlane]:
    """Return the control planes of a minor's cases: those that ``scripts/new-minor`` recorded, else those of the corpus.

    If the corpus has no cases of the minor, those of the newest older minor are used.
    """
    found: dict[str, ControlPlane] = {}
    if (recordings / minor).is_dir():
        cases = corpus.cases(minor, recordings)
    else:
        cases = corpus.cases(
            max((each for each in corpus.MINORS if parse_minor(each) <= parse_minor(minor)), key=parse_minor)
        )
    nodes = chartplanes.NODES[0] if parse_minor(minor) >= chartplanes.NODES_COUNT else {}
    for case in cases:
        settings = case.settings
        env = {"ENABLE_NATIVE_SIDECARS": "false", **dict(settings.env)}
        if settings.values is None or settings.revision or "PLATFORM" in env:
            continue
        config, values, mesh = (path.read_text() for path in (settings.config, settings.values, settings.mesh))
        plane = ControlPlane(minor, config, values, mesh, env=env, nodes=nodes)
        found[json.dumps([config, values, mesh, env])] = plane
    return list(found.values())


def chart_planes(minor: str, work: Path, seed: str, count: int) -> list[ControlPlane]:
    """Return random control planes: the chart of a minor's release with random values."""
    planes = chartplanes.chart_planes(minor, work / f"istio-{RELEASES[minor]}", seed, count)
    return [ControlPlane(minor, **plane) for plane in planes]


def compared(program: Path, plane: ControlPlane, seed: str, count: int, tally: Tally) -> None:
    """Compare Istio's answers with ours for random pods."""
    maker = Pods(Dice(f"{seed} {plane.minor}"), missing_fields(parse_minor(plane.minor)))
    pods = [as_served(maker.pod()) for _ in range(count)]
    for pod, answer in zip(pods, istios(program, plane, pods), strict=True):
        tally.answers[next(iter(answer))] += 1
        mine = ours(plane, pod)
        if alike(answer, mine):
            continue
        reason = _excuse(program, plane, pod, answer, mine)
        if reason:
            tally.excused[reason] += 1
        else:
            tally.wrong.append(f"{plane.minor} {json.dumps(pod)}\n{_difference(answer, mine)}")


def _excuse(program: Path, plane: ControlPlane, pod: Pod, answer: Answer, mine: Answer) -> str:
    if answer.get("why") == INVALID_MESH:
        return "Istio validates more of a mesh config"
    if any(alike(each, mine) for each in istios(program, plane, [pod] * RUNS_OF_A_DIFFERENCE)):
        return "Go answers otherwise from run to run, since it walks maps in random order"
    config = pod["metadata"].get("annotations", {}).get("proxy.istio.io/config", "")
    if "-0.0" in config:
        return "Istio loses the sign of -0.0"
    if parse_minor(plane.minor) <= GOGO and re.search(r"""["']null["']""", config):
        return "gogo/protobuf takes the text null for a number that is not set"
    if RELEASES[plane.minor] == "1.14.4" and re.search("(?i)duration", config):
        return "Istio 1.14 replaces durations from 1.14.5 on"
    if parse_minor(plane.minor) <= KEEPS_DELETED and "$patch: delete" in plane.config:
        return "Up to Istio 1.18, an item to delete that is not there stays with its name only"
    if all(any(each["name"] == "istio-proxy" for each in pod["spec"].get(kind, ())) for kind in CONTAINERS):
        return "Istio drops one of two containers named istio-proxy"
    if RECORDS in pod["metadata"].get("annotations", {}) and alike(*map(_as_injected_once, (answer, mine))):
        return "In a second injection, Istio forgets the user's settings, or takes its own probes for the application's"
    before, after = (each.get("pod", {}).get("metadata", {}).get("labels", {}) for each in (answer, mine))
    hides = plane.revision.behaviours.hides_deployment_config
    if hides and before == {key: after[key] for key in after if key != "deploymentconfig"}:
        return "Istio deletes the only label of a pod of a DeploymentConfig"
    return ""


def _as_injected_once(answer: Answer) -> Answer:
    """Return an answer without what a second injection records otherwise."""
    found = deepcopy(answer)
    found.get("pod", {}).get("metadata", {}).get("annotations", {}).pop("proxy.istio.io/overrides", None)
    for container in (each for kind in CONTAINERS for each in found.get("pod", {}).get("spec", {}).get(kind) or ()):
        container["env"] = [each for each in container.get("env", ()) if each["name"] != "ISTIO_KUBE_APP_PROBERS"]
        if "-u" in (arguments := container.get("args") or [])[:-1]:
            arguments[arguments.index("-u") + 1] = ""
    return found


def _difference(answer: Answer, mine: Answer) -> str:
    left, right = (json.dumps(each, indent=1, sort_keys=True).splitlines() for each in (answer, mine))
    return "\n".join(difflib.unified_diff(left, right, "Istio", "ours", n=1, lineterm=""))

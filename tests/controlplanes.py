"""Control planes and pods for tests, by the name of each: the project's own, and Istio's where ``../shared/corpus`` is beside the project.

A minor such as ``1.20`` names an own control plane. ``istio-1.20`` names the default installation of Istio 1.20.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import pytest

from injector.golang.json import dump_json
from injector.istio.behaviours import parse_minor
from injector.istio.revision import Revision, RevisionSettings, build_revision
from injector.kube.typed import normalise
from tests.cases import read_cases
from tests.conformance import core, corpus, workloads
from tests.factories import make_container, make_pod

Json = dict[str, Any]

ROOT: Final = Path(__file__).resolve().parents[1]
MINORS: Final = ("1.4", "1.5", "1.8", "1.10", "1.12", "1.14", "1.17", "1.20", "1.24", "1.28", "1.30")
"""Minors with an own control plane here, old and new ones. Istio's are those of ``corpus.MINORS``."""
ALL_MINORS: Final = tuple(dict.fromkeys((*MINORS, *corpus.MINORS)))
FIRST_OVERLAY: Final = (1, 9)
ISTIOS: Final = "istio-"
NATIVE: Final = {"ENABLE_NATIVE_SIDECARS": "true"}


def parameters(minors: Iterable[str] = MINORS) -> list[Any]:
    """Return the names of the control planes of these minors, for ``parametrize``."""
    istios = [
        pytest.param(f"{ISTIOS}{minor}", marks=pytest.mark.needs("corpus"))
        for minor in minors
        if corpus.present() and minor in corpus.MINORS
    ]
    return [*(minor for minor in minors if minor in MINORS), *istios]


def names(minors: Iterable[str] = MINORS) -> list[str]:
    """Return the names of all control planes of these minors that there are."""
    return [getattr(parameter, "values", (parameter,))[0] for parameter in parameters(minors)]


def all_names() -> list[str]:
    """Return the names of all control planes of all minors."""
    return names(ALL_MINORS)


def best(minor: str) -> str:
    """Return the name of Istio's control plane of a minor if there is one, else of the project's own."""
    return names((minor,))[-1]


def minor_of(name: str) -> str:
    """Return the minor of a control plane."""
    return name.removeprefix(ISTIOS)


@dataclass(frozen=True)
class ControlPlane:
    """The keys of the ConfigMaps of a control plane, and its feature variables."""

    minor: str
    config: str
    values: str
    mesh: str
    env: Mapping[str, str]
    nodes: tuple[str, ...] = ()

    @cached_property
    def revision(self) -> Revision:
        """The revision of it."""
        settings = RevisionSettings(istio_version=self.minor, env=self.env, node_versions=self.nodes or None)
        texts = {"config": self.config, "values": self.values, "mesh": self.mesh}
        return build_revision("default", **texts, settings=settings, origin="test")


@cache
def _own() -> Any:
    return read_cases(Path(__file__).with_suffix(".yaml"))


@cache
def plane_of(name: str) -> ControlPlane:
    """Return the texts and the settings of a control plane."""
    if not name.startswith(ISTIOS):
        config = _own()["overlay" if parse_minor(name) >= FIRST_OVERLAY else "list"]
        values, mesh = ((ROOT / "revisions" / "canary" / file).read_text() for file in ("values", "mesh"))
        return ControlPlane(name, json.dumps(config), values, mesh, {"ENABLE_NATIVE_SIDECARS": "false"})
    settings = corpus.default_settings(minor_of(name))
    texts = {
        "config": settings.config.read_text(),
        "values": settings.values.read_text() if settings.values else "{}",
        "mesh": settings.mesh.read_text(),
    }
    return ControlPlane(minor_of(name), **texts, env=dict(settings.env), nodes=settings.nodes)


@cache
def revision_of(name: str) -> Revision:
    """Return the revision of a control plane, built once."""
    return (
        core.revision_of(corpus.default_settings(minor_of(name)))
        if name.startswith(ISTIOS)
        else plane_of(name).revision
    )


def revision_with(name: str, env: Mapping[str, str]) -> Revision:
    """Return the revision of a control plane with more feature variables."""
    plane = plane_of(name)
    return replace(plane, env={**plane.env, **env}).revision


@cache
def pods(name: str) -> list[Json]:
    """Return pods that a control plane may inject, as the API server stores them."""
    if not name.startswith(ISTIOS):
        return [_stored(_pod(number, entry)) for number, entry in enumerate(_own()["pods"])]
    return [_stored(pod) for pod in _corpus_pods(case for case in corpus.cases(minor_of(name)) if case.webhook)]


def documents(name: str) -> list[Json]:
    """Return workloads that a control plane may inject."""
    if not name.startswith(ISTIOS):
        kinds = ("Deployment", "StatefulSet", "DaemonSet", "Job", "Pod")
        return [workload_of(pod, kinds[number % len(kinds)], f"w{number}") for number, pod in enumerate(pods(name))]
    files = dict.fromkeys(case.source for case in corpus.cases(minor_of(name)) if case.kube_inject and case.expected)
    return [document for file in files for document in workloads.injectable(core.documents(file))]


def subjects(name: str) -> tuple[tuple[Revision, list[Json]], ...]:
    """Return the revisions of a control plane's minor, each with pods for it; of Istio's, one for each of its cases' settings."""
    if not name.startswith(ISTIOS):
        return ((revision_of(name), pods(name)),)
    by_settings: dict[corpus.Settings, list[corpus.Case]] = {}
    for case in corpus.cases(minor_of(name)):
        if case.webhook and case.expected:
            by_settings.setdefault(case.settings, []).append(case)
    return tuple(
        (core.revision_of(settings), [*map(_stored, _corpus_pods(cases))]) for settings, cases in by_settings.items()
    )


def workload_of(pod: Json, kind: str, name: str) -> Json:
    """Return a workload with the template of a pod."""
    metadata = {key: value for key, value in pod["metadata"].items() if key in ("labels", "annotations")}
    named = {"metadata": {"name": name, "namespace": "shop"}}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, **named["metadata"]}, "spec": pod["spec"]}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": {"metadata": metadata, "spec": pod["spec"]}}
    return {"apiVersion": "batch/v1" if kind == "Job" else "apps/v1", "kind": kind, **named, "spec": spec}


def _pod(number: int, entry: Json) -> Json:
    pod = make_pod(f"web-{number}", containers=[make_container()])
    return {**pod, "metadata": pod["metadata"] | entry.get("metadata", {}), "spec": pod["spec"] | entry.get("spec", {})}


def _corpus_pods(cases: Iterable[corpus.Case]) -> list[Json]:
    files = dict.fromkeys(case.source for case in cases if case.expected)
    return [workloads.as_pod(document) for file in files for document in workloads.injectable(core.documents(file))]


def _stored(pod: Json) -> Json:
    stored: Json = json.loads(dump_json(normalise(pod, "v1.Pod")))
    return stored

"""Plans change no answer: a pod mutated at any leaf gets, by plan or without, what the pipeline gives it.

``PLAN_MUTATIONS`` is how many mutated pods of each minor are tried, a few hundred unless it is set.
"""

from __future__ import annotations

import json
import os
import random
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from injector.errors import InjectorError
from injector.injection.pipeline import inject_pod
from injector.injection.planner import Planner
from injector.injection.result import Injected, Planned, RequestFacts, Skipped
from injector.kube.serial import dump_json
from injector.kube.typed import normalise
from injector.revisions.build import build
from injector.revisions.embedded import embedded_source
from tests.conformance import core, corpus, workloads
from tests.factories import make_container, make_pod
from tests.property.mutations import mutated

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from injector.istio.revision import Revision

MUTATIONS = int(os.environ.get("PLAN_MUTATIONS", "100"))
EMBEDDED = "1.28"
"""With what minor the embedded revisions are tried."""
MINORS = ("1.10", "1.12", "1.14", "1.17", "1.20", "1.24", "1.28", "1.30")
NAMESPACES = ("shop", "shop", "kube-system", "Shop-1")
ENVS: tuple[dict[str, str], ...] = ({}, {}, {"ISTIO_META_NETWORK": "net-1"})
PROBE = {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 10}


def probed(name: str) -> dict[str, Any]:
    """A container with a port, a probe, variables and a mount."""
    ports = [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]
    env = [{"name": "MODE", "value": name}]
    return make_container(
        name, ports=ports, readinessProbe=PROBE, env=env, volumeMounts=[{"name": "data", "mountPath": "/data"}]
    )


def replica(name: str) -> dict[str, Any]:
    """A pod as a ReplicaSet makes it."""
    pod = make_pod(
        labels={"app": name, "version": "v1", "pod-template-hash": "5d8f7c"},
        annotations={"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "checksum/config": "0"},
        containers=[probed(name)],
        volumes=[{"name": "data", "emptyDir": {}}],
        serviceAccountName=name,
    )
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{name}-5d8f7c", "uid": "u", "controller": True}
    pod["metadata"] |= {"generateName": f"{name}-5d8f7c-", "ownerReferences": [owner]}
    del pod["metadata"]["name"]
    return pod


def sized() -> dict[str, Any]:
    """A replica whose proxy asks for resources of its own."""
    pod = replica("web")
    resources = {"CPU": "100m", "CPULimit": "100m", "Memory": "64Mi", "MemoryLimit": "128Mi"}
    pod["metadata"]["annotations"] |= {f"sidecar.istio.io/proxy{name}": value for name, value in resources.items()}
    return pod


def two_probed() -> dict[str, Any]:
    """A pod whose containers' names sort otherwise once a slash follows them."""
    pod = replica("web")
    pod["spec"]["containers"] = [probed("web-a"), probed("web")]
    return pod


def embedded_revisions() -> list[Revision]:
    """The revisions that come with the injector, in Jinja2."""
    return [build(raw) for raw in embedded_source().read().revisions]


@cache
def subjects(minor: str) -> tuple[tuple[Revision, list[dict[str, Any]]], ...]:
    """The revisions of a minor's corpus, each with the pods that are injected with it, and with replicas."""
    sources: dict[corpus.Settings, dict[Path, None]] = {}
    for case in corpus.cases(minor):
        if case.webhook and case.expected:
            sources.setdefault(case.settings, {})[case.source] = None
    common = [replica("web"), replica("shop-1"), sized(), two_probed()]
    found: list[tuple[Revision, list[dict[str, Any]]]]
    found = [(revision, common) for revision in embedded_revisions()] if minor == EMBEDDED else []
    for settings, files in sources.items():
        given = [workloads.as_pod(each) for file in files for each in workloads.injectable(core.documents(file))]
        pods = [json.loads(dump_json(normalise(pod, "v1.Pod"))) for pod in given]
        found.append((core.revision_of(settings), [*pods, *common]))
    return tuple(found)


def outcome(inject: Callable[[], Injected | Planned | Skipped]) -> tuple[object, ...]:
    """How an injection ends, in a form that compares."""
    try:
        result = inject()
    except InjectorError as error:
        return type(error), str(error)
    if isinstance(result, Skipped):
        return result.reason, result.warnings
    patch = result.patch if isinstance(result, Planned) else dump_json(result.patch)
    return patch, result.templates, result.warnings


def agreeing(planner: Planner, revision: Revision, pod: dict[str, Any], facts: RequestFacts) -> int:
    """Inject a pod three times, plans being made meanwhile, compare each time, and return how often a plan did it."""
    expected = outcome(lambda: inject_pod(revision, pod, facts))
    planned = 0
    for _ in range(3):
        results: list[Injected | Planned | Skipped] = []

        def inject(kept: list[Injected | Planned | Skipped] = results) -> Injected | Planned | Skipped:
            kept.append(planner.inject(revision, pod, facts))
            return kept[0]

        assert outcome(inject) == expected, json.dumps(pod)
        planned += bool(results) and isinstance(results[0], Planned)
        while planner.eager:
            planner.learn()
    return planned


@pytest.mark.skipif(not corpus.present(), reason=corpus.ABSENT)
@pytest.mark.parametrize("minor", MINORS)
def test_a_pod_mutated_at_any_leaf_is_injected_alike(minor: str) -> None:
    dice = random.Random(f"{minor} {MUTATIONS}")  # noqa: S311 -- nothing secret
    planner = Planner(clock=lambda: 0.0)
    planned = 0
    for _ in range(MUTATIONS):
        revision, pods = dice.choice(subjects(minor))
        facts = RequestFacts(dice.choice(NAMESPACES), dice.choice(ENVS))
        planned += agreeing(planner, revision, mutated(dice.choice(pods), dice), facts)

    assert planned > MUTATIONS / 5, "else the plans were not put to the test"


@pytest.mark.skipif(not corpus.present(), reason=corpus.ABSENT)
@pytest.mark.parametrize("minor", MINORS)
def test_every_pod_of_the_corpus_is_injected_alike(minor: str) -> None:
    planner = Planner(clock=lambda: 0.0)
    planned = 0
    for revision, pods in subjects(minor):
        planned += sum(agreeing(planner, revision, pod, RequestFacts("shop")) for pod in pods)

    assert planned > 0

"""Plans change no answer: a pod mutated at any leaf gets, by plan or without, what the pipeline gives it.

``PLAN_MUTATIONS`` is how many mutated pods of each minor are tried, a few hundred unless it is set.
"""

from __future__ import annotations

import json
import os
import random
from typing import TYPE_CHECKING, Any

import pytest

from injector.errors import InjectorError
from injector.injection.pipeline import inject_pod
from injector.injection.planner import Planner
from injector.injection.result import Injected, Planned, RequestFacts, Skipped
from injector.kube.serial import dump_json
from tests.conformance import corpus
from tests.property.mutations import mutated
from tests.property.subjects import subjects

if TYPE_CHECKING:
    from collections.abc import Callable

    from injector.istio.revision import Revision

MUTATIONS = int(os.environ.get("PLAN_MUTATIONS", "100"))
MINORS = ("1.10", "1.12", "1.14", "1.17", "1.20", "1.24", "1.28", "1.30")
NAMESPACES = ("shop", "shop", "kube-system", "Shop-1")
ENVS: tuple[dict[str, str], ...] = ({}, {}, {"ISTIO_META_NETWORK": "net-1"})


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

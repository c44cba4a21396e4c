"""A pod that is injected again stays as it is: another webhook's change makes the API server ask twice."""

from __future__ import annotations

from typing import Any

import jsonpatch
import pytest
from hypothesis import Phase, given, settings

from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.istio.revision import Revision
from tests.conformance import compare, core, corpus, workloads
from tests.controlplanes import parameters, revision_of
from tests.property.pods import pods
from tests.revisions.fakes import embedded
from tests.sizes import sized

STATUS = "sidecar.istio.io/status"
"""A pod that comes with it was injected by another control plane: only what comes after the first injection is ours."""

EXAMPLES = sized(12, 30)
"""For each revision: enough to meet every pair of annotations now and then, and a few seconds in all."""
PHASES = set(Phase) - {Phase.explain}
"""Explaining a failure takes minutes, and tells less than the diff."""

STABLE = ("1.12", "1.14", "1.17", "1.20", "1.24", "1.28", "1.30")
"""Up to 1.8 templates see what an earlier injection added, and up to 1.10 they print the annotations that they themselves write."""

CASES = [case for minor in STABLE for case in corpus.cases(minor) if case.webhook and case.expected]


@pytest.mark.needs("corpus")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.minor}-{case.name}")
def test_a_pod_of_the_corpus_is_not_changed_by_a_second_injection(case: corpus.Case) -> None:
    revision = core.revision_of(case.settings)

    for workload in workloads.injectable(core.documents(case.source)):
        pod, namespace = workloads.as_pod(workload), workloads.namespace_of(workload)
        if STATUS in pod["metadata"].get("annotations", {}):
            pod = injected(revision, pod, namespace)
        fault = second_injection(revision, pod, namespace)
        assert not fault, f"\n{fault}"


@pytest.mark.parametrize("name", parameters(STABLE))
@given(pod=pods())
@settings(max_examples=EXAMPLES, phases=PHASES)
def test_no_pod_is_changed_by_a_second_injection(name: str, pod: dict[str, Any]) -> None:
    fault = second_injection(revision_of(name), pod, "shop")

    assert not fault, f"\n{fault}"


@given(pod=pods())
@settings(max_examples=EXAMPLES, phases=PHASES)
def test_nor_by_the_revisions_that_the_project_ships(pod: dict[str, Any]) -> None:
    for name in ("stable", "canary"):
        fault = second_injection(embedded(name), pod, "shop")
        assert not fault, f"\n{fault}"


def second_injection(revision: Revision, pod: dict[str, Any], namespace: str) -> str:
    """What a second injection changes, as a diff and a patch; empty where it changes nothing."""
    once = injected(revision, pod, namespace)
    twice = inject_pod(revision, once, RequestFacts(namespace=namespace, deny_invalid=False))
    if not isinstance(twice, Injected) or not twice.patch:
        return ""
    return f"{compare.difference([jsonpatch.apply_patch(once, twice.patch)], [once])}\n{str(twice.patch)[:400]}"


def injected(revision: Revision, pod: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The pod after the patch, as the API server shows it to the webhook when it asks again."""
    result = inject_pod(revision, pod, RequestFacts(namespace=namespace, deny_invalid=False))
    return jsonpatch.apply_patch(pod, result.patch) if isinstance(result, Injected) else pod

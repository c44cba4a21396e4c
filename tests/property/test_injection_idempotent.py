"""A pod that is injected again stays as it is: another webhook's change makes the API server ask twice."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.revisions.build import build
from injector.revisions.embedded import embedded_source
from tests.conformance import compare, core, corpus, workloads
from tests.property.pods import pods

if TYPE_CHECKING:
    from injector.istio.revision import Revision

EXAMPLES = 60
"""For each revision: enough to meet every pair of annotations now and then, and a few seconds in all."""

CASES = [case for minor in corpus.MINORS for case in corpus.cases(minor) if case.webhook and case.expected]
DEFAULTS = [corpus.default_settings(minor) for minor in corpus.MINORS] if corpus.present() else []


@pytest.mark.skipif(not corpus.present(), reason=corpus.ABSENT)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.minor}-{case.name}")
def test_a_pod_of_the_corpus_is_not_changed_by_a_second_injection(case: corpus.Case) -> None:
    revision = core.revision_of(case.settings)

    for workload in workloads.injectable(core.documents(case.source)):
        fault = second_injection(revision, workloads.as_pod(workload), workloads.namespace_of(workload))
        assert not fault, f"\n{fault}"


@pytest.mark.skipif(not corpus.present(), reason=corpus.ABSENT)
@pytest.mark.parametrize("shared", DEFAULTS, ids=lambda shared: shared.istio_version)
@given(pod=pods())
@settings(max_examples=EXAMPLES, deadline=None)
def test_no_pod_is_changed_by_a_second_injection(shared: corpus.Settings, pod: dict[str, Any]) -> None:
    fault = second_injection(core.revision_of(shared), pod, "shop")

    assert not fault, f"\n{fault}"


@given(pod=pods())
@settings(max_examples=EXAMPLES, deadline=None)
def test_nor_by_the_revisions_that_the_project_ships(pod: dict[str, Any]) -> None:
    for revision in shipped():
        fault = second_injection(revision, pod, "shop")
        assert not fault, f"\n{fault}"


@cache
def shipped() -> list[Revision]:
    """The embedded revisions."""
    return [build(raw) for raw in embedded_source().read().revisions]


def second_injection(revision: Revision, pod: dict[str, Any], namespace: str) -> str:
    """What a second injection changes, as a diff; empty where it changes nothing."""
    once = inject_pod(revision, pod, RequestFacts(namespace=namespace))
    if not isinstance(once, Injected):
        return ""
    twice = inject_pod(revision, once.pod, RequestFacts(namespace=namespace))
    assert isinstance(twice, Injected)
    return compare.difference([twice.pod], [once.pod]) or "".join(map(str, twice.patch))

"""What a revision remembers changes no answer, whatever it was asked before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings

from injector.injection.pipeline import inject_pod
from injector.injection.result import RequestFacts
from injector.istio.remembered import Remembered
from injector.revisions.build import build
from injector.revisions.embedded import embedded_source
from tests.property.pods import pods

if TYPE_CHECKING:
    from injector.istio.revision import Revision

FACTS = RequestFacts(namespace="shop")
SHARED: tuple[Revision, ...] = tuple(build(raw) for raw in embedded_source().read().revisions)
"""They answer every example, so that what one leaves behind meets the next."""


@given(pod=pods())
@settings(max_examples=60, deadline=None)
def test_a_revision_that_remembers_answers_as_one_that_does_not(pod: dict[str, Any]) -> None:
    for revision in SHARED:
        forgetful = replace(revision, overlays=Remembered(entries=0))

        assert inject_pod(revision, pod, FACTS) == inject_pod(forgetful, pod, FACTS)
        assert inject_pod(revision, pod, FACTS) == inject_pod(forgetful, pod, FACTS), "asked again"
    assert all(len(revision.overlays) > 0 for revision in SHARED)

"""Other webhooks change a pod between two injections: the second changes nothing that it need not, and the pod settles.

``scripts/reliability reinvocation`` tries ten thousand pods, and every golden pod with every edit.
"""

from __future__ import annotations

import random

import pytest

from tests.conformance import corpus
from tests.property.reinvocation import EDITS, Reinvocations
from tests.property.subjects import replica, subjects
from tests.sizes import sized

PODS = sized(10, 24)
MINORS = ("1.12", "1.20", "1.30")


@pytest.mark.skipif(not corpus.present(), reason=corpus.ABSENT)
@pytest.mark.parametrize("minor", MINORS)
def test_a_pod_that_another_webhook_edits_settles_with_the_second_injection(minor: str) -> None:
    reinvocations = Reinvocations()

    reinvocations.put_to_the_test(subjects(minor), random.Random(minor), PODS)  # noqa: S311 -- inputs of tests

    assert reinvocations.faults == []
    assert reinvocations.came["empty"] > PODS / 4
    assert reinvocations.came["settled"] > 0


@pytest.mark.skipif(not corpus.present(), reason=corpus.ABSENT)
@pytest.mark.parametrize("edit", EDITS)
def test_so_does_a_replica_whatever_the_edit(edit: str) -> None:
    reinvocations = Reinvocations()

    for revision, _ in subjects("1.30")[:3]:
        reinvocations.try_edit(revision, replica("web"), edit)

    assert reinvocations.faults == []
    assert reinvocations.tried == 3


@pytest.mark.skipif(not corpus.present(), reason=corpus.ABSENT)
@pytest.mark.parametrize("minor", MINORS)
def test_so_does_a_pod_whose_template_writes_its_containers_itself(minor: str) -> None:
    reinvocations = Reinvocations()

    for revision, pods in subjects(minor):
        for pod in pods:
            if (pod["metadata"].get("annotations") or {}).get("inject.istio.io/templates") == "grpc-agent":
                reinvocations.try_edit(revision, pod, "a container last")

    assert reinvocations.faults == []
    assert reinvocations.came["settled"] > 0

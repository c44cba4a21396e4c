"""Other webhooks change a pod between two injections: the second changes nothing that it need not, and the pod settles.

``scripts/reliability reinvocation`` tries ten thousand pods, and every golden pod with every edit.
"""

from __future__ import annotations

import random

import pytest

from tests.controlplanes import names, parameters
from tests.property.reinvocation import EDITS, Reinvocations
from tests.property.subjects import replica, subjects
from tests.sizes import sized

PODS = sized(10, 24)
MINORS = ("1.12", "1.20", "1.30")


@pytest.mark.parametrize("name", parameters(MINORS))
def test_a_pod_that_another_webhook_edits_settles_with_the_second_injection(name: str) -> None:
    reinvocations = Reinvocations()

    reinvocations.put_to_the_test(subjects(name), random.Random(name), PODS)  # noqa: S311 -- inputs of tests

    assert reinvocations.faults == []
    assert reinvocations.came["empty"] > PODS / 4
    assert reinvocations.came["settled"] > 0


@pytest.mark.parametrize("edit", EDITS)
def test_so_does_a_replica_whatever_the_edit(edit: str) -> None:
    reinvocations = Reinvocations()

    for name in names(MINORS):
        for revision, _ in subjects(name)[:3]:
            reinvocations.try_edit(revision, replica("web"), edit)

    assert reinvocations.faults == []
    assert reinvocations.tried >= len(MINORS)


@pytest.mark.parametrize("name", parameters(MINORS))
def test_so_does_a_pod_whose_template_writes_its_containers_itself(name: str) -> None:
    reinvocations = Reinvocations()

    for revision, pods in subjects(name):
        for pod in pods:
            if (pod["metadata"].get("annotations") or {}).get("inject.istio.io/templates") == "grpc-agent":
                reinvocations.try_edit(revision, pod, "a container last")

    assert reinvocations.faults == []
    assert reinvocations.came["settled"] > 0

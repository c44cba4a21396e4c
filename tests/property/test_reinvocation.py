"""Other webhooks change a pod between two injections: the second changes nothing that it need not, and the pod settles.

``REINVOKED_PODS`` is how many mutated pods each control plane is tried with (T24). With more than a sample, every control plane that is
stable is tried, and every one of its pods with every edit.
"""

from __future__ import annotations

import random

import pytest

from injector.istio.behaviours import parse_minor
from tests.controlplanes import ALL_MINORS, names, parameters
from tests.property.reinvocation import EDITS, Reinvocations
from tests.property.subjects import replica, subjects
from tests.sizes import sized

SAMPLE = sized(10, 24)
PODS = sized(10, 24, "REINVOKED_PODS")
FIRST_STABLE = (1, 12)
"""Up to 1.8 templates see what an earlier injection added, and up to 1.10 they print the annotations that they themselves write."""
STABLE = [minor for minor in ALL_MINORS if parse_minor(minor) >= FIRST_STABLE]
MINORS = STABLE if PODS > SAMPLE else ["1.12", "1.20", "1.30"]


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
        for revision, pods in subjects(name) if PODS > SAMPLE else subjects(name)[:3]:
            for pod in [replica("web"), *(pods if PODS > SAMPLE else ())]:
                reinvocations.try_edit(revision, pod, edit)

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

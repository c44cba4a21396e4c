"""A pod of the corpus, as the API server keeps it after its injection, is what its revision would make of it again."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.injection.tools.drift import (
    CURRENT,
    Drift,
    as_created,
    drift_of,
    injected_revision,
    with_container_defaults,
    with_volume_defaults,
)
from tests.conformance import core, corpus, workloads

pytestmark = pytest.mark.needs("corpus")

CASES = [case for minor in corpus.MINORS for case in corpus.cases(minor) if case.webhook and case.expected]


def as_stored(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod as the API server keeps it."""
    pod = copy.deepcopy(pod)
    spec = pod["spec"]
    for key in ("containers", "initContainers"):
        spec[key] = [with_container_defaults(item) for item in spec.get(key) or ()]
    spec["volumes"] = [with_volume_defaults(item) for item in spec.get("volumes") or ()]
    return pod


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.minor}-{case.name}")
def test_a_pod_is_current_after_its_injection(case: corpus.Case) -> None:
    revision = core.revision_of(case.settings)
    for source in workloads.injectable(core.documents(case.source)):
        namespace = workloads.namespace_of(source)
        facts = RequestFacts(namespace, namespace_meta=revision.namespaces.get(namespace), deny_invalid=False)
        pod = as_stored(workloads.as_pod(source))
        if "generateName" in pod["metadata"]:
            pod["metadata"].pop("name", None)  # a controller does not take that of its template
        answer = inject_pod(revision, pod, facts)
        if not isinstance(answer, Injected) or injected_revision(pod) is not None:
            continue  # one that comes injected keeps of that injection what uninjecting it takes away
        running = as_stored(answer.pod)
        # The API server makes the name up after the webhooks.
        running["metadata"].setdefault("name", f"{running['metadata'].get('generateName', '')}x")

        again = inject_pod(revision, as_created(running), facts)

        drift = drift_of(running, again)
        assert (injected_revision(running) is None, drift) == (False, Drift(CURRENT))

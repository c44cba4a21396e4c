"""Pods injected in turn while plans are made, each held against the pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from injector.injection.pipeline import inject_pod
from injector.injection.planner import Planner
from injector.injection.result import Injected, Planned, RequestFacts
from injector.kube.serial import dump_json

if TYPE_CHECKING:
    from injector.istio.revision import Revision

FACTS = RequestFacts("shop")


def plans_made(revision: Revision, pods: list[dict[str, Any]]) -> int:
    """Inject pods in turn, twice, making the plans that are due; compare with the pipeline; return how often a plan answered."""
    planner = Planner(clock=lambda: 0.0)
    planned = 0
    for pod in pods * 2:
        found, expected = planner.inject(revision, pod, FACTS), inject_pod(revision, pod, FACTS)
        assert isinstance(expected, Injected)
        if isinstance(found, Planned):
            planned += 1
            assert (found.patch, found.templates) == (dump_json(expected.patch), expected.templates)
        else:
            assert found == expected
        while planner.eager:
            planner.learn()
    return planned

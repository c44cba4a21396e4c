"""Pods before and after an injection, out of the cases of ``test_podvalidation.yaml``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from injector.kube.typed import normalise
from tests.cases import read_cases
from tests.factories import make_container, make_pod

_CASES = read_cases(Path(__file__).with_name("test_podvalidation.yaml"))
REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = _CASES["a_fault_of_an_injection_is_found"]
MERGED: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = _CASES[
    "a_merge_that_makes_a_pod_invalid_is_found"
]
ACCEPTED: dict[str, dict[str, Any]] = _CASES["an_injection_that_kubernetes_accepts_has_no_fault"]


def plain_pod() -> dict[str, Any]:
    """The pod before the injection."""
    mounts = [{"name": "data", "mountPath": "/data"}]
    containers = [make_container(volumeMounts=mounts)]
    return make_pod(labels={"app": "a"}, containers=containers, volumes=[{"name": "data", "emptyDir": {}}])


def with_added(added: dict[str, Any]) -> dict[str, Any]:
    """The pod after an injection that added this, as Go reads it."""
    return add_to(plain_pod(), added)


def merged(before: dict[str, Any], added: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A pod before an injection, and after one that put other fields into it."""
    pods = [make_pod(**{"containers": [make_container()], **spec}) for spec in (before, added)]
    return normalise(pods[0], "v1.Pod"), normalise(pods[1], "v1.Pod")


def add_to(pod: dict[str, Any], added: dict[str, Any]) -> dict[str, Any]:
    """Add labels, annotations and items of lists to a pod, as Go reads it."""
    for key, more in added.items():
        if key in ("labels", "annotations"):
            pod["metadata"][key] = {**pod["metadata"].get(key, {}), **more}
        else:
            pod["spec"][key] = [*pod["spec"].get(key, ()), *more]
    result: dict[str, Any] = normalise(pod, "v1.Pod")
    return result

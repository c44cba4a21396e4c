"""What Go's patched pod must have of the pod before, and what is nobody's fault."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from tests.differential.soundness import lost
from tests.factories import make_pod

VOLUMES = [{"name": "workload-socket"}, {"name": "data"}, {"name": "cache"}]
STATUS = {"sidecar.istio.io/status": json.dumps({"volumes": ["workload-socket"]})}


def faults(before: dict[str, Any], after: dict[str, Any], ours: dict[str, Any] | None = None) -> list[str]:
    """What is told of a pod before the patch and after it."""
    return list(lost({"original": before, "ours": after if ours is None else ours}, orjson.dumps(after).decode()))


def test_a_pod_that_keeps_all_has_no_fault() -> None:
    pod = make_pod(volumes=VOLUMES, containers=[{"name": "web", "unheard": 1}])

    assert faults(pod, pod) == []


def test_users_volumes_keep_their_order() -> None:
    before, after = make_pod(volumes=VOLUMES), make_pod(volumes=VOLUMES[::-1])

    assert [fault.partition(" were ")[0] for fault in faults(before, after)] == ["volumes"]


@pytest.mark.parametrize("annotations", [STATUS, {}])
def test_what_an_earlier_injection_noted_may_move(annotations: dict[str, str]) -> None:
    before = make_pod(volumes=VOLUMES, annotations=annotations)
    after = make_pod(volumes=[*VOLUMES[1:], VOLUMES[0]], annotations=annotations)

    assert bool(faults(before, after)) is (not annotations)


def test_a_field_that_nobody_knows_stays() -> None:
    before = make_pod(containers=[{"name": "web", "unheard": 1}])
    after = make_pod(containers=[{"name": "web"}])

    assert len(faults(before, after)) == 1
    assert "unheard" in faults(before, after)[0]


def test_go_applies_the_patch_as_we_do() -> None:
    pod = make_pod()

    assert faults(pod, pod, ours=make_pod(namespace="other")) == ["evanphx/json-patch applies it otherwise than we do"]

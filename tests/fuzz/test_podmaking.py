from __future__ import annotations

import json
from random import Random
from typing import Any

from injector.injection.steps.overrides import OVERRIDES
from tests.fuzz.draws import Draws
from tests.fuzz.podmaking import MADE, drawn_pod


def _pods(count: int) -> list[dict[str, Any]]:
    random = Random(1)  # noqa: S311 -- nothing secret
    return [drawn_pod(Draws(random.randbytes(200))) for _ in range(count)]


def test_an_input_that_is_empty_makes_a_pod_as_it_is() -> None:
    assert drawn_pod(Draws(b"")) == {**json.loads(MADE[0]), "metadata": {"name": "hello", "ownerReferences": []}}


def test_the_same_input_makes_the_same_pod() -> None:
    assert _pods(50) == _pods(50)


def test_inputs_make_pods_of_all_kinds() -> None:
    pods = [json.dumps(pod) for pod in _pods(200)]

    assert len(set(pods)) > 150
    assert any(OVERRIDES in pod for pod in pods)
    assert any("ISTIO_KUBE_APP_PROBERS" in pod for pod in pods)
    assert any('"spec": null' in pod or '"spec"' not in pod for pod in pods)

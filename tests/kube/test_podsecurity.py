"""Pod Security by the rules of the Go module, whose own fixtures are read if Go has fetched the module (kubelab needs it)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from injector.kube.podsecurity import (
    BASELINE,
    CHECKS,
    LATEST,
    LEVELS,
    RESTRICTED,
    enforced_level,
    level_of,
    violations,
    warned_level,
)
from injector.kube.typed import normalise
from injector.kube.yaml import load_yaml
from tests.cases import cases
from tests.factories import make_container, make_pod
from tests.needs import POD_SECURITY_FIXTURES as FIXTURES

VERSIONS = ("v1.0", "v1.18", "v1.24", "v1.30", "v1.35")
"""Versions that together have every form of every rule; v1.0 to v1.36 have 4,241 pods, which take 5 s."""
LABEL = "pod-security.kubernetes.io/"


@pytest.mark.needs("pod-security-admission")
@pytest.mark.parametrize("level", [BASELINE, RESTRICTED])
def test_the_verdict_on_every_fixture_is_the_one_of_the_go_module(level: str) -> None:
    for version in VERSIONS:
        paths = sorted((FIXTURES / level / version).glob("*/*.yaml"))
        wrong = [path for path in paths if is_allowed(path, level, version) != (path.parent.name == "pass")]

        assert wrong == []
        assert len(paths) > 20


def is_allowed(path: Path, level: str, version: str) -> bool:
    pod = normalise(load_yaml(path.read_text()), "v1.Pod")
    return not violations(pod, level, int(version.removeprefix("v1.")))


@cases("spec", "level", "faults")
def test_a_pod_passes_the_strictest_level_that_it_has_no_fault_of(
    spec: dict[str, Any], level: str, faults: tuple[str, ...]
) -> None:
    annotations = spec.pop("annotations", {})
    pod = normalise(make_pod(annotations=annotations, **{"containers": [make_container()], **spec}), "v1.Pod")
    stricter = LEVELS[min(LEVELS.index(level) + 1, len(LEVELS) - 1)]

    assert level_of(pod) == level
    assert tuple(map(str, violations(pod, stricter))) == faults


@cases("labels", "enforces", "warns")
def test_labels_of_a_namespace_are_a_policy(labels: dict[str, str], enforces: str, warns: str) -> None:
    named = {f"{LABEL}{key}": value for key, value in labels.items()}

    assert (str(enforced_level(named)), str(warned_level(named))) == (enforces, warns)


def test_every_rule_of_restricted_or_one_in_its_place_is_that_of_baseline() -> None:
    for version in (*range(36), LATEST):
        replaced = [
            check for check in CHECKS if check.applies(BASELINE, version) and not check.applies(RESTRICTED, version)
        ]
        names = {re.sub("non-default|hostPath", "", check.reason) for check in replaced}
        assert names <= {" capabilities", " volumes", "procMount", "seccompProfile"}
        assert len(replaced) == 1 + (version >= 19) + (version >= 22) + (version >= 35)

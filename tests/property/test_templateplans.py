"""Plans change no manifest: what kube-inject makes of workloads in a row is what it makes of each alone."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from injector.errors import InjectorError
from injector.injection.manifest import inject_object
from injector.injection.templateplans import template_plans_of
from injector.kube.pods import pod_template_path, template_at
from injector.kube.serial import dump_json
from tests.conformance import core, corpus, workloads
from tests.property.mutations import mutated

MINORS = ("1.24", "1.28", "1.30")
MUTATIONS = 60
NAMES = ("web", "shop-1", "a", "istio-proxy", "1a")


def outcome(revision: Any, obj: dict[str, Any]) -> tuple[Any, list[str]]:
    """What becomes of a workload, and the warnings."""
    warnings: list[str] = []
    try:
        return inject_object(revision, json.loads(dump_json(obj)), warn=warnings.append), warnings
    except InjectorError as error:
        return str(error), warnings


def variant(obj: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """A workload like another, but for its name, or a leaf of its pod template."""
    copy: dict[str, Any] = json.loads(dump_json(obj))
    copy.setdefault("metadata", {})["name"] = dice.choice(NAMES)
    path = pod_template_path(copy)
    template = template_at(copy, path or ())
    if path and "metadata" in template and "spec" in template and dice.random() < 0.5:
        template |= mutated({"metadata": template["metadata"], "spec": template["spec"]}, dice)
    return copy


@pytest.mark.skipif(not corpus.present(), reason=corpus.ABSENT)
@pytest.mark.parametrize("minor", MINORS)
def test_a_workload_is_injected_as_if_it_were_the_only_one(minor: str) -> None:
    dice = random.Random(minor)  # noqa: S311 -- nothing secret
    settings = corpus.default_settings(minor)
    revision = core.revision_of(settings)
    sources = {case.source for case in corpus.cases(minor) if case.settings == settings and case.expected}
    given = [each for file in sorted(sources) for each in workloads.injectable(core.documents(file))]
    row = replace(revision, kept={})
    for _ in range(MUTATIONS):
        first = variant(dice.choice(given), dice)
        for obj in [first] * 3 + [variant(first, dice) for _ in range(9)]:
            assert outcome(row, obj) == outcome(replace(revision, kept={}), obj), json.dumps(obj)

    assert template_plans_of(row).planned > MUTATIONS, "else the plans were not put to the test"

"""What memos hold changes no answer and is changed by no injection, and a result shares nothing with them or with the pod given."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import pytest

from injector.errors import DataError
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.istio import mesh, proxyconfig
from injector.istio.revision import Revision
from injector.kube import overlay
from injector.memo import Memo
from tests.controlplanes import minor_of, parameters
from tests.property.mutations import mutated
from tests.property.subjects import subjects
from tests.sizes import sized

MINORS = ("1.5", "1.12", "1.20", "1.28", "1.30")
PODS = sized(6, 12)
FACTS = RequestFacts("shop")
HOLDERS: tuple[tuple[Any, str], ...] = (
    (overlay, "_FORMS"),
    (overlay, "_READ"),
    (mesh, "_APPLIED"),
    (proxyconfig, "_VALIDATED"),
)


def answer(revision: Revision, pod: dict[str, Any]) -> Any:
    """What an injection comes to; an error's text where it fails."""
    try:
        return inject_pod(revision, pod, FACTS)
    except DataError as error:
        return str(error)


def spoil(value: Any) -> None:
    """Change every part of JSON data."""
    if isinstance(value, dict):
        for item in value.values():
            spoil(item)
        value["spoilt"] = "yes"
    elif isinstance(value, list):
        for item in value:
            spoil(item)
        value.append("spoilt")


@pytest.mark.parametrize("minor", parameters(MINORS))
def test_a_pod_gets_what_it_gets_without_memos_whatever_came_before(
    minor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = Random(minor)  # noqa: S311 -- nothing secret
    trials = [(revision, mutated(dice.choice(pods), dice)) for revision, pods in subjects(minor) for _ in range(PODS)]
    dice.shuffle(trials)
    hits = overlay._READ.hits
    warm = [answer(revision, pod) for revision, pod in trials]
    if minor_of(minor) != "1.5":  # whose lists are appended, not merged
        assert overlay._READ.hits > hits + len(trials)
    for (revision, pod), expected in zip(trials, warm, strict=True):
        for module, name in HOLDERS:
            monkeypatch.setattr(module, name, Memo(100, 1 << 20, lambda _key: 1))
        assert answer(revision, pod) == expected


def test_results_share_nothing_with_memos_or_with_the_given_pod() -> None:
    dice = Random(1)  # noqa: S311 -- nothing secret
    for revision, pods in subjects("1.30"):
        for _ in range(PODS):
            pod = mutated(dice.choice(pods), dice)
            original = copy.deepcopy(pod)
            first = answer(revision, pod)
            assert pod == original, "the given pod is not changed"
            expected = copy.deepcopy(first)
            if isinstance(first, Injected):
                spoil(first.pod)
                spoil(first.patch)
            spoil(pod)
            assert answer(revision, original) == expected

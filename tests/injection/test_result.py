from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from injector.injection.result import Injected, RequestFacts, Skipped


def test_a_request_that_says_nothing_has_no_namespace_no_pairs_and_no_known_metadata() -> None:
    facts = RequestFacts()
    assert (facts.namespace, facts.proxy_envs, facts.namespace_meta) == ("", {}, None)


def test_the_pairs_of_one_request_are_not_those_of_another() -> None:
    assert RequestFacts().proxy_envs is not RequestFacts().proxy_envs


def test_results_warn_of_nothing_unless_told() -> None:
    assert Injected.of(pod={}, patch=[], templates=("sidecar",)).warnings == ()
    assert Skipped(reason="policy_disabled", detail="the policy is disabled").warnings == ()


@pytest.mark.parametrize("result", [RequestFacts(), Injected.of({}, [], ()), Skipped("reason", "detail")])
def test_results_are_frozen(result: RequestFacts | Injected | Skipped) -> None:
    name = next(iter(type(result).__slots__))
    with pytest.raises(FrozenInstanceError):
        setattr(result, name, "changed")

"""What is injected and uninjected is what it was, for every input of the corpus and in every minor."""

from __future__ import annotations

import pytest

from tests.conformance import corpus, undone

pytestmark = pytest.mark.needs("corpus")

CASES = [case for minor in corpus.MINORS for case in corpus.cases(minor) if case.kube_inject and case.expected]


def name(case: corpus.Case) -> str:
    return f"{case.minor}-{case.name}"


@pytest.mark.parametrize("case", CASES, ids=name)
def test_what_is_injected_and_uninjected_is_what_it_was(case: corpus.Case) -> None:
    fault = undone.fault(case)

    assert bool(fault) == bool(undone.lost(case)), f"{undone.lost(case)}\n{fault}"

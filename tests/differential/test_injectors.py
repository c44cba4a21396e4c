"""Pods that Istio's own webhooks were asked about: what we make of each is what they made of it, but for differences with a reason."""

from __future__ import annotations

import pytest

from tests.differential.injectors import Case, alike, cases, ours, recorded

named = pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case.minor} {case.name}")


@named
def test_a_pod_is_injected_as_istio_injects_it(case: Case) -> None:
    istios, mine = recorded()[case.minor][case.name], ours(case.plane, case.pod)

    if case.differs:
        assert not alike(istios, mine), "the difference is gone: remove `differs`"
    else:
        assert alike(istios, mine), f"Istio: {istios}\nours:  {mine}"

"""Fields that an injection does not change stay exactly as they were, also when the cache answers (T26).

``KEPT_PODS`` is how many pods each revision is tried with; with more than a sample, every control plane is.
"""

from __future__ import annotations

import random

import pytest

from injector.istio.revision import Revision
from tests import controlplanes
from tests.handlers import handler_of
from tests.property import kept
from tests.property.subjects import replica
from tests.revisions.fakes import embedded
from tests.sizes import sized

SAMPLE = sized(6, 12)
PODS = sized(6, 12, "KEPT_PODS")
MINORS = controlplanes.ALL_MINORS if PODS > SAMPLE else ("1.5", "1.8", "1.14", "1.24", "1.30")


def faults_of(revision: Revision, seed: str, pods: int) -> list[str]:
    """The faults of so many pods, each asked for three times, so that the cache answers too."""
    dice, handler = random.Random(seed), handler_of(revision)  # noqa: S311 -- nothing secret
    faults = []
    for number in range(pods):
        pod, places = kept.sown(replica(f"web-{number}"), dice)
        assert len(places) > 1
        for _ in range(3):
            faults += kept.faults(handler, f"/inject/{revision.name}", pod, places)
    assert handler.cache.hits == (2 * pods if revision.hermetic else 0)
    return faults


@pytest.mark.parametrize("name", controlplanes.parameters(MINORS))
def test_what_nobody_knows_stays_as_it_was(name: str) -> None:
    assert faults_of(controlplanes.revision_of(name), name, PODS) == []


@pytest.mark.parametrize("name", ["stable", "canary"])
def test_what_nobody_knows_stays_with_the_embedded_revisions(name: str) -> None:
    assert faults_of(embedded(name), name, PODS) == []

"""Inputs made by a seed: what we make of each is what Go made of it, but for what ``comparisons`` excuses, with the reason."""

from __future__ import annotations

from functools import cache

import pytest

from tests.differential.comparisons import COMPARISONS, REFUSED, VARIES
from tests.differential.golang import Question
from tests.differential.recordings import COUNTS, SEED, digest, fingerprint, recorded

AGAIN = "the inputs are others than those that Go answered: python -m tests.differential.recordings, where Go is"
EXCUSED_AT_MOST = 0.02
names = pytest.mark.parametrize("name", COMPARISONS)


@cache
def questions(name: str) -> list[Question]:
    """The recorded inputs."""
    return COMPARISONS[name].questions(SEED, COUNTS[name])


@names
def test_the_inputs_are_those_that_go_answered(name: str) -> None:
    assert len(recorded(name).digests) == COUNTS[name]
    assert fingerprint(questions(name)) == recorded(name).inputs, AGAIN


@names
def test_go_made_something_of_many_and_refused_some(name: str) -> None:
    digests = recorded(name).digests

    assert len(set(digests)) > len(digests) / 4
    if not COMPARISONS[name].words:
        assert 0.05 < digests.count(digest(REFUSED)) / len(digests) < 0.7


@names
def test_our_answers_are_gos(name: str) -> None:
    comparison, recording = COMPARISONS[name], recorded(name)
    wrong, excused = [], 0
    for number, (question, wanted) in enumerate(zip(questions(name), recording.digests, strict=True)):
        ours = comparison.ours(question)
        if digest(ours) == wanted or wanted == digest(VARIES):
            continue
        if comparison.excused(question):
            excused += 1
            continue
        gos = recording.answers[number] if number < len(recording.answers) else "another"
        wrong.append(f"{question}\n  Go:   {gos}\n  ours: {ours}")

    assert wrong == []
    assert excused < EXCUSED_AT_MOST * len(recording.digests)

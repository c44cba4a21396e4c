"""Pods that Istio's own webhooks were asked about: what we make of each is what they made of it, but for differences with a reason."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache

import pytest

from injector.istio.behaviours import parse_minor
from tests.differential.injectorcases import Recording, differs, questions, recordings
from tests.differential.injectors import Answer, Case, ControlPlane, alike, difference, excuse, ours

ANSWERS = 2_500
MINORS = 12
EXCUSED_AT_MOST = 0.02
AGAIN = "record these cases of injectors/*.yaml with a running istiod: scripts/reliability recording"
RANDOM = "random "
"""The names of random pods begin so; the others are in the files."""


@cache
def minors() -> list[str]:
    """Return the minors with recordings."""
    return sorted({recording.plane.minor for recording in recordings()}, key=parse_minor)


def named(recording: Recording) -> str:
    """Return the name of a test for a recording."""
    return f"{recording.plane.minor} {recording.name}"


@cache
def our_answers(number: int) -> list[Answer]:
    """Return our answers to the cases of a recording."""
    recording = recordings()[number]
    return [ours(recording.plane, case) for case, _ in recording.answers]


def fault(plane: ControlPlane, case: Case, answer: Answer, mine: Answer) -> str:
    """Return how our answer differs without a reason; empty if it does not."""
    reason = differs(plane.minor, case.name)
    if alike(answer, mine):
        return "the difference is gone: remove `differs`" if reason else ""
    reason = reason or (excuse(plane, case, answer, mine) if case.name.startswith(RANDOM) else "")
    return "" if reason else difference(answer, mine)


@pytest.mark.parametrize("number", range(len(recordings())), ids=lambda number: named(recordings()[number]))
def test_pods_are_injected_as_istio_injected_them(number: int) -> None:
    recording = recordings()[number]
    faults = {
        case.name: fault(recording.plane, case, answer, mine)
        for (case, answer), mine in zip(recording.answers, our_answers(number), strict=True)
    }

    assert {name: text for name, text in faults.items() if text} == {}


def test_many_answers_of_many_minors_are_recorded() -> None:
    answers = [answer for recording in recordings() for _, answer in recording.answers]

    assert len(answers) >= ANSWERS
    assert len(minors()) >= MINORS
    assert len([answer for answer in answers if "pod" in answer]) > len(answers) / 2


def test_few_random_pods_differ_for_a_reason() -> None:
    random = [
        alike(answer, mine)
        for number, recording in enumerate(recordings())
        for (case, answer), mine in zip(recording.answers, our_answers(number), strict=True)
        if case.name.startswith(RANDOM)
    ]

    assert random.count(False) < EXCUSED_AT_MOST * len(random)


@cache
def recorded_cases() -> dict[tuple[str, str], Case]:
    """Return the recorded cases of the files, by their control plane and name."""
    return {
        (key(recording.plane), case.name): case
        for recording in recordings()
        for case, _ in recording.answers
        if not case.name.startswith(RANDOM)
    }


def key(plane: ControlPlane) -> str:
    """Return a control plane as a text."""
    return json.dumps(asdict(plane), sort_keys=True)


def test_the_recorded_cases_are_those_of_the_files() -> None:
    in_files = {
        (key(question.plane), case.name): case
        for minor in minors()
        for question in questions(minor)
        for case in question.cases
    }
    others = {name for (plane, name), case in recorded_cases().items() if in_files.get((plane, name)) != case}

    assert others == set(), f"{AGAIN}, or remove the old answers"
    assert {name for _, name in in_files} - {name for _, name in recorded_cases()} == set(), AGAIN

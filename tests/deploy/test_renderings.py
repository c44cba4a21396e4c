"""The recorded renderings are Helm's answers about the chart as it is."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.deploy.rendering import REMEDY, WRITTEN, Answer, chart_checksum, recording, run, version


def test_the_recorded_renderings_are_those_of_the_chart() -> None:
    assert recording().chart == chart_checksum(), f"deploy changed after its renderings were recorded: {REMEDY}"


@pytest.mark.needs("helm")
def test_helm_answers_as_recorded() -> None:
    if version() != recording().helm:
        pytest.skip(f"Helm is not the version of the recorded renderings, {recording().helm}")
    recorded = {key: answer for key, answer in recording().answers.items() if not any(WRITTEN in part for part in key)}

    with ThreadPoolExecutor(2) as pool:
        answers = dict(zip(recorded, pool.map(lambda key: run(*key), recorded), strict=True))

    assert [key for key, answer in answers.items() if differs(answer, recorded[key])] == [], REMEDY


def differs(one: Answer, other: Answer) -> bool:
    """Compare two answers without the words of errors: those about the schema have no fixed order."""
    return (one.returncode, one.stdout) != (other.returncode, other.stdout)

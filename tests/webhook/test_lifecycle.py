from __future__ import annotations

import pytest

from injector.webhook.lifecycle import Lifecycle, Phase


@pytest.mark.parametrize(
    ("phase", "keeps", "answers"),
    [
        (Phase.STARTING, False, True),
        (Phase.SERVING, True, True),
        (Phase.DRAINING, False, True),
        (Phase.CLOSING, False, False),
    ],
)
def test_each_phase_says_what_happens_to_connections_and_requests(phase: Phase, keeps: bool, answers: bool) -> None:
    lifecycle = Lifecycle()

    lifecycle.enter(phase)

    assert (lifecycle.phase, lifecycle.keeps_connections, lifecycle.answers) == (phase, keeps, answers)


def test_a_server_starts_unready() -> None:
    assert Lifecycle().phase is Phase.STARTING

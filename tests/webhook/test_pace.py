from __future__ import annotations

import pytest

from injector.errors import PausedError
from injector.webhook.pace import (
    ASIDE,
    FIRST_PAUSE,
    LONGEST_ASIDE,
    LONGEST_PAUSE,
    NAMESPACES,
    SLOW,
    TRIES,
    Pace,
)
from tests.revisions.fakes import fake_revision

REVISION = fake_revision("1-24")


def paused(pace: Pace, namespace: str, now: float) -> bool:
    try:
        pace.check(REVISION, namespace, now)
    except PausedError:
        return True
    return False


def test_a_slow_injection_puts_a_revision_aside_for_a_while_and_longer_each_time_that_it_held_up_the_loop() -> None:
    pace, now, lasted = Pace("f00d"), 0.0, []
    for _ in range(8):
        pace.took(SLOW, now)
        begun = now
        while pace.aside(now):
            now += ASIDE
        lasted.append(now - begun)

    assert lasted == [60, 120, 240, 480, 960, 1920, LONGEST_ASIDE, LONGEST_ASIDE]


def test_a_slow_injection_aside_lasts_no_longer_than_the_first() -> None:
    pace = Pace("f00d")
    pace.took(SLOW, 0.0)
    pace.took(SLOW, 1.0)

    assert (pace.aside(ASIDE), pace.aside(ASIDE + 1.0)) == (True, False)


def test_a_revision_stays_aside_while_anything_of_it_is_under_way_there() -> None:
    pace = Pace("f00d")
    pace.jobs += 1
    assert pace.aside(1e9)
    pace.done()

    assert not pace.aside(1e9)


def test_who_spent_the_time_of_a_template_in_vain_often_enough_in_a_row_is_paused() -> None:
    pace = Pace("f00d")
    seen = []
    for _ in range(TRIES):
        seen.append(paused(pace, "shop", 0.0))
        pace.spent("shop", 0.0)

    assert seen == [False] * TRIES
    assert paused(pace, "shop", 0.0)
    assert not paused(pace, "another", 0.0)


def test_an_injection_in_between_begins_the_count_anew() -> None:
    pace = Pace("f00d")
    for _ in range(TRIES):
        pace.spent("shop", 0.0)
        pace.injected("shop")

    assert not paused(pace, "shop", 0.0)


def test_after_a_pause_one_is_tried_and_where_that_fails_the_next_pause_is_twice_as_long_up_to_a_bound() -> None:
    pace, now, pauses = Pace("f00d"), 0.0, []
    for _ in range(TRIES):
        pace.spent("shop", now)
    for _ in range(8):
        begun = now
        while paused(pace, "shop", now):
            now += FIRST_PAUSE
        pauses.append(now - begun)
        pace.begin(REVISION, "shop", now)
        assert paused(pace, "shop", now)
        pace.spent("shop", now)

    assert pauses == [1, 2, 4, 8, 16, 32, LONGEST_PAUSE, LONGEST_PAUSE]


def test_a_try_that_succeeds_ends_the_pause() -> None:
    pace = Pace("f00d")
    for _ in range(TRIES):
        pace.spent("shop", 0.0)
    pace.begin(REVISION, "shop", FIRST_PAUSE)
    pace.injected("shop")

    assert not paused(pace, "shop", FIRST_PAUSE)


def test_the_message_says_which_revision_for_how_long_and_what_to_do_and_nothing_of_the_pod() -> None:
    pace = Pace("f00d")
    for _ in range(TRIES):
        pace.spent("<shop>", 0.0)

    with pytest.raises(PausedError) as caught:
        pace.begin(REVISION, "<shop>", 0.0)

    assert "shop" not in str(caught.value)
    assert str(caught.value).startswith("revision 1-24: its templates took too long 3 times in a row")
    assert "the next try is in 1 s; correct the template" in str(caught.value)


def test_namespaces_by_the_thousand_are_not_all_remembered() -> None:
    pace = Pace("f00d")
    for number in range(4 * NAMESPACES):
        pace.spent(f"n{number}", 0.0)

    assert len(pace._pauses) == NAMESPACES

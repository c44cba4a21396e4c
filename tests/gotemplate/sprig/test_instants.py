from __future__ import annotations

import pytest

from injector.gotemplate.sprig.gotime import (
    DAY,
    SECOND,
    UTC_ZONE,
    FixedZone,
    Instant,
    Offset,
    days_in,
    is_leap,
    location,
    seconds_of,
)

BEFORE_SUMMER_TIME = 1_711_846_799
FOUR_HUNDRED_YEARS = 146_097 * DAY


def test_a_zone_of_the_database_knows_its_summer_time() -> None:
    berlin = location("Europe/Berlin")

    assert berlin.at(BEFORE_SUMMER_TIME) == Offset("CET", 3600)
    assert berlin.at(BEFORE_SUMMER_TIME + 1) == Offset("CEST", 7200)


def test_its_rules_go_on_beyond_the_year_9999() -> None:
    berlin = location("Europe/Berlin")

    assert berlin.at(BEFORE_SUMMER_TIME + 40 * FOUR_HUNDRED_YEARS) == Offset("CET", 3600)
    assert berlin.at(BEFORE_SUMMER_TIME + 40 * FOUR_HUNDRED_YEARS + 1) == Offset("CEST", 7200)


def test_before_the_year_1_it_has_its_local_mean_time() -> None:
    assert location("America/New_York").at(-(2**60)) == Offset("LMT", -17_762)


@pytest.mark.parametrize("name", ["", "UTC", "Local", "Nowhere/None", "../UTC", "/etc/localtime", "Europe", "a\0b"])
def test_what_is_no_zone_is_utc(name: str) -> None:
    assert location(name) is UTC_ZONE


def test_a_date_is_that_of_its_zone() -> None:
    kathmandu = FixedZone(Offset("", 20_700))
    shown = Instant.at(-SECOND, UTC_ZONE).shown_in(kathmandu).calendar()

    assert shown == (1970, 1, 1, 5, 44, 59, 3, 1)
    assert Instant.at(-SECOND, UTC_ZONE).calendar() == (1969, 12, 31, 23, 59, 59, 2, 365)


# What Go 1.26 answers.
@pytest.mark.parametrize(
    ("seconds", "date"),
    [
        (2**62, (146_138_514_283, 6, 19)),
        (-(2**40), (-32_873, 11, 12)),
        (2**63 - 1, (292_277_026_596, 12, 4)),
        (-(2**63), (292_277_026_596, 12, 4)),
    ],
)
def test_years_go_as_far_as_seconds_do(seconds: int, date: tuple[int, int, int]) -> None:
    assert Instant.at(seconds * SECOND, UTC_ZONE).calendar()[:3] == date


def test_a_moment_moves_and_says_how_far() -> None:
    begun = Instant.at(5 * SECOND, UTC_ZONE)
    later = begun.moved(-5_000_000_001)

    assert (later.unix, later.nanoseconds, later.unix_nanoseconds) == (-1, 999_999_999, -1)
    assert (later.since(begun), begun.since(later)) == (-5_000_000_001, 5_000_000_001)


def test_what_is_between_moments_ends_where_a_duration_does() -> None:
    early, late = Instant.at(-(2**40) * SECOND, UTC_ZONE), Instant.at(2**40 * SECOND, UTC_ZONE)

    assert (late.since(early), early.since(late)) == (2**63 - 1, -(2**63))


@pytest.mark.parametrize(
    ("year", "leaps"), [(2024, True), (2023, False), (1900, False), (2000, True), (0, True), (-4, True)]
)
def test_every_fourth_year_leaps_but_for_most_hundredth(year: int, leaps: bool) -> None:
    assert (is_leap(year), days_in(2, year)) == (leaps, 29 if leaps else 28)


@pytest.mark.parametrize("year", [-401, 0, 1, 1969, 1970, 2024, 9999, 12_345])
def test_a_date_made_seconds_reads_as_that_date(year: int) -> None:
    assert Instant.at(seconds_of(year, 2, 28) * SECOND, UTC_ZONE).calendar()[:3] == (year, 2, 28)

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from injector.gotemplate.sprig.gotime import (
    SECOND,
    UTC_ZONE,
    FixedZone,
    Instant,
    Offset,
    chunks,
    format_time,
    location,
    seconds_of,
)

if TYPE_CHECKING:
    from injector.gotemplate.sprig.gotime import Zone

MOMENT = (seconds_of(2024, 3, 7) + 15 * 3600 + 4 * 60 + 5) * SECOND + 120_045_600
INSTANT = Instant.at(MOMENT, UTC_ZONE)


# What Go 1.26 answers.
@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("Jan 01 2006", "Mar 03 2024"),
        ("January Janet Jan_2", "March Janet Mar 7"),
        ("Monday Mon Month", "Thursday Thu Month"),
        ("_2006 __2006", "_2024  67024"),
        ("1 2 3 4 5 01 02 03 04 05 06", "3 7 3 4 5 03 07 03 04 05 24"),
        ("15:04PM 3pm", "15:04PM 3pm"),
        ("002 __2 _2", "067  67  7"),
        (".0 .000 ,000000000 .0000000000", ".1 .120 ,120045600 .120045600"),
        (".9 .99 .999999 ,999999999999 .99x .991", ".1 .12 .120045 ,1200456 .12x .993"),
        ("20060102150405", "20240307150405"),
        ("-07 -0700 -07:00 -070000 -07:00:00 -07:0", "+00 +0000 +00:00 +000000 +00:00:00 +00:0"),
        ("Z07 Z0700 Z07:00 Z070000 Z07:00:00 MST", "Z Z Z Z Z UTC"),
        ("é", "é"),
        ("", ""),
    ],
)
def test_a_moment_is_shown_as_go_shows_it(layout: str, expected: str) -> None:
    assert format_time(INSTANT, layout) == expected


# What Go 1.26 answers.
@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        (FixedZone(Offset("", 20_700)), "+0545 +05 +0545 +05:45 +054500 +05:45:00"),
        (FixedZone(Offset("PST", 0)), "PST Z Z Z Z Z"),
        (FixedZone(Offset("", -30)), "+0000 +00 +0000 +00:00 +0000-30 +00:00:-30"),
        (FixedZone(Offset("", -90)), "-0001 -00 -0001 -00:01 -000130 -00:01:30"),
        (location("America/Sao_Paulo"), "-03 -03 -0300 -03:00 -030000 -03:00:00"),
    ],
)
def test_a_zone_is_shown_by_its_name_and_its_offset(zone: Zone, expected: str) -> None:
    assert format_time(INSTANT.shown_in(zone), "MST Z07 Z0700 Z07:00 Z070000 Z07:00:00") == expected


@pytest.mark.parametrize(
    ("year", "shown"), [(0, "0000 00"), (-5, "-0005 05"), (12_345, "12345 45"), (-12_345, "-12345 45")]
)
def test_a_year_has_four_digits_or_two_and_its_sign_before(year: int, shown: str) -> None:
    assert format_time(Instant.at(seconds_of(year, 6, 1) * SECOND, UTC_ZONE), "2006 06") == shown


def test_a_fraction_of_no_digits_leaves_its_point() -> None:
    assert format_time(INSTANT, "." + "0" * 4096) == "."


def test_literals_and_parts_make_up_the_layout() -> None:
    layout = "at 15:04:05.000, _2006 Jan_2é-07:00"

    assert "".join(literal + part for literal, part in chunks(layout)) == layout
    assert [part for _, part in chunks(layout)] == ["15", "04", "05", ".000", "2006", "Jan", "_2", "-07:00", ""]

from __future__ import annotations

import re

import pytest

from injector.gotemplate.sprig.gotime import parse_duration
from tests.gotemplate.recorded import differences, sprig_cases

FUNCTIONS = (
    "duration",
    "durationRound",
)


def test_every_function_answers_as_gos_does() -> None:
    cases = sprig_cases(FUNCTIONS)
    assert cases
    assert differences(cases, "sprig") == []


# In the square of their number, digits would take half an hour: an annotation may have as many.
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("9" * 250_000, "invalid"),
        ("." + "9" * 250_000, "missing unit in"),
        ("9" * 125_000 + "." + "9" * 125_000, "invalid"),
        ("1m" * 125_000 + "9", "missing unit in"),
    ],
)
def test_digits_without_a_unit_are_refused_in_the_time_of_their_length(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=f"time: {fault} duration"):
        parse_duration(text)


# What Go 1.26 answers.
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", 'invalid duration ""'),
        ("-", 'invalid duration "-"'),
        (".s", 'invalid duration ".s"'),
        ("--1s", 'invalid duration "--1s"'),
        ("1", 'missing unit in duration "1"'),
        ("1h9", 'missing unit in duration "1h9"'),
        ("1d", 'unknown unit "d" in duration "1d"'),
        ("1h 2m", 'unknown unit "h " in duration "1h 2m"'),
        ("é", 'invalid duration "\\xc3\\xa9"'),
        ('"1h"', 'invalid duration "\\"1h\\""'),
        ("2562048h", 'invalid duration "2562048h"'),
        ("9223372036854775808ns", 'invalid duration "9223372036854775808ns"'),
    ],
)
def test_what_is_no_duration_is_told_in_gos_words(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"time: {fault}")):
        parse_duration(text)


# What Go 1.26 answers.
@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("-9223372036854775808ns", -(2**63)),
        ("0.3333333333333333333h", 1_200_000_000_000),
        ("1.00000000000000000000000000000000000001s", 1_000_000_000),
        ("0." + "0" * 400 + "1h", 0),
        ("0.9223372036854775807h", 3_320_413_933_267),
        ("1.s", 1_000_000_000),
        (".5m", 30_000_000_000),
        ("+0", 0),
    ],
)
def test_a_fraction_is_what_a_float64_makes_of_it(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds

from __future__ import annotations

import pytest

from injector.errors import UsageError
from injector.flagvalues import key_values, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("5s", 5.0),
        ("1m30s", 90.0),
        ("1.5h", 5400.0),
        ("250ms", 0.25),
        (".5s", 0.5),
        ("10us", 1e-5),
        ("0s", 0.0),
    ],
)
def test_durations_are_gos(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "5", "s", "5 s", "5s ", "-5s", "5d", "1m30", "NaN", "\N{ARABIC-INDIC DIGIT FIVE}s"]
)
def test_other_texts_are_no_durations(text: str) -> None:
    with pytest.raises(UsageError, match="is no duration; write it as"):
        parse_duration(text)


def test_the_last_of_several_values_of_a_name_wins() -> None:
    assert key_values(("A=1", "B=x=y", "A=2", "C="), flag="--set-env") == {"A": "2", "B": "x=y", "C": ""}


@pytest.mark.parametrize("pair", ["A", "=b", "A B=c", "1A=b", ""])
def test_what_is_no_pair_is_refused(pair: str) -> None:
    with pytest.raises(UsageError, match=r"--set-env: .* is not NAME=VALUE"):
        key_values((pair,), flag="--set-env")


# Each place in it was a begin to look from, for half an hour; a URL has some thousand digits at most.
def test_digits_without_a_unit_are_refused_in_the_time_of_their_length() -> None:
    with pytest.raises(UsageError, match="is no duration"):
        parse_duration("9" * 250_000)

from __future__ import annotations

import pytest

from injector.gotemplate.sprig.durations import parse_duration
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
    "text", ["9" * 250_000, "." + "9" * 250_000, "9" * 125_000 + "." + "9" * 125_000, "1h" * 125_000 + "9"]
)
def test_digits_without_a_unit_are_refused_in_the_time_of_their_length(text: str) -> None:
    with pytest.raises(ValueError, match="invalid duration"):
        parse_duration(text)

"""Times in objects are held against Go in test_typed, dates of YAML in test_yamlscalar."""

from __future__ import annotations

import pytest

from injector.errors import ManifestError
from injector.golang.time import canonical_time, is_calendar


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2024-01-02T03:04:05Z", "2024-01-02T03:04:05Z"),
        ("2024-03-01T00:30:00.999+01:00", "2024-02-29T23:30:00Z"),
        ("9999-12-31T23:59:59-01:00", "10000-01-01T00:59:59Z"),
        ("0000-01-01T00:00:00+01:00", "-0001-12-31T23:00:00Z"),
        ("0001-01-01T00:00:00Z", None),
    ],
)
def test_a_time_is_written_in_utc_and_whole_seconds(text: str, written: str | None) -> None:
    assert canonical_time(text) == written


@pytest.mark.parametrize("text", ["", "2024-01-02", "2023-02-29T00:00:00Z", "2024-01-02T03:04:05"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match="parsing time"):
        canonical_time(text)


def test_a_calendar_has_leap_years() -> None:
    assert is_calendar({"year": 2000, "month": 2, "day": 29})
    assert not is_calendar({"year": 1900, "month": 2, "day": 29})
    assert not is_calendar({"year": 2024, "month": 0, "day": 1})

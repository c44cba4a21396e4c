from __future__ import annotations

import click
import pytest

from injector.cli.flags import Duration


@pytest.mark.parametrize(("value", "expected"), [("0", 0.0), ("1.5h", 5400.0), (7.0, 7.0)])
def test_a_duration_is_read_as_gos_and_one_that_is_read_stays(value: str | float, expected: float) -> None:
    assert Duration().convert(value, None, None) == expected


def test_what_is_no_duration_is_a_bad_parameter() -> None:
    with pytest.raises(click.BadParameter, match="'5' is no duration; write it as 500ms, 5s or 1m30s"):
        Duration().convert("5", None, None)

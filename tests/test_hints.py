"""Names in messages: suggestions, and lists that are cut."""

from __future__ import annotations

from injector.hints import count_of, did_you_mean, fitting_names
from tests.cases import cases

NAMES = ("1-24", "1-30", "default", "prod")


@cases("name", "expected")
def test_the_most_similar_name_is_suggested(name: str, expected: str | None) -> None:
    assert did_you_mean(name, NAMES) == (f" (did you mean {expected}?)" if expected else "")


def test_one_thing_is_counted_in_the_singular() -> None:
    assert [count_of(count, "workload") for count in (0, 1, 2)] == ["0 workloads", "1 workload", "2 workloads"]


def test_nothing_is_suggested_if_no_name_is_served() -> None:
    assert did_you_mean("prod", ()) == ""


def test_only_as_much_of_a_name_is_compared_as_fits_into_a_label() -> None:
    longest = "a" * 63

    assert did_you_mean(longest + "z" * 100_000, (longest,)) == f" (did you mean {longest}?)"


def test_the_number_of_compared_names_is_limited() -> None:
    names = [f"a{number:03}" for number in range(100)]

    assert did_you_mean("prod", [*names, "prod"]) == ""
    assert did_you_mean("prod", [*names[1:], "prod"]) == " (did you mean prod?)"


@cases("names", "room", "expected")
def test_names_are_listed_as_far_as_there_is_room(names: tuple[str, ...], room: int, expected: str) -> None:
    assert fitting_names(names, room=room) == expected

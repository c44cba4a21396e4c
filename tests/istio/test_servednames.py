from __future__ import annotations

import pytest

from injector.istio.servednames import MAX_VALUE, listed, meant, nearest

NAMES = ("1-24", "1-30", "default", "prod")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("prdo", "prod"),
        ("PROD", "prod"),
        ("1-25", "1-24"),
        ("defualt", "default"),
        ("zzz", None),
        ("", None),
        ("<script>", None),
    ],
)
def test_the_nearest_name_is_the_one_that_was_meant(name: str, expected: str | None) -> None:
    assert nearest(name, NAMES) == expected
    assert meant(name, NAMES) == (f" (did you mean {expected}?)" if expected else "")


def test_where_nothing_is_served_nothing_was_meant() -> None:
    assert (nearest("prod", ()), meant("prod", ())) == (None, "")


def test_a_name_longer_than_a_label_holds_is_compared_as_far_as_one_does() -> None:
    longest = "a" * MAX_VALUE

    assert nearest(longest + "z" * 100_000, (longest,)) == longest


def test_of_many_names_only_some_are_compared() -> None:
    names = [f"a{number:03}" for number in range(100)]

    assert (nearest("prod", [*names, "prod"]), nearest("prod", [*names[1:], "prod"])) == (None, "prod")


@pytest.mark.parametrize(
    ("names", "room", "expected"),
    [
        ((), 20, "none"),
        (("b", "a"), 20, "a, b"),
        (NAMES, 27, "1-24, 1-30, default, prod"),
        (NAMES, 24, "1-24, 1-30 and 2 more"),
        (NAMES, 15, "1-24 and 3 more"),
        (NAMES, 14, "4 names"),
        (NAMES, -100, "4 names"),
    ],
)
def test_names_are_listed_as_far_as_there_is_room(names: tuple[str, ...], room: int, expected: str) -> None:
    assert listed(names, room=room) == expected

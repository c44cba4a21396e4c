from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from injector.istio.remembered import Remembered


class Making:
    """Makes a list of a text, and counts how often it did."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __call__(self, text: str) -> list[str]:
        self.made.append(text)
        return [text]


def test_a_text_is_made_something_of_once() -> None:
    memory, make = Remembered[list[str]](), Making()

    assert memory.get("a", make) is memory.get("a", make)
    assert memory.get("b", make) == ["b"]
    assert make.made == ["a", "b"]


def test_what_was_asked_for_last_stays() -> None:
    memory, make = Remembered[list[str]](entries=2), Making()

    for text in ("a", "b", "a", "c", "a", "b"):
        memory.get(text, make)

    assert make.made == ["a", "b", "c", "b"]
    assert len(memory) == 2


def test_long_texts_take_the_room_of_many() -> None:
    memory, make = Remembered[list[str]](characters=10), Making()

    for text in ("aaaa", "bbbb", "cccc"):
        memory.get(text, make)
    assert len(memory) == 2

    memory.get("d" * 11, make)
    assert len(memory) == 2, "what never fits drives nothing out"


def test_an_error_is_raised_each_time() -> None:
    memory = Remembered[int]()

    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            memory.get("x", int)
    assert len(memory) == 0


def test_threads_share_it_and_it_keeps_its_bounds() -> None:
    memory = Remembered[str](entries=8, characters=40)
    texts = [str(number % 50) * 4 for number in range(4000)]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: memory.get(text, str.upper), texts))

    assert found == [text.upper() for text in texts]
    assert len(memory) <= 8

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.fuzz.draws import DIGITS, Draws


def test_the_input_decides() -> None:
    draws = Draws(b"\x02\x01\x00\x80abc")

    assert draws.choice("wxyz") == "y"
    assert draws.randrange(4) == 1
    assert draws.random() == 0.5
    assert draws.randbytes(2) == b"ab"
    assert draws.rest() == b"c"


def test_an_input_that_has_ended_decides_for_the_first() -> None:
    draws = Draws(b"")

    assert (draws.ended(), draws.choice("ab"), draws.randrange(1_000), draws.random()) == (True, "a", 0, 0.0)


def test_the_same_input_decides_alike() -> None:
    first, again = (Draws(bytes(range(200))) for _ in range(2))

    assert [first.randrange(50) for _ in range(90)] == [again.randrange(50) for _ in range(90)]


def test_text_is_utf8_with_other_bytes_as_surrogates_and_one_that_is_a_long_number() -> None:
    assert Draws(b"\xc3\xa9\xff\x07").whole_text() == f"é\udcff{DIGITS}"


@pytest.mark.parametrize("end", [1, 2, 3, 7, 128, 255, 256, 1_000])
def test_what_is_drawn_of_a_range_is_what_random_draws_by_the_same_bits(end: int) -> None:
    drawn, expected = Draws(bytes(range(256))), OfRandom(bytes(range(256)))

    assert [drawn.randrange(end) for _ in range(300)] == [expected.randrange(end) for _ in range(300)]
    assert drawn.rest() == expected.rest()


class OfRandom(Random):
    """``random``'s own drawing, of the bits that ``Draws`` has."""

    def __init__(self, data: bytes) -> None:
        self._draws = Draws(data)
        self.rest = self._draws.rest
        super().__init__(0)

    def seed(self, a: Any = None, version: int = 2) -> None:
        """There is nothing to seed."""

    def getrandbits(self, k: int, /) -> int:
        return self._draws.getrandbits(k)

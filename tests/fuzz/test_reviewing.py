from __future__ import annotations

from random import Random

from tests.fuzz.draws import Draws
from tests.fuzz.reviewing import mutated_review


def _reviews(count: int) -> list[bytes]:
    random = Random(1)  # noqa: S311 -- nothing secret
    return [mutated_review(Draws(random.randbytes(200))) for _ in range(count)]


def test_the_same_input_makes_the_same_review_whatever_came_before() -> None:
    assert _reviews(100) == _reviews(100)


def test_inputs_make_reviews_of_all_kinds() -> None:
    assert len(set(_reviews(200))) > 150

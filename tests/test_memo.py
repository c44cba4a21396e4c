"""Bounded memos."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from injector.memo import Memo


class Computing:
    """Makes a list of a text, and notes of which ones it did."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, text: str) -> list[str]:
        self.texts.append(text)
        return [text]


def test_a_result_is_computed_once() -> None:
    memo, compute = Memo[str, list[str]](8, 100, len), Computing()

    assert memo.get("a", compute) is memo.get("a", compute)
    assert memo.get("b", compute) == ["b"]
    assert (compute.texts, memo.hits) == (["a", "b"], 1)


def test_a_result_in_use_stays_while_others_come_and_go() -> None:
    memo, compute = Memo[str, list[str]](4, 100, len), Computing()

    for text in ("a", "b", "a", "c", "a", "d", "a", "e", "a", "b"):
        memo.get(text, compute)

    assert compute.texts == ["a", "b", "c", "d", "e", "b"]
    assert len(memo) <= 4


def test_the_keys_are_no_larger_than_agreed() -> None:
    memo, compute = Memo[str, list[str]](100, 20, len), Computing()

    for number in range(50):
        memo.get(f"{number:04}", compute)
    assert 2 <= len(memo) <= 5

    held = len(memo)
    memo.get("d" * 11, compute)
    assert (len(memo), memo.find("d" * 11)) == (held, None), "a key that does not fit drives nothing out"


def test_an_error_is_raised_each_time() -> None:
    memo = Memo[str, int](8, 100, len)

    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            memo.get("x", int)
    assert len(memo) == 0


def test_threads_share_a_memo_within_its_bounds() -> None:
    memo = Memo[str, str](8, 40, len)
    texts = [str(number % 50) * 4 for number in range(4000)]

    with ThreadPoolExecutor(8) as pool:
        texts_found = list(pool.map(lambda text: memo.get(text, str.upper), texts))

    assert texts_found == [text.upper() for text in texts]
    assert len(memo) <= 8 + 8, "threads may each add one before they see that it is full"

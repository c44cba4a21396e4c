from __future__ import annotations

import random

import pytest

from injector.webhook.distinct import ERROR, REGISTERS, Distinct


def counted(*hashes: int) -> Distinct:
    """What counted these."""
    found = Distinct()
    for each in hashes:
        found.add(each)
    return found


def hashes(count: int, seed: int = 1) -> list[int]:
    """Hashes as Python makes them: 64 bits with a sign."""
    dice = random.Random(seed)  # noqa: S311 -- no secret
    return [dice.getrandbits(64) - (1 << 63) for _ in range(count)]


def test_nothing_is_counted_as_none() -> None:
    assert Distinct().count() == 0


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_a_handful_is_counted_to_within_one(count: int) -> None:
    assert all(abs(counted(*hashes(count, seed)).count() - count) <= 1 for seed in range(20))


@pytest.mark.parametrize("count", [100, 1_000, 5_000, 50_000])
def test_many_are_counted_within_the_error(count: int) -> None:
    found = [counted(*hashes(count, seed)).count() / count - 1 for seed in range(12)]

    # Of twelve that are spread as the error says, none is five of it off and their mean is within 1.5 of it.
    assert max(abs(each) for each in found) < 5 * ERROR
    assert abs(sum(found) / len(found)) < 1.5 * ERROR


def test_what_comes_again_is_not_counted_again() -> None:
    once = hashes(500)

    assert counted(*once, *once, *once).count() == counted(*once).count()


def test_merged_it_counts_what_either_saw() -> None:
    one, other = hashes(300, 1), hashes(300, 2)
    merged = counted(*one, *other[:100])

    merged.merge(counted(*other))

    assert merged.count() == counted(*one, *other).count()


def test_a_copy_goes_on_by_itself() -> None:
    first = counted(*hashes(50))
    copy = first.copy()

    copy.add(hashes(1, seed=9)[0])

    assert (first.count(), copy.count()) == (counted(*hashes(50)).count(), counted(*hashes(50), *hashes(1, 9)).count())


@pytest.mark.parametrize("extreme", [0, -1, 1 << 63, -(1 << 63), REGISTERS - 1])
def test_every_hash_has_a_place(extreme: int) -> None:
    assert counted(extreme).count() == 1

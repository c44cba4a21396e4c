from __future__ import annotations

import uuid
from collections import Counter
from random import Random

import pytest

from injector.gotemplate.sprig import randoms


def test_random_texts_have_their_length_and_alphabet() -> None:
    random = randoms.Randoms(Random(7))  # noqa: S311 -- a seed makes the test repeatable
    assert len(random.alpha(12)) == 12
    assert random.alpha(50).isalpha()
    assert random.numeric(50).isdigit()
    assert random.alpha_num(50).isalnum()
    assert sorted(random.shuffle("abcd")) == list("abcd")
    assert uuid.UUID(random.uuid()).version == 4


def test_every_character_of_an_alphabet_is_as_likely() -> None:
    random = randoms.Randoms(Random(7))  # noqa: S311 -- a seed makes the test repeatable
    counts = Counter(random.alpha_num(62_000))

    assert len(counts) == 62
    assert all(850 < count < 1150 for count in counts.values())
    assert len(random.ascii(1 << 20)) == 1 << 20


def test_expandenv_reads_only_the_given_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "of the process")
    assert randoms.Expander({"A": "1"}).expand("$A ${A} $SECRET ${B}$$") == "1 1  "

from __future__ import annotations

import uuid
from collections import Counter
from random import Random

import pytest

from injector.gotemplate import Func
from injector.gotemplate.sprig import strings


def random_functions() -> dict[str, Func]:
    return strings.RANDOM.bound(Random(7))  # noqa: S311 -- a seed makes the test repeatable


def test_random_texts_have_their_length_and_alphabet() -> None:
    random = random_functions()
    assert len(random["randAlpha"].call(12)) == 12
    assert random["randAlpha"].call(50).isalpha()
    assert random["randNumeric"].call(50).isdigit()
    assert random["randAlphaNum"].call(50).isalnum()
    assert sorted(random["shuffle"].call("abcd")) == list("abcd")
    assert uuid.UUID(random["uuidv4"].call()).version == 4


def test_every_character_of_an_alphabet_is_as_likely() -> None:
    random = random_functions()
    counts = Counter(random["randAlphaNum"].call(62_000))

    assert len(counts) == 62
    assert all(850 < count < 1150 for count in counts.values())
    assert len(random["randAscii"].call(1 << 20)) == 1 << 20


def test_expandenv_reads_only_the_given_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "of the process")
    assert strings.expandenv({"A": "1"}, "$A ${A} $SECRET ${B}$$") == "1 1  "

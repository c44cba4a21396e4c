"""Sprig's texts: case, sizes and random texts."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable

import pytest

from injector.gotemplate.errors import FuncError
from injector.gotemplate.sprig import strings

# What sprig 3.3.0 gives with Go 1.26.
UNICODE = [
    ("lower", "İ\u0391\u03a3\udcff", "i\u03b1\u03c3\ufffd"),
    ("upper", "ßŉᾳﬀé\udcff", "ßŉᾼﬀÉ\ufffd"),
    ("title", "ßa ǆ ᾳ\udcff é", "ßa ǅ ᾼ\ufffd É"),
    ("untitle", "İX\x1cÉ É\udcff", "iX\x1cÉ é\ufffd"),
    ("swapcase", "ß\u03a3\udcff é\x1fé", "ß\u03c3\ufffd É\x1fÉ"),
    ("trim", "\u1680\x1ca\x1f\u3000", "\x1ca\x1f"),
    ("nospace", "a \x1cb", "a\x1cb"),
    ("initials", "ab\x1ccd ef", "ae"),
]


@pytest.mark.parametrize(("name", "text", "expected"), UNICODE)
def test_case_and_white_space_are_gos_not_pythons(name: str, text: str, expected: str) -> None:
    assert getattr(strings, name)(text) == expected


@pytest.mark.parametrize(
    "grow",
    [
        lambda: strings.repeat(10**9, "x"),
        lambda: strings.indent(10**9, "x"),
        lambda: strings.replace("", "y" * 2000, "x" * 2000),
        lambda: strings.join("y" * 2000, ["x"] * 2000),
        lambda: strings.wrap_with(1, "y" * 2000, "x" * 2000),
    ],
)
def test_a_result_larger_than_any_output_is_refused_before_it_is_made(grow: Callable[[], str]) -> None:
    with pytest.raises(FuncError, match="too large"):
        grow()


def test_random_texts_have_their_length_and_alphabet() -> None:
    random = strings.FUNCTIONS
    assert len(random["randAlpha"].call(12)) == 12
    assert random["randAlpha"].call(50).isalpha()
    assert random["randNumeric"].call(50).isdigit()
    assert random["randAlphaNum"].call(50).isalnum()
    assert sorted(random["shuffle"].call("abcd")) == list("abcd")
    assert uuid.UUID(random["uuidv4"].call()).version == 4


def test_every_character_of_an_alphabet_is_as_likely() -> None:
    random = strings.FUNCTIONS
    counts = Counter(random["randAlphaNum"].call(62_000))

    assert len(counts) == 62
    assert all(750 < count < 1250 for count in counts.values())
    assert len(random["randAscii"].call(1 << 20)) == 1 << 20


def test_expandenv_reads_only_the_given_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "of the process")
    assert strings.expandenv({"A": "1"}, "$A ${A} $SECRET ${B}$$") == "1 1  "

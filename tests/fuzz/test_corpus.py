"""Each corpus is tried by its target, with no fuzzer: an input that was a bug once does not become one again.

Each corpus also reaches enough of its target: a fuzzer that does not finds nothing in it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import corpus
from tests.fuzz.__main__ import FLOOR, covered
from tests.fuzz.covered import share
from tests.fuzz.target import TARGETS, load

FEWEST = 50


@pytest.mark.parametrize("name", TARGETS)
def test_every_input_of_the_corpus_is_answered_and_they_reach_enough_branches(name: str, tmp_path: Path) -> None:
    target = load(name)
    inputs = corpus.read(name)

    taken = covered(name, corpus.unpacked(inputs, tmp_path / "inputs"), target.files(), FLOOR)

    assert share(taken.values()) >= FLOOR, taken
    assert len(inputs) >= FEWEST
    assert all(len(data) <= target.longest for data in inputs)


@pytest.mark.parametrize("name", TARGETS)
def test_a_corpus_is_kept_small_and_in_order(name: str) -> None:
    inputs = corpus.read(name)

    assert inputs == sorted(set(inputs), key=lambda data: (len(data), data))
    assert (corpus.FOLDER / f"{name}.txt").stat().st_size < corpus.LARGEST


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_names_modules_that_exist(name: str) -> None:
    files = load(name).files()

    assert files
    assert [file for file in files if not Path(file).is_file()] == []


def test_what_is_added_stands_beside_what_is_there_short_inputs_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "FOLDER", tmp_path)
    monkeypatch.setattr(corpus, "LARGEST", 40)
    corpus.keep("x", [b"known to be long"])

    corpus.add("x", [b"too long now", b"c", b"ab", b"known to be long"])

    assert corpus.read("x") == [b"c", b"ab", b"known to be long"]
    assert (tmp_path / "x.txt").stat().st_size < corpus.LARGEST

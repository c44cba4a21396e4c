from __future__ import annotations

import pytest

from injector.kube.yaml import load_yaml
from injector.kube.yaml.edit import with_entry, without_entry

TAGS = """\
# who follows whom
default: 1-24  # since May

canary:  # by weight
  1-24: 90
  # the new one
  1-30: 10
"prod": {1-24: 1}
# the end
"""


@pytest.mark.parametrize(
    ("key", "value", "old", "new"),
    [
        ("default", "1-30", "default: 1-24  # since May\n", "default: 1-30  # since May\n"),
        ("prod", "1-30", '"prod": {1-24: 1}\n', '"prod": 1-30\n'),
        ("prod", "{1-24: 1, 1-30: 2}", '"prod": {1-24: 1}\n', '"prod": {1-24: 1, 1-30: 2}\n'),
        (
            "canary",
            "1-30",
            "canary:  # by weight\n  1-24: 90\n  # the new one\n  1-30: 10\n",
            "canary: 1-30  # by weight\n",
        ),
        ("new", "1-30", "# the end\n", "# the end\nnew: 1-30\n"),
        ("on", '"1"', "# the end\n", '# the end\n"on": "1"\n'),
    ],
)
def test_one_entry_changes_and_all_else_stays(key: str, value: str, old: str, new: str) -> None:
    changed = with_entry(TAGS, key, value)

    assert changed == TAGS.replace(old, new)
    assert list(load_yaml(changed)) == list({**load_yaml(TAGS), key: value})


@pytest.mark.parametrize(
    ("key", "gone"),
    [
        ("default", "default: 1-24  # since May\n"),
        ("canary", "canary:  # by weight\n  1-24: 90\n  # the new one\n  1-30: 10\n"),
        ("prod", '"prod": {1-24: 1}\n'),
    ],
)
def test_an_entry_goes_with_its_lines(key: str, gone: str) -> None:
    assert without_entry(TAGS, key) == TAGS.replace(gone, "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "a: b\n"),
        ("# none yet", "# none yet\na: b\n"),
        ("x: y", "x: y\na: b\n"),
        ("  x: y\n", "  x: y\n  a: b\n"),
        ("---\nx: y\n", "---\nx: y\na: b\n"),
    ],
)
def test_a_first_entry_and_a_last_one_have_lines_of_their_own(text: str, expected: str) -> None:
    assert with_entry(text, "a", "b") == expected


def test_the_last_line_may_lack_its_end() -> None:
    assert without_entry("a: b\nx: y", "x") == "a: b\n"


def test_a_value_may_stand_on_the_line_below() -> None:
    assert with_entry("a:\n  b\nx: y\n", "a", "c") == "a: c\nx: y\n"


@pytest.mark.parametrize(
    "text",
    ["{a: b}\n", "- a\n", "a\n", "a: b\na: c\n", "? a\n: b\n", "a: [\n"],
)
def test_what_has_no_simple_place_is_given_up(text: str) -> None:
    assert with_entry(text, "a", "c") is None


@pytest.mark.parametrize("text", ["", "{a: b}\n", "--- {a: b}\n", "x: y\n", "a: b\na: c\n", "a: [\n"])
def test_what_has_no_lines_of_its_own_is_not_removed(text: str) -> None:
    assert without_entry(text, "a") is None

"""``injector template fmt``: the layout of a template, which keeps its meaning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from injector.authoring.formatting import format_go, format_jinja
from injector.gotemplate import ParseError
from injector.gotemplate.parser import parse_template
from injector.istio.jinja.engine import environment_of, parse_jinja
from tests.cases import cases
from tests.differential.injectorcases import own_templates
from tests.sizes import sized

CORPUS = sorted((Path(__file__).resolve().parents[1] / "gotemplate" / "corpus").glob("*.json"))


class AnyFunction:
    """All names are functions."""

    def __contains__(self, name: object) -> bool:
        return name not in {"break", "continue"}


@cases("text", "formatted")
def test_go_actions(text: str, formatted: str) -> None:
    assert format_go(text) == formatted
    assert format_go(formatted) == formatted


@cases("text", "formatted")
def test_jinja_actions(text: str, formatted: str) -> None:
    assert format_jinja(text) == formatted
    assert format_jinja(formatted) == formatted
    environment = environment_of({})
    assert parse_jinja(environment, "t", text) == parse_jinja(environment, "t", formatted)


def unchanged(text: str, left: str = "{{", right: str = "}}") -> bool:
    """Whether formatting changes a text; fail if it parses to something else after that, or is formatted again to something else."""
    try:
        after = format_go(text, (left, right))
    except ParseError:
        return True
    assert format_go(after, (left, right)) == after
    trees = []
    for source in (text, after):
        try:
            template = parse_template("t", source, functions=AnyFunction(), left=left, right=right)
            trees.append({name: str(tree.root) for name, tree in template.items()})
        except ParseError as error:
            trees.append({"error": error.reason})
    assert trees[0] == trees[1], (text, after)
    return after == text


def test_no_template_of_the_engines_own_tests_parses_to_something_else() -> None:
    texts = [
        (text, case.get("left") or "{{", case.get("right") or "}}")
        for path in CORPUS
        for case in json.loads(path.read_text())["cases"]
        if isinstance(text := case.get("template"), str)
    ]

    assert len(texts) > 1000
    assert sum(not unchanged(*texts_of) for texts_of in texts[:: sized(10, 1)]) > 20


@pytest.mark.parametrize("text", own_templates("1.31").values(), ids=own_templates("1.31"))
def test_no_template_of_the_recorded_cases_parses_to_something_else(text: str) -> None:
    unchanged(text)

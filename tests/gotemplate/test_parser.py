from __future__ import annotations

import pytest

from injector.gotemplate.errors import ParseError
from injector.gotemplate.parser import parse
from tests.gotemplate.recorded import cases

FUNCTIONS = frozenset({"print", "len", "index", "eq", "and"})


def _source(text: str) -> str:
    return str(parse("t", text, functions=FUNCTIONS)["t"].root)


@pytest.mark.parametrize(
    "text",
    [
        'a{{.x.y | print 1 "s"}}b',
        "{{if .a}}x{{else}}y{{end}}",
        "{{range $i, $v := .l}}{{$v.x}}{{break}}{{end}}",
        "{{with $x := (index .m 1)}}{{$x}}{{end}}",
        "{{(index .m `k`).x}}",
        '{{template "t" .}}',
    ],
)
def test_a_tree_prints_as_its_source(text: str) -> None:
    assert _source(text) == text


def test_parsing_what_a_tree_prints_gives_the_tree_again() -> None:
    checked = 0
    for case in cases("language"):
        if "left" in case or case.get("stage") == "parse":
            continue
        try:
            printed = {name: str(tree.root) for name, tree in parse("t", case["template"], functions=_Any()).items()}
        except ParseError:
            continue
        again = parse("t", printed["t"], functions=_Any())
        assert str(again["t"].root) == printed["t"]
        checked += 1
    assert checked > 1500


class _Any:
    """Every name is a function."""

    def __contains__(self, _name: object) -> bool:
        return True

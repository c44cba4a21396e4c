from __future__ import annotations

import pytest

from injector.gotemplate import nodes as n
from injector.gotemplate.nodes import complex_kinds, number_kinds, rune_of


def test_a_tree_of_space_alone_is_empty() -> None:
    space, text = n.TextNode(0, 1, " \n"), n.TextNode(0, 1, "x")
    assert n.Tree("t", "t", n.ListNode(0, 1, (space,)), "").is_empty()
    assert not n.Tree("t", "t", n.ListNode(0, 1, (space, text)), "").is_empty()


def test_a_chain_on_a_pipeline_keeps_its_parentheses() -> None:
    field = n.FieldNode(0, 1, ("m",))
    pipe = n.PipeNode(0, 1, is_assign=False, decl=(), cmds=(n.CommandNode(0, 1, (field,)),))
    assert str(n.ChainNode(0, 1, pipe, ("a", "b"))) == "(.m).a.b"


def test_a_number_is_of_every_kind_that_holds_it() -> None:
    assert number_kinds("5") == (5, 5, 5.0, None)
    assert number_kinds("-5") == (-5, None, -5.0, None)
    assert number_kinds("1.5") == (None, None, 1.5, None)
    assert complex_kinds("1+2i") == (None, None, None, 1 + 2j)


def test_an_integer_beyond_64_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="integer overflow"):
        number_kinds("99999999999999999999")


def test_a_character_is_its_code() -> None:
    assert rune_of("'a'") == 97
    assert rune_of("'\u00e9'") == 233
    with pytest.raises(ValueError, match="malformed character constant"):
        rune_of("'ab'")

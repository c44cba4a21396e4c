from __future__ import annotations

from injector.gotemplate import nodes as n


def test_a_tree_of_space_alone_is_empty() -> None:
    space, text = n.TextNode(0, 1, " \n"), n.TextNode(0, 1, "x")
    assert n.Tree("t", "t", n.ListNode(0, 1, (space,)), "").is_empty()
    assert not n.Tree("t", "t", n.ListNode(0, 1, (space, text)), "").is_empty()


def test_a_chain_on_a_pipeline_keeps_its_parentheses() -> None:
    field = n.FieldNode(0, 1, ("m",))
    pipe = n.PipeNode(0, 1, is_assign=False, decl=(), cmds=(n.CommandNode(0, 1, (field,)),))
    assert str(n.ChainNode(0, 1, pipe, ("a", "b"))) == "(.m).a.b"

"""The parse tree of a template: Go's text/template/parse nodes (node.go).

Every node knows its byte position and its line; ``str(node)`` is template source again, the text that errors quote.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from injector.gotemplate.text import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# What unicode.IsSpace holds; Python takes four control characters for space besides.
_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


@dataclass(frozen=True, slots=True)
class Node:
    """A node: where it begins in the text."""

    pos: int
    line: int


@dataclass(frozen=True, slots=True)
class TextNode(Node):
    """Plain text."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class ListNode(Node):
    """A sequence of nodes."""

    nodes: tuple[Node, ...]

    def __str__(self) -> str:
        return "".join(str(node) for node in self.nodes)


@dataclass(frozen=True, slots=True)
class IdentifierNode(Node):
    """The name of a function."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class VariableNode(Node):
    """A variable with the fields asked of it: ``$x.Field``."""

    idents: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.idents)


@dataclass(frozen=True, slots=True)
class FieldNode(Node):
    """Fields of dot: ``.Field.Inner``."""

    idents: tuple[str, ...]

    def __str__(self) -> str:
        return "".join(f".{ident}" for ident in self.idents)


@dataclass(frozen=True, slots=True)
class ChainNode(Node):
    """Fields of a term: ``(pipeline).Field``."""

    node: Node
    idents: tuple[str, ...]

    def __str__(self) -> str:
        inner = f"({self.node})" if isinstance(self.node, PipeNode) else str(self.node)
        return inner + "".join(f".{ident}" for ident in self.idents)


@dataclass(frozen=True, slots=True)
class DotNode(Node):
    """The cursor."""

    def __str__(self) -> str:
        return "."


@dataclass(frozen=True, slots=True)
class NilNode(Node):
    """The constant nil."""

    def __str__(self) -> str:
        return "nil"


@dataclass(frozen=True, slots=True)
class BoolNode(Node):
    """The constants true and false."""

    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


@dataclass(frozen=True, slots=True)
class NumberNode(Node):
    """A numeric constant with every Go kind that can hold it."""

    text: str
    as_int: int | None
    as_uint: int | None
    as_float: float | None
    as_complex: complex | None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class StringNode(Node):
    """A string constant: its source and its value."""

    quoted: str
    text: str

    def __str__(self) -> str:
        return self.quoted


@dataclass(frozen=True, slots=True)
class CommandNode(Node):
    """A command: a function or operand and its arguments."""

    args: tuple[Node, ...]

    def __str__(self) -> str:
        return " ".join(f"({arg})" if isinstance(arg, PipeNode) else str(arg) for arg in self.args)


@dataclass(frozen=True, slots=True)
class PipeNode(Node):
    """A pipeline: declared or assigned variables and the commands."""

    is_assign: bool
    decl: tuple[VariableNode, ...]
    cmds: tuple[CommandNode, ...]

    def __str__(self) -> str:
        names = ", ".join(str(variable) for variable in self.decl)
        target = f"{names} {'=' if self.is_assign else ':='} " if names else ""
        return target + " | ".join(str(cmd) for cmd in self.cmds)


@dataclass(frozen=True, slots=True)
class ActionNode(Node):
    """A pipeline whose value is printed."""

    pipe: PipeNode

    def __str__(self) -> str:
        return f"{{{{{self.pipe}}}}}"


@dataclass(frozen=True, slots=True)
class BranchNode(Node):
    """What if, range and with have in common."""

    keyword = ""
    pipe: PipeNode
    body: ListNode
    else_body: ListNode | None

    def __str__(self) -> str:
        # A chain of else-if is as deep as it is long: it is walked in a loop.
        parts, ends, node = [self.head()], "{{end}}", self
        while node.else_body is not None:
            parts.append("{{else}}")
            if len(node.else_body.nodes) != 1 or not isinstance(node.else_body.nodes[0], BranchNode):
                parts.append(str(node.else_body))
                break
            node = node.else_body.nodes[0]
            parts.append(node.head())
            ends += "{{end}}"
        return "".join(parts) + ends

    def head(self) -> str:
        """Return the condition and what it guards, as source."""
        return f"{{{{{self.keyword} {self.pipe}}}}}{self.body}"


@dataclass(frozen=True, slots=True)
class IfNode(BranchNode):
    """``{{if}}``."""

    keyword = "if"


@dataclass(frozen=True, slots=True)
class RangeNode(BranchNode):
    """``{{range}}``."""

    keyword = "range"


@dataclass(frozen=True, slots=True)
class WithNode(BranchNode):
    """``{{with}}``."""

    keyword = "with"


@dataclass(frozen=True, slots=True)
class BreakNode(Node):
    """``{{break}}``."""

    def __str__(self) -> str:
        return "{{break}}"


@dataclass(frozen=True, slots=True)
class ContinueNode(Node):
    """``{{continue}}``."""

    def __str__(self) -> str:
        return "{{continue}}"


@dataclass(frozen=True, slots=True)
class TemplateNode(Node):
    """``{{template}}``: a name and the data it gets."""

    name: str
    pipe: PipeNode | None

    def __str__(self) -> str:
        data = "" if self.pipe is None else f" {self.pipe}"
        return f"{{{{template {quote(self.name)}{data}}}}}"


@dataclass(frozen=True, slots=True)
class ElseNode(Node):
    """``{{else}}``; ends a list and stands in no tree."""

    def __str__(self) -> str:
        return "{{else}}"


@dataclass(frozen=True, slots=True)
class EndNode(Node):
    """``{{end}}``; ends a list and stands in no tree."""

    def __str__(self) -> str:
        return "{{end}}"


Branch: TypeAlias = IfNode | RangeNode | WithNode


@dataclass(frozen=True, slots=True)
class Tree:
    """A parsed template: its name, the name of the text it was parsed from, and its nodes."""

    name: str
    parse_name: str
    root: ListNode
    text: str = field(repr=False, compare=False)

    def is_empty(self) -> bool:
        """Return whether it holds nothing but space, as a template that only defines others does."""
        return all(isinstance(node, TextNode) and not node.text.strip(_SPACE) for node in self.root.nodes)


def within(root: Node) -> Iterator[Node]:
    """Yield a node and all nodes inside it."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += _children(node)


def _children(node: Node) -> Sequence[Node]:
    match node:
        case ListNode(nodes=nodes):
            return nodes
        case BranchNode(pipe=pipe, body=body, else_body=otherwise):
            return (pipe, body) if otherwise is None else (pipe, body, otherwise)
        case ActionNode(pipe=pipe):
            return (pipe,)
        case TemplateNode(pipe=pipe):
            return () if pipe is None else (pipe,)
        case PipeNode(cmds=commands):
            return commands
        case CommandNode(args=args):
            return args
        case ChainNode(node=inner):
            return (inner,)
    return ()

"""The parse tree of a template, and the numbers in it: Go's text/template/parse nodes (node.go).

Every node knows its byte position and its line; ``str(node)`` is template source again, the text that errors quote.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, TypeAlias

from injector.golang.strconv import SPACE, parse_float, parse_int, quote, read_float, unquote_char


@dataclass(frozen=True, slots=True)
class Node:
    """A node: where it begins in the text. ``source`` is the text of a node that has no fields of its own."""

    source = ""
    pos: int
    line: int

    def __str__(self) -> str:
        return self.source


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


class DotNode(Node):
    """The cursor."""

    source = "."


class NilNode(Node):
    """The constant nil."""

    source = "nil"


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
    """The common part of if, range and with."""

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
        """Return the condition and its body, as source."""
        return f"{{{{{self.keyword} {self.pipe}}}}}{self.body}"


class IfNode(BranchNode):
    """``{{if}}``."""

    keyword = "if"


class RangeNode(BranchNode):
    """``{{range}}``."""

    keyword = "range"


class WithNode(BranchNode):
    """``{{with}}``."""

    keyword = "with"


class BreakNode(Node):
    """``{{break}}``."""

    source = "{{break}}"


class ContinueNode(Node):
    """``{{continue}}``."""

    source = "{{continue}}"


@dataclass(frozen=True, slots=True)
class TemplateNode(Node):
    """``{{template}}``: a name and the data it gets."""

    name: str
    pipe: PipeNode | None

    def __str__(self) -> str:
        data = "" if self.pipe is None else f" {self.pipe}"
        return f"{{{{template {quote(self.name)}{data}}}}}"


class ElseNode(Node):
    """``{{else}}``; it ends a list and is not part of a tree."""

    source = "{{else}}"


class EndNode(Node):
    """``{{end}}``; it ends a list and is not part of a tree."""

    source = "{{end}}"


Branch: TypeAlias = IfNode | RangeNode | WithNode


@dataclass(frozen=True, slots=True)
class Tree:
    """A parsed template: its name, the name of the text it was parsed from, and its nodes."""

    name: str
    parse_name: str
    root: ListNode
    text: str = field(repr=False, compare=False)

    def is_empty(self) -> bool:
        """Return whether it is only white space, as in a template that only defines others."""
        return all(isinstance(node, TextNode) and not node.text.strip(SPACE) for node in self.root.nodes)


def within(root: Node) -> Iterator[Node]:
    """Yield a node and all nodes inside it."""
    return chain.from_iterable(levels(root))


def levels(root: Node) -> Iterator[list[Node]]:
    """Yield a list of a node, a list of the nodes directly inside it, of those inside them, and so on."""
    level = [root]
    while level:
        yield level
        level = [inner for node in level for inner in _directly_inside(node)]


def _directly_inside(node: Node) -> list[Node]:
    inside: list[Node] = []
    for name in node.__match_args__:  # its fields
        value = getattr(node, name)
        inside += [inner for inner in (value if isinstance(value, tuple) else (value,)) if isinstance(inner, Node)]
    return inside


Kinds: TypeAlias = tuple[int | None, int | None, float | None, complex | None]
"""A number as int64, uint64, float64 and complex128; None for the kinds that cannot hold it."""

# The characters that fmt.Sscan reads as a float, before it checks whether they are one.
_FLOAT_TOKEN = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?(?:[pP][+-]?[0-9_]*)?|[0-9_]*(?:\.[0-9_]*)?(?:[eEpP][+-]?[0-9_]*)?)",
    re.ASCII,
)
_INT64: Final = 2**63
_UINT64: Final = 2**64
_REPLACEMENT: Final = 0xFFFD


def number_kinds(text: str) -> Kinds:
    """Return a literal as every kind of number that can hold it. Raises ValueError with Go's text."""
    imaginary = parse_float(text[:-1]) if text.endswith("i") else None
    if imaginary is not None:
        return _of_complex(complex(0, imaginary))
    number = parse_int(text)
    if number is not None and -_INT64 <= number < _UINT64:
        as_int = number if number < _INT64 else None
        as_uint = number if number == 0 or text[0] not in "+-" else None
        if as_int is not None or as_uint is not None:
            return as_int, as_uint, float(number), None
    value = parse_float(text)
    if value is None:
        raise ValueError(f'illegal number syntax: "{text}"')
    if not any(mark in text for mark in ".eEpP"):
        raise ValueError(f'integer overflow: "{text}"')
    return (*_whole(value), value, None)


def complex_kinds(text: str) -> Kinds:
    """Return a complex literal such as ``1+2i``, as fmt.Sscan reads it. Raises ValueError with Go's text."""
    real = _FLOAT_TOKEN.match(text)
    imaginary = _FLOAT_TOKEN.match(text, real.end()) if real and text[real.end() : real.end() + 1] in "+-" else None
    if real is None or imaginary is None or text[imaginary.end() :] != "i":
        raise ValueError("syntax error scanning complex number")
    return _of_complex(complex(_scan(real[0]), _scan(imaginary[0])))


def _scan(text: str) -> float:
    """Return a float as fmt.Sscan reads it: a decimal number may have a binary exponent."""
    mantissa, binary, exponent = text.partition("p") if "x" not in text.lower() else (text, "", "")
    number = read_float(mantissa)
    if number is None or (binary and not exponent.lstrip("+-").isdigit()):
        raise ValueError(f'strconv.ParseFloat: parsing "{text}": invalid syntax')
    if math.isinf(number):
        raise ValueError(f'strconv.ParseFloat: parsing "{text}": value out of range')
    return math.ldexp(number, int(exponent)) if binary else number


def _of_complex(number: complex) -> Kinds:
    """Return the kinds of a complex number; one without an imaginary part is a real number too."""
    if number.imag:
        return None, None, None, number
    return (*_whole(number.real), number.real, number)


def _whole(value: float) -> tuple[int | None, int | None]:
    """Return a float as int64 and uint64, if it is whole and they can hold it."""
    whole = int(value) if value.is_integer() else _UINT64
    return whole if -_INT64 <= whole < _INT64 else None, whole if 0 <= whole < _UINT64 else None


def rune_of(text: str) -> int:
    """Return the code of a character constant such as ``'a'``. Raises ValueError with Go's text."""
    value, end = unquote_char(text, 1, "'")
    if text[end:] != "'":
        raise ValueError(f"malformed character constant: {text}")
    if len(value) == 1:
        return value[0] if text[1].isascii() else _REPLACEMENT
    return ord(value.decode("utf-8"))

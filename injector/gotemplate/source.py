"""The Python text of compiled templates, and the map from its lines back to the nodes of the templates."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from injector.gotemplate.errors import BudgetError, ExecError, FuncError, ParseError, TemplateError
from injector.gotemplate.failures import Failure, FieldFailure, MethodFailure, Spent, Unprintable
from injector.gotemplate.nodes import ListNode, Node
from injector.gotemplate.reflect import ANY, holds_interface, type_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import CodeType, FrameType, TracebackType

    from injector.gotemplate.nodes import Tree
    from injector.gotemplate.values import Func

# Python's own parser stops at 100 levels of indentation and at 20 loops inside each other (tokenizer.h MAXINDENT, CO_MAXBLOCKS).
_MAX_INDENT: Final = 95
_MAX_LOOPS: Final = 18
_LONGEST_LIST: Final = 40
_LONGEST_REASON: Final = 2_000
"""Characters that an error says: a function's may quote its arguments."""


Place: TypeAlias = "Node | str"
"""The node visited last; or the name of the local variable that holds its index in ``Source.places``, where that is known only at run
time."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a value is an element, key or field of: a local variable, and the name of the field in case it is a struct.

    Without a container it is the result of a function that returns an interface.
    """

    container: str
    name: str = ""
    is_key: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """What a line of Python stands for.

    ``place`` is the node visited last, ``call`` the node that an error of a function names, ``name`` that function's name, ``origin``
    that of the receiver of a field.
    """

    tree: Tree
    place: Place
    call: Node | None = None
    name: str = ""
    origin: Origin | None = None


class Source:
    """Lines of Python with their marks, and what their names stand for.

    Args:
        namespace: the names that the lines may use.
        is_pure: whether nothing that they call changes a value, so that what is read once need not be read again.
    """

    def __init__(self, namespace: Mapping[str, Any], *, is_pure: bool) -> None:
        self.is_pure = is_pure
        self.namespace = dict(namespace)
        self.functions: dict[str, Func] = {}
        self.lines: list[str] = []
        self.marks: list[Mark] = []
        self.places: list[Node] = []
        self.names = 0
        self._indent = ""
        self._loops = 0
        self._computed: list[dict[str, str]] = [{}]

    def line(self, text: str, mark: Mark) -> None:
        """Add a line."""
        self.lines.append(self._indent + text)
        self.marks.append(mark)

    def insert(self, index: int, text: str, mark: Mark) -> None:
        """Add a line before one of the same block."""
        self.lines.insert(index, self._indent + text)
        self.marks.insert(index, mark)

    @contextmanager
    def block(self, head: str, mark: Mark) -> Iterator[None]:
        """Add a line that opens a block, and indent what is added inside.

        Raises:
            ParseError: blocks nest deeper than Python can.
        """
        self.line(head, mark)
        self._indent += " "
        loops, self._loops = self._loops, self._loops + head.startswith("for ")
        if len(self._indent) > _MAX_INDENT or self._loops > _MAX_LOOPS:
            line = mark.place.line if isinstance(mark.place, Node) else 0
            raise ParseError(mark.tree.parse_name, line, "blocks nest too deeply")
        begin = len(self.lines)
        self._computed.append({})
        yield
        self._computed.pop()
        if len(self.lines) == begin:
            self.line("pass", mark)
        self._indent, self._loops = self._indent[:-1], loops

    def fresh(self, prefix: str) -> str:
        """Return a name that nothing else has."""
        self.names += 1
        return f"{prefix}{self.names}"

    def computed(self, expression: str) -> str:
        """Return the name that holds the value of an expression at this place, empty where none surely does."""
        return next((names[expression] for names in self._computed if expression in names), "")

    def note_computed(self, expression: str, name: str) -> None:
        """Note that a name holds the value of an expression, for the rest of the block."""
        if self.is_pure:
            self._computed[-1][expression] = name

    def bind(self, prefix: str, value: Any) -> str:
        """Return a global name for a value."""
        name = self.fresh(prefix)
        self.namespace[name] = value
        return name

    def function(self, func: Func) -> str:
        """Return a global name for what calls a function."""
        name = self.bind("f", func.call)
        self.functions[name] = func
        return name

    def literal(self, value: Any) -> str:
        """Return an expression for a value: Python's own where it has one."""
        if value is None or type(value) in (str, bool) or (type(value) is int and value >= 0):
            return repr(value)
        return self.bind("k", value)

    def place_index(self, node: Node) -> int:
        """Return the index of a node in ``places``."""
        self.places.append(node)
        return len(self.places) - 1

    def program(self, filename: str) -> Program:
        """Compile the text."""
        return Program(compile("\n".join(self.lines), filename, "exec"), self.namespace, self.functions)


@dataclass(frozen=True, slots=True)
class Program:
    """Generated code, the values of its names, and which of these call functions of templates."""

    code: CodeType
    namespace: Mapping[str, Any]
    functions: Mapping[str, Func]

    def run(self) -> dict[str, Any]:
        """Return the names that the code defines."""
        namespace = dict(self.namespace)
        exec(self.code, namespace)  # noqa: S102 - the text is written here, word by word
        return namespace


@dataclass(frozen=True, slots=True)
class LineMap:
    """Finds the node behind an exception that generated code let pass."""

    filename: str
    main: Tree
    marks: tuple[Mark, ...]
    places: tuple[Node, ...]

    def error(self, raised: Exception) -> ExecError:
        """Return the error that a failure is to the user: template, line, column, node and reason."""
        innermost = self._innermost(raised.__traceback__)
        if innermost is None:
            return _at(BudgetError, self.main, self.main.root, f"the template's budget is spent: {raised}")
        frame, line = innermost
        mark = self.marks[line - 1]
        node = self._place(mark, frame)
        if isinstance(raised, Spent | RecursionError):
            what = raised.what if isinstance(raised, Spent) else "nesting"
            return _at(BudgetError, mark.tree, mark.call or node, f"the template's budget is spent: {what}")
        if isinstance(raised, FuncError | TemplateError):
            return _at(ExecError, mark.tree, mark.call or node, f"error calling {mark.name}: {raised}")
        if isinstance(raised, MethodFailure):
            return _at(ExecError, mark.tree, mark.call or node, raised.reason)
        return _at(ExecError, mark.tree, node, _reason(raised, node, mark.origin, frame))

    def _innermost(self, traceback: TracebackType | None) -> tuple[FrameType, int] | None:
        """Return the last frame of generated code and its line; none if the text was complete and too long."""
        found: tuple[FrameType, int] | None = None
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == self.filename:
                found = traceback.tb_frame, traceback.tb_lineno
            traceback = traceback.tb_next
        return found

    def _place(self, mark: Mark, frame: FrameType) -> Node:
        return self.places[frame.f_locals[mark.place]] if isinstance(mark.place, str) else mark.place


def _reason(raised: Exception, node: Node, origin: Origin | None, frame: FrameType) -> str:
    if isinstance(raised, FieldFailure):
        return raised.reason.replace("{type}", _static_type(raised.receiver, origin, frame))
    if isinstance(raised, Unprintable):
        return raised.reason.replace("{node}", str(node))
    return raised.reason if isinstance(raised, Failure) else str(raised)


def _static_type(receiver: Any, origin: Origin | None, frame: FrameType) -> str:
    """Return the type that reflection sees of a value: interface {} where its container holds interfaces."""
    if receiver is None:
        return ANY
    if origin is None:
        return type_of(receiver)
    if not origin.container:
        return ANY
    held = holds_interface(frame.f_locals[origin.container], origin.name, is_key=origin.is_key)
    return ANY if held else type_of(receiver)


def _at(kind: type[ExecError], tree: Tree, node: Node, reason: str) -> ExecError:
    reason = reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}..."
    before = tree.text.encode("utf-8", "surrogateescape")[: node.pos]
    line, column = 1 + before.count(b"\n"), len(before) - (before.rfind(b"\n") + 1)
    return kind(tree.name, tree.parse_name, line, column, _shown(node), reason)


def _shown(node: Node) -> str:
    """Return a node as errors quote it: a list, whose budget is spent, by its beginning."""
    text = str(node)
    return f"{text[:_LONGEST_LIST]}..." if isinstance(node, ListNode) and len(text) > _LONGEST_LIST else text

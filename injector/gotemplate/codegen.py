"""Parse tree to Python: the walk and eval functions of text/template/exec.go, written out for one template.

Each method follows the function of exec.go that its docstring names, and visits nodes in the same order: ``place`` is what
``state.node`` would be after the lines written so far.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from injector.golang.strconv import quote, to_bytes
from injector.gotemplate import nodes as n
from injector.gotemplate.builtins import BUILTINS, print_value
from injector.gotemplate.errors import (
    BudgetError,
    ExecError,
    Failure,
    FieldFailure,
    FuncError,
    MethodFailure,
    ParseError,
    Spent,
    TemplateError,
    Unprintable,
)
from injector.gotemplate.functions import meter
from injector.gotemplate.nodes import ListNode, Node, Tree
from injector.gotemplate.runtime import Signature, check_type, constant, free_constant, parse_signature
from injector.gotemplate.values import ANY, NO_VALUE, REFLECT, holds_interface, type_of

if TYPE_CHECKING:
    from types import FrameType

    from injector.gotemplate.values import Func

# Python's own parser stops at 100 levels of indentation and at 20 loops inside each other (tokenizer.h MAXINDENT, CO_MAXBLOCKS).
_MAX_INDENT: Final = 95
_MAX_LOOPS: Final = 18
# Characters of the text of a block, and of an error, in a message.
_LONGEST_LIST: Final = 40
_BUDGET_SPENT: Final = "the template's budget is spent: "
_LONGEST_REASON: Final = 2_000
"""Characters that an error says: a function's may quote its arguments."""


Place: TypeAlias = "Node | str"
"""The node visited last; or the name of the local variable that holds its index in ``Source.places``, where that is known only at run
time."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The container of a value: a local variable, and the name of the field if the container is a struct.

    Without a container it is the result of a function that returns an interface.
    """

    container: str
    name: str = ""
    is_key: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """The template node behind a line of Python.

    ``place`` is the node visited last, ``call`` the node that an error of a function names, ``name`` that function's name, ``origin``
    that of the receiver of a field.
    """

    tree: Tree
    place: Place
    call: Node | None = None
    name: str = ""
    origin: Origin | None = None


class Source:
    """Lines of Python with their marks and their namespace.

    ``is_pure`` is whether nothing that the lines call changes a value, so that what is read once need not be read again.
    """

    def __init__(self, namespace: Mapping[str, Any], *, is_pure: bool) -> None:
        self.is_pure = is_pure
        self.namespace = dict(namespace)
        self._names: dict[str, str] = {}
        self.lines: list[str] = []
        self.marks: list[Mark] = []
        self.places: list[Node] = []
        self.names = 0
        self._indent = ""
        self._loops = 0
        self.computed: ChainMap[str, str] = ChainMap()
        """The names that hold the values of expressions at this place, where they surely do."""

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
        """Add a line that opens a block, and indent the lines of the block. Raises ParseError if Python cannot nest blocks so deeply."""
        self.line(head, mark)
        self._indent += " "
        loops, self._loops = self._loops, self._loops + head.startswith("for ")
        if len(self._indent) > _MAX_INDENT or self._loops > _MAX_LOOPS:
            line = mark.place.line if isinstance(mark.place, Node) else 0
            raise ParseError(mark.tree.parse_name, line, "blocks nest too deeply")
        begin = len(self.lines)
        self.computed = self.computed.new_child()
        yield
        self.computed = self.computed.parents
        if len(self.lines) == begin:
            self.line("pass", mark)
        self._indent, self._loops = self._indent[:-1], loops

    def fresh(self, prefix: str) -> str:
        """Return a new name."""
        self.names += 1
        return f"{prefix}{self.names}"

    def bind(self, prefix: str, value: Any) -> str:
        """Return a global name for a value."""
        name = self.fresh(prefix)
        self.namespace[name] = value
        return name

    def function(self, func: Func) -> str:
        """Return the global name for a function."""
        if func.name not in self._names:
            self._names[func.name] = self.bind("f", meter(func).call)
        return self._names[func.name]

    def literal(self, value: Any) -> str:
        """Return an expression for a value: Python's own where it has one."""
        if value is None or type(value) in (str, bool) or (type(value) is int and value >= 0):
            return repr(value)
        return self.bind("k", value)

    def text(self) -> str:
        """Return the Python."""
        return "\n".join(self.lines)

    def run(self, filename: str) -> dict[str, Any]:
        """Compile and run the text; return the names that it defines, and those that it uses."""
        namespace = dict(self.namespace)
        exec(compile(self.text(), filename, "exec"), namespace)  # noqa: S102 - the text is written here, word by word
        return namespace


@dataclass(frozen=True, slots=True)
class LineMap:
    """Finds the node behind an exception that generated code let pass."""

    filename: str
    main: Tree
    marks: tuple[Mark, ...]
    places: tuple[Node, ...]

    def error(self, raised: Exception) -> ExecError:
        """Return the error of a failed rendering: template, line, column, node and reason."""
        is_spent = isinstance(raised, Spent | RecursionError)
        kind = BudgetError if is_spent else ExecError
        frames = [entry for entry in walk_tb(raised.__traceback__) if entry[0].f_code.co_filename == self.filename]
        if not frames:  # the text was complete and too long
            return _at(kind, self.main, self.main.root, _BUDGET_SPENT + str(raised))
        frame, line = frames[-1]
        mark = self.marks[line - 1]
        node = self.places[frame.f_locals[mark.place]] if isinstance(mark.place, str) else mark.place
        reason = _reason(raised, node, mark, frame)
        if is_spent or isinstance(raised, FuncError | TemplateError | MethodFailure):
            node = mark.call or node
        return _at(kind, mark.tree, node, reason)


def _reason(raised: Exception, node: Node, mark: Mark, frame: FrameType) -> str:
    if isinstance(raised, Spent):
        return _BUDGET_SPENT + str(raised)
    if isinstance(raised, RecursionError):
        return f"{_BUDGET_SPENT}nesting"
    if isinstance(raised, FuncError | TemplateError):
        return f"error calling {mark.name}: {raised}"
    if isinstance(raised, FieldFailure):
        return str(raised).replace("{type}", _static_type(raised.receiver, mark.origin, frame))
    return str(raised).replace("{node}", str(node)) if isinstance(raised, Unprintable) else str(raised)


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
    before = to_bytes(tree.text)[: node.pos]
    line, column = 1 + before.count(b"\n"), len(before) - (before.rfind(b"\n") + 1)
    return kind(tree.name, tree.parse_name, line, column, _quote_node(node), reason)


def _quote_node(node: Node) -> str:
    """Return a node as errors quote it: a list, whose budget is spent, by its beginning."""
    text = str(node)
    return f"{text[:_LONGEST_LIST]}..." if isinstance(node, ListNode) and len(text) > _LONGEST_LIST else text


@dataclass(frozen=True, slots=True)
class Operand:
    """An expression in generated code: a name or a literal.

    ``type`` is the Go type where it is sure, ``nilable`` whether it can be a nil interface, which a pipeline's end makes no value.
    A constant's value is in ``value``; such an operand has no effect and cannot fail.
    """

    code: str
    type: str = ""
    nilable: bool = False
    origin: Origin | None = None
    is_constant: bool = False
    value: Any = None


NOTHING: Final = Operand("NO_VALUE", is_constant=True, value=NO_VALUE)


@dataclass(frozen=True, slots=True)
class Variable:
    """A template variable: the local variable that holds it, with its origin if it is an element.

    ``maybe`` says that it is declared inside an operand of ``and`` or ``or``, which may not run.
    """

    name: str
    operand: Operand
    maybe: bool = False


def container_of(value: Operand) -> str:
    """Return the local variable that holds the container of a value."""
    return value.origin.container if value.origin and value.origin.container else "None"


_CLASSES: Final = {"string": "str", "bool": "bool", "int": "int", "float64": "float"}
"""Types whose values are of one Python class, so that generated code can check them at once."""
_STRING_MAP: Final = "{0}.__class__ is MAP and {0}.is_of_strings"
"""The check of a map[string]string."""
_COMPARED: Final = {"eq": "==", "ne": "!="}
# Actions between two checks of the budget: functions can take long.
_STRETCH: Final = 64


class TemplateWriter:
    """Writes the Python of one template; ``bodies`` are the names of the Python functions by the names of their templates.

    Text gathers until something else is printed, so that texts and constants that follow each other are one piece of output.
    """

    def __init__(self, source: Source, tree: n.Tree, functions: Mapping[str, Func], bodies: Mapping[str, str]) -> None:
        self.source = source
        self.tree = tree
        self.functions = functions
        self.bodies = bodies
        self.gathered: list[str] = []
        self.place: Place = tree.root
        self.dot = Operand("d0")
        self.scope: list[Variable] = [Variable("$", self.dot)]
        self.optional = 0
        self.leaves_else = False
        nodes = list(n.within(tree.root))
        ranged = {name for node in nodes if isinstance(node, n.RangeNode) for name in _names(node.pipe)}
        self.assigned = frozenset(
            name for node in nodes if isinstance(node, n.PipeNode) and node.is_assign for name in _names(node)
        )
        self.tracked = frozenset(ranged & self.assigned)

    # --- lines

    def line(self, text: str, *, call: n.Node | None = None, name: str = "", origin: Origin | None = None) -> None:
        """Write a line at the present place."""
        self.source.line(text, Mark(self.tree, self.place, call, name, origin))

    def mark(self) -> Mark:
        """Return the mark of a line at the present place."""
        return Mark(self.tree, self.place)

    def assign(self, expression: str, **mark: Any) -> str:
        """Write a line that assigns to a new name; return the name."""
        name = self.source.fresh("t")
        self.line(f"{name} = {expression}", **mark)
        return name

    def assign_once(self, expression: str, **mark: Any) -> str:
        """Write a line that assigns an expression, unless a name holds its value already; return the name.

        An equal line that ran before, in the same block or in one around it, did not fail, and would give the same again: no name in it
        changes, see ``copy``.
        """
        if not self.source.is_pure:
            return self.assign(expression, **mark)
        if expression not in self.source.computed:
            self.source.computed[expression] = self.assign(expression, **mark)
        return self.source.computed[expression]

    def fail(self, reason: str) -> Operand:
        """Write a line that fails, in place of a value."""
        self.line(f"FAIL({reason!r})")
        return NOTHING

    def constant(self, value: Any, go_type: str = "") -> Operand:
        """Return a constant."""
        return Operand(self.source.literal(value), go_type, value is None, is_constant=True, value=value)

    # --- pipelines

    def pipeline(self, pipe: n.PipeNode, *, binds: bool = True) -> Operand:
        """Write a pipeline (evalPipeline); its value may still be a nil interface, see ``end_pipeline``."""
        self.place = pipe
        value: Operand | None = None
        for command in pipe.cmds:
            value = self.command(command, value)
        assert value is not None  # noqa: S101 - the parser refuses empty pipelines
        if pipe.decl and binds:
            value = self.end_pipeline(value)
            for declared in pipe.decl:
                if pipe.is_assign:
                    self.assign_to(declared.idents[0], value)
                else:
                    self.declare(declared.idents[0], value)
        return value

    def end_pipeline(self, value: Operand, go_type: str = "") -> Operand:
        """Make a nil interface no value, as the end of a pipeline does; not for a parameter of type interface {}, where both are nil."""
        if go_type == ANY:
            return value
        if value.is_constant:
            return NOTHING if value.value is None else value
        if not value.nilable:
            return replace(value, origin=None) if value.origin else value
        return Operand(self.assign_once(f"{value.code} if {value.code} is not None else NO_VALUE"))

    def declare(self, name: str, value: Operand) -> None:
        """Write the declaration of a variable with a value (push)."""
        local = self.source.fresh("v")
        origin = Origin(self.source.fresh("o")) if name in self.tracked else None
        variable = Variable(name, Operand(local, nilable=origin is not None, origin=origin), maybe=self.optional > 0)
        self.set(variable, value)
        self.scope.append(variable)

    def set(self, variable: Variable, value: Operand) -> None:
        """Write the assignment of a value, and of its container, to a variable."""
        self.line(f"{variable.operand.code} = {value.code}")
        if variable.operand.origin is not None:
            origin = value.origin
            held_by = f"KEY_CONTAINER({origin.container})" if origin and origin.is_key else container_of(value)
            self.line(f"{variable.operand.origin.container} = {held_by}")

    def variables_named(self, name: str) -> list[Variable]:
        """Return the variables of a name, the innermost one last."""
        return [variable for variable in self.scope if variable.name == name]

    def assign_to(self, name: str, value: Operand) -> None:
        """Write the assignment to a variable (setVar), at run time to the innermost one that an operand really declared."""
        with ExitStack() as blocks:
            for variable in reversed(self.variables_named(name)):
                if not variable.maybe:
                    self.set(variable, value)
                    return
                with self.source.block(f"if {variable.operand.code} is not UNSET:", self.mark()):
                    self.set(variable, value)
                blocks.enter_context(self.source.block("else:", self.mark()))
            self.fail(f"undefined variable: {name}")

    # --- commands

    def command(self, command: n.CommandNode, final: Operand | None) -> Operand:
        """Write a command (evalCommand)."""
        first = command.args[0]
        value = self.call_or_field(first, command, command.args, final)
        if value is not None:
            return value
        if isinstance(first, n.PipeNode):
            return self.lone(command.args, final) or self.end_pipeline(self.pipeline(first))
        self.place = first
        return self.lone(command.args, final) or self.word(first)

    def call_or_field(
        self, node: n.Node, command: n.Node, args: Sequence[n.Node], final: Operand | None
    ) -> Operand | None:
        """Write a function, or a field, chain or variable that can be one; return None for other nodes."""
        if isinstance(node, n.FieldNode):
            self.place = node
            return self.fields(node, self.dot, node.idents, args, final)
        if isinstance(node, n.ChainNode):
            return self.chain(node, args, final)
        if isinstance(node, n.IdentifierNode):
            return self.function(node, command, args, final)
        return self.variable(node, args, final) if isinstance(node, n.VariableNode) else None

    def lone(self, args: Sequence[n.Node], final: Operand | None) -> Operand | None:
        """Write the failure of an operand that has arguments but is not a function (notAFunction)."""
        if len(args) > 1 or final is not None:
            return self.fail(f"can't give argument to non-function {args[0]}")
        return None

    def word(self, node: n.Node) -> Operand:
        """Write a constant or dot."""
        if isinstance(node, n.DotNode):
            return self.dot
        if isinstance(node, n.NilNode):
            return self.fail("nil is not a command")
        try:
            return self.constant(free_constant(node))
        except Failure as failure:
            return self.fail(str(failure))

    def variable(self, node: n.VariableNode, args: Sequence[n.Node], final: Operand | None) -> Operand:
        """Write a variable and its fields (evalVariableNode)."""
        self.place = node
        value = self.variable_value(node.idents[0])
        if len(node.idents) == 1:
            return self.lone(args, final) or value
        return self.fields(node, value, node.idents[1:], args, final)

    def variable_value(self, name: str) -> Operand:
        """Return the value of a variable (varValue); at run time if an operand that did not run may have declared it."""
        known = self.variables_named(name)
        if not known:
            return self.fail(f"undefined variable: {name}")
        if not known[-1].maybe:
            return self.copy(known[-1].operand) if name in self.assigned else known[-1].operand
        expression = f"FAIL({f'undefined variable: {name}'!r})"
        for variable in known:
            code = variable.operand.code
            expression = f"({code} if {code} is not UNSET else {expression})" if variable.maybe else code
        return Operand(self.assign(expression), nilable=True)

    def copy(self, value: Operand) -> Operand:
        """Write a copy of a variable's value, which stays when the variable gets another one."""
        origin = value.origin and Origin(self.assign(value.origin.container))
        return replace(value, code=self.assign(value.code), origin=origin)

    def chain(self, node: n.ChainNode, args: Sequence[n.Node], final: Operand | None) -> Operand:
        """Write fields of a term (evalChainNode)."""
        self.place = node
        if isinstance(node.node, n.NilNode):
            return self.fail(f"indirection through explicit nil in {node}")
        return self.fields(node, self.argument(node.node, REFLECT), node.idents, args, final)

    # --- fields

    def fields(
        self, node: n.Node, receiver: Operand, idents: Sequence[str], args: Sequence[n.Node], final: Operand | None
    ) -> Operand:
        """Write fields of a receiver, the last one possibly a method with arguments (evalFieldChain)."""
        *inner, last = idents
        for name in inner:
            receiver = self.field(node, receiver, name)
        if len(args) > 1 or final is not None:
            return self.method(node, receiver, last, args[1:], final)
        return self.field(node, receiver, last)

    def field(self, node: n.Node, receiver: Operand, name: str) -> Operand:
        """Write a field without arguments (evalField)."""
        code = receiver.code
        if receiver.is_constant:
            return Operand(self.assign_once(f"FIELD({code}, {name!r})", call=node), nilable=True)
        fast = f"{code}[{name!r}] if {code}.__class__ is dict and {name!r} in {code} else FIELD({code}, {name!r})"
        method = self.assign_once(fast, call=node, origin=receiver.origin)
        return Operand(method, nilable=True, origin=Origin(code, name))

    def method(
        self, node: n.Node, receiver: Operand, name: str, args: Sequence[n.Node], final: Operand | None
    ) -> Operand:
        """Write a method with arguments, whose types are known only when it is found (evalField and evalCall)."""
        method = self.assign(f"METHOD({receiver.code}, {name!r})", origin=receiver.origin)
        result, place = self.source.fresh("t"), self.source.fresh("n")
        self.line(f"{result} = NO_VALUE; {place} = {self.where()}")
        with self.source.block(f"if {method} is not NO_VALUE:", self.mark()):
            self.line(f"COUNT({method}, {name!r}, {len(args)}, {final is not None})")
            operands = [self.method_argument(method, index, arg) for index, arg in enumerate(args)]
            if final is not None:
                operands.append(self.assign(f"CHECK({self.end_pipeline(final).code}, TYPE({method}, {len(args)}))"))
            self.line(f"{result} = {method}.call({', '.join(operands)})", call=node, name=name)
            self.line(f"{place} = {self.where()}")
        self.place = place
        return Operand(result, nilable=True)

    def method_argument(self, method: str, index: int, node: n.Node) -> str:
        """Write an argument of a method, converted by the type that the method says."""
        value = self.argument_value(node)
        go_type = f"TYPE({method}, {index})"
        if value is None:
            return self.assign(f"CONSTANT({self.source.bind('k', node)}, {go_type})")
        return self.assign(f"CHECK({value.code}, {go_type}, {container_of(value)})")

    # --- functions

    def function(
        self, node: n.IdentifierNode, command: n.Node, args: Sequence[n.Node], final: Operand | None
    ) -> Operand:
        """Write a call of a function (evalFunction and evalCall)."""
        self.place = node
        func = self.functions[node.name]
        signature = parse_signature(func.signature)
        miscount = signature.miscount(len(args) - 1, final=final is not None)
        if miscount:
            return self.fail(f"wrong number of args for {node.name}: {miscount}")
        is_builtin = BUILTINS.get(node.name) is func
        if is_builtin and node.name in ("and", "or"):
            return self.short_circuit(node.name, args[1:], final)
        operands = [self.argument(arg, signature.type_at(index)) for index, arg in enumerate(args[1:])]
        if final is not None:
            go_type = signature.type_at(len(operands))
            operands.append(self.check_type(self.end_pipeline(final, go_type), go_type))
        if is_builtin:
            return self.builtin(func, command, args, operands, signature)
        return self.call(func, node.name, command, operands, signature)

    def call(
        self, func: Func, name: str, command: n.Node, operands: Sequence[Operand], signature: Signature
    ) -> Operand:
        """Write the call, which counts its cost."""
        arguments = ", ".join(operand.code for operand in operands)
        expression = f"{self.source.function(func)}({arguments})"
        assign = self.assign_once if func.hermetic else self.assign
        result = assign(expression, call=command, name=name)
        is_any = signature.result in (ANY, REFLECT)
        sure = signature.result if signature.result in _CLASSES else ""
        return Operand(result, sure, is_any, Origin("") if is_any else None)

    def builtin(
        self, func: Func, command: n.Node, args: Sequence[n.Node], operands: Sequence[Operand], signature: Signature
    ) -> Operand:
        """Write the call of one of Go's own functions, in line where that is short."""
        if func.name == "not":
            return Operand(self.assign_once(f"not {operands[0].code}"), "bool")
        if func.name in _COMPARED and len(operands) == 2:  # noqa: PLR2004 - the common case
            for one, other in (operands, operands[::-1]):
                if type(one.value) is str and not other.is_constant:
                    fast = f"{other.code} {_COMPARED[func.name]} {one.code} if {other.code}.__class__ is str"
                    slow = f"{func.name.upper()}({operands[0].code}, {operands[1].code})"
                    result = self.assign_once(f"{fast} else {slow}", call=command, name=func.name)
                    return Operand(result, "bool")
        if func.name == "index" and len(operands) == 2 and not operands[0].is_constant:  # noqa: PLR2004 - the common case
            entries, key = operands
            if type(key.value) is str:
                fast = f"{entries.code}.get({key.code}, '') if {_STRING_MAP.format(entries.code)}"
                slow = f"{self.source.function(func)}({entries.code}, {key.code})"
                result = self.assign_once(f"{fast} else {slow}", call=command, name=func.name)
                return Operand(result, nilable=True, origin=Origin(""))
        if func.name == "slice":
            # Go's slice does not look inside an index that is an interface.
            operands = [operands[0], *map(self.as_reflected, operands[1:])]
        if func.name == "call":
            callee = f"CALLEE_NAME({operands[0].code})" if len(args) == 1 else repr(str(args[1]))
            codes = ", ".join([callee, *(operand.code for operand in operands)])
            return Operand(self.assign(f"CALL({codes})", call=command, name="call"), nilable=True, origin=Origin(""))
        return self.call(func, func.name, command, operands, signature)

    def as_reflected(self, value: Operand) -> Operand:
        """Write a value as reflection sees it: an interface where its container holds interfaces."""
        if value.origin is None:
            return value
        container = value.origin.container or "[None]"
        return Operand(
            self.assign(f"REFLECTED({value.code}, {container}, {value.origin.name!r}, {value.origin.is_key})")
        )

    def short_circuit(self, name: str, args: Sequence[n.Node], final: Operand | None) -> Operand:
        """Write ``and`` or ``or``, which evaluate no more operands than they need (evalCall)."""
        result, place = self.source.fresh("t"), self.source.fresh("n")
        known, head = len(self.scope), len(self.source.lines)
        operands: list[n.Node | Operand] = [*args, *([] if final is None else [final])]
        for index, operand in enumerate(operands):
            self.optional += index == 1
            indecisive = f"if {'not ' * (name == 'or')}{result}:"
            with self.source.block(indecisive, self.mark()) if index else nullcontext():
                value = self.argument(operand, REFLECT) if isinstance(operand, n.Node) else self.end_pipeline(operand)
                self.line(f"{result} = {value.code}; {place} = {self.where()}")
        self.optional -= index > 0
        for variable in self.scope[known:]:
            if variable.maybe:
                self.source.insert(head, f"{variable.operand.code} = UNSET", self.mark())
        self.place = place
        return Operand(result, nilable=True, origin=Origin(""))

    # --- arguments

    def argument(self, node: n.Node, go_type: str) -> Operand:
        """Write an argument for a parameter of a type (evalArg)."""
        value = self.argument_value(node, go_type)
        if value is not None:
            return self.check_type(value, go_type)
        try:
            return self.constant(constant(node, go_type), go_type if go_type in _CLASSES else "")
        except Failure as failure:
            return self.fail(str(failure))

    def argument_value(self, node: n.Node, go_type: str = "") -> Operand | None:
        """Write an argument, or return None if it is a constant; ``go_type`` is the parameter's type, where it is known."""
        self.place = node
        if isinstance(node, n.DotNode):
            return self.dot
        if isinstance(node, n.PipeNode):
            return self.end_pipeline(self.pipeline(node), go_type)
        return self.call_or_field(node, node, (node,), None)

    def check_type(self, value: Operand, go_type: str) -> Operand:
        """Write the check of a value against a parameter's type (validateType)."""
        if go_type == REFLECT or (value.type and value.type == go_type):
            return value
        if value.is_constant:
            try:
                return self.constant(check_type(value.value, go_type), go_type if go_type in _CLASSES else "")
            except Failure as failure:
                return self.fail(str(failure))
        if go_type == ANY:
            if value.type:
                return value
            return Operand(self.assign_once(f"{value.code} if {value.code} is not NO_VALUE else None"), nilable=True)
        slow = f"CHECK({value.code}, {go_type!r}, {container_of(value)})"
        python = _CLASSES.get(go_type)
        fast = f"{value.code} if {value.code}.__class__ is {python} else " if python else ""
        if go_type == "map[string]string":
            fast = f"{value.code} if {_STRING_MAP.format(value.code)} else "
        return Operand(self.assign_once(fast + slow), go_type if python else "")

    def where(self) -> str:
        """Return an expression for the index of the present place."""
        if isinstance(self.place, str):
            return self.place
        self.source.places.append(self.place)
        return str(len(self.source.places) - 1)

    # --- actions

    def template(self) -> None:
        """Write the function that renders the template for a dot."""
        with self.source.block(f"def {self.bodies[self.tree.name]}(rendering, d0):", self.mark()):
            self.line(f"rendering.tick({_steps(self.tree.root)})")
            self.line("write = rendering.out.append")
            if "$" in self.assigned:
                self.declare("$", self.dot)
            self.nodes(self.tree.root)

    def nodes(self, body: n.ListNode) -> None:
        """Write the nodes of a list."""
        actions = 0
        for node in body.nodes:
            actions += not isinstance(node, n.TextNode)
            if actions > _STRETCH:
                self.line("rendering.tick(0)")
                actions = 0
            self.place = node
            self._NODES[type(node)](self, node)
        self.flush()

    def inside(self, body: n.ListNode, dot: Operand) -> None:
        """Write the nodes of a list for another dot; variables that they declare end with them."""
        outer, self.dot = self.dot, dot
        known = len(self.scope)
        self.nodes(body)
        del self.scope[known:]
        self.dot = outer

    def flush(self) -> None:
        """Write the text that has gathered."""
        if self.gathered:
            self.line(f"write({''.join(self.gathered)!r})")
            self.gathered.clear()

    def text(self, node: n.TextNode) -> None:
        """Gather text."""
        self.gathered.append(node.text)

    def action(self, node: n.ActionNode) -> None:
        """Write a pipeline whose value is printed unless it goes into variables (walk and printValue)."""
        value = self.pipeline(node.pipe)
        if node.pipe.decl:
            return
        self.place = node
        if value.is_constant:
            self.gathered.append(print_value(value.value))
            return
        self.flush()
        is_text = f"{value.code} if {value.code}.__class__ is str else "
        self.line(f"write({value.code})" if value.type == "string" else f"write({is_text}PRINT({value.code}))")

    def template_call(self, node: n.TemplateNode) -> None:
        """Write a call of another template (walkTemplate)."""
        self.flush()
        if node.name not in self.bodies:
            self.fail(f"template {quote(node.name)} not defined")
            return
        self.line("rendering.enter()")
        value = NOTHING if node.pipe is None else self.end_pipeline(self.pipeline(node.pipe))
        self.place = node
        self.line(f"{self.bodies[node.name]}(rendering, {value.code})")
        self.line("rendering.depth -= 1")

    def leave(self, node: n.BreakNode | n.ContinueNode) -> None:
        """Write ``break`` or ``continue``."""
        self.flush()
        is_break = isinstance(node, n.BreakNode)
        self.line("continue" if not is_break else "raise BREAK" if self.leaves_else else "break")

    # --- if and with

    def branch(self, node: n.IfNode | n.WithNode) -> None:
        """Write ``if`` or ``with`` and what follows its ``else`` (walkIfOrWith).

        The links of a chain stand one after the other, not inside each other: Python limits indentation.
        """
        self.flush()
        known = len(self.scope)
        first, *others = _chain(node)
        pending = self.source.fresh("p") if others else ""
        self.link(first, pending)
        for link in others:
            with self.source.block(f"if {pending}:", self.mark()):
                self.link(link, pending)
        del self.scope[known:]

    def link(self, link: n.Branch | n.ListNode, pending: str) -> None:
        """Write a condition and its body; ``pending`` names the variable that says whether later links are to be tried."""
        if isinstance(link, n.ListNode):
            self.inside(link, self.dot)
            return
        self.place = link
        value = self.pipeline(link.pipe)
        moves = isinstance(link, n.WithNode)
        value = self.end_pipeline(value) if moves else value
        if pending:
            self.line(f"{pending} = not {value.code}")
        with self.source.block(f"if {value.code}:", self.mark()):
            self.inside(link.body, value if moves else self.dot)

    # --- range

    def loop(self, node: n.RangeNode) -> None:
        """Write a loop (walkRange)."""
        self.flush()
        known = len(self.scope)
        value = self.pipeline(node.pipe, binds=False)
        container = self.assign(value.code)
        empty = self.source.fresh("e") if node.else_body else ""
        if empty:
            self.line(f"{empty} = True")
        dot = Operand(self.source.fresh("d"), nilable=True, origin=Origin(container))
        key = Operand(self.source.fresh("i"), nilable=True, origin=Origin(container, is_key=True))
        locals_ = [key, dot] if len(node.pipe.decl) > 1 else [dot]
        assigned = self.loop_variables(node.pipe, locals_, self.end_pipeline(value) if node.pipe.decl else value)
        targets = f"{key.code}, {dot.code} in PAIRS" if len(node.pipe.decl) > 1 else f"{dot.code} in EACH"
        with self.source.block(f"for {targets}({container}):", self.mark()):
            self.place = node.pipe
            self.line(f"rendering.tick({_steps(node.body)})")
            if empty:
                self.line(f"{empty} = False")
            for name, local in assigned:
                self.assign_to(name, local)
            leaves_else, self.leaves_else = self.leaves_else, False
            self.inside(node.body, dot)
            self.leaves_else = leaves_else
        if node.else_body:
            with self.source.block(f"if {empty}:", self.mark()):
                # The variables hold the pipeline's value here, not an element of it.
                self.line(f"{container} = None")
                self.otherwise(node.else_body)
        del self.scope[known:]

    def otherwise(self, body: n.ListNode) -> None:
        """Write the ``else`` of a loop: in Go a ``break`` there ends the ``else``, but a ``continue`` is of the loop around."""
        if not any(isinstance(node, n.BreakNode) for node in n.within(body)):
            self.inside(body, self.dot)
            return
        leaves_else, self.leaves_else = self.leaves_else, True
        with self.source.block("try:", self.mark()):
            self.inside(body, self.dot)
        self.leaves_else = leaves_else
        self.line("except BREAK: pass")

    def loop_variables(self, pipe: n.PipeNode, locals_: Sequence[Operand], value: Operand) -> list[tuple[str, Operand]]:
        """Give the variables of a loop the pipeline's value, as evalPipeline does before the first round.

        Returns:
            The names of those that each round has to assign, with the local that holds the element or key. A variable that nothing else
            assigns is that local itself.
        """
        assigned: list[tuple[str, Operand]] = []
        for declared, local in zip(pipe.decl, locals_, strict=False):
            name = declared.idents[0]
            if pipe.is_assign:
                self.assign_to(name, value)
                assigned.append((name, local))
            elif name in self.assigned:
                self.declare(name, value)
                assigned.append((name, local))
            else:
                self.line(f"{local.code} = {value.code}")
                self.scope.append(Variable(name, local))
        return assigned

    _NODES: Final[dict[type[n.Node], Any]] = {
        n.TextNode: text,
        n.ActionNode: action,
        n.IfNode: branch,
        n.WithNode: branch,
        n.RangeNode: loop,
        n.TemplateNode: template_call,
        n.BreakNode: leave,
        n.ContinueNode: leave,
    }


def _chain(node: n.Branch) -> list[n.Branch | n.ListNode]:
    """Return a condition and what its ``else`` holds: further conditions, and last a list where there is one."""
    links: list[n.Branch | n.ListNode] = [node]
    otherwise = node.else_body
    while otherwise is not None:
        if len(otherwise.nodes) != 1 or not isinstance(otherwise.nodes[0], n.IfNode | n.WithNode):
            links.append(otherwise)
            break
        links.append(otherwise.nodes[0])
        otherwise = otherwise.nodes[0].else_body
    return links


def _steps(body: n.ListNode) -> int:
    """Return how many nodes run when a list does, at most, itself included; a loop counts its own."""
    steps, lists = 1, [body]
    while lists:
        children = lists.pop().nodes
        steps += len(children)
        for node in children:
            if isinstance(node, n.BranchNode):
                inner = (None if isinstance(node, n.RangeNode) else node.body, node.else_body)
                lists += [child for child in inner if child is not None]
    return steps


def _names(pipe: n.PipeNode) -> Iterator[str]:
    return (variable.idents[0] for variable in pipe.decl)

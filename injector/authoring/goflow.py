"""Follow the template data through Go templates: what they read, what they print, and which branches they can take.

The walk takes every branch, or those that ran for a pod, and every value that a variable may have. So it may list a read that never
happens, but it misses none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from injector.authoring.model import (
    ANY_KEY,
    DATA,
    NOTHING,
    QUOTED,
    RAW,
    WHOLE,
    YAML,
    Model,
    Path,
    Place,
    Read,
    Taint,
    Value,
    Walk,
    union,
)
from injector.gotemplate import nodes as n

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

_PASSES: Final = 3
"""A variable that is assigned in a loop has its value before the assignment too: the second pass sees it, the third what follows."""
# fmt: off
_HARMLESS: Final = frozenset({
    "len", "eq", "ne", "lt", "le", "gt", "ge", "not", "isset", "contains", "hasKey", "hasPrefix", "hasSuffix", "int",
    "int64", "float64", "atoi", "add", "add1", "sub", "mul", "div", "mod", "max", "min", "floor", "ceil", "round",
    "kindIs", "kindOf", "typeOf", "typeIs", "typeIsLike", "empty", "b64enc", "b32enc", "sha1sum", "sha256sum",
    "adler32sum", "formatDuration", "includeInboundPorts", "applicationPorts", "urlquery", "regexMatch",
    "semverCompare", "has", "any", "all", "fail", "now", "uuidv4", "bool", "until", "untilStep", "seq",
})
# fmt: on
"""Functions whose result cannot break YAML, whatever their arguments are."""
# fmt: off
_QUOTING: Final = frozenset({
    "quote", "toJSON", "toJson", "toRawJson", "toPrettyJson", "mustToJson", "mustToRawJson", "mustToPrettyJson",
    "structToJSON", "toJsonMap", "protoToJSON",
})
# fmt: on
_KEEPING: Final = frozenset({"indent", "nindent", "trim", "omitNil"})
"""Functions that a quoted text, or YAML, remains one after."""
_CHOOSING: Final = {"default", "or", "and", "coalesce", "ternary", "valueOrDefault", "first", "last"}
"""Functions that return one of their arguments."""


@dataclass
class Flow:
    """What a walk found.

    ``reads`` have the name of the text and the line of the first node that does each, ``prints`` the actions that print with all that they
    may print. ``unknown`` are the nodes that name a field which the minor does not have, with the fields before it and the field.
    ``values`` are the nodes that read values, with the path and whether the node prints it, unless a condition around it reads them too.
    ``branches`` have a constant condition, with the constant. ``repeated`` are the conditions of a chain of else-if that an earlier one
    repeats. ``called`` are the names of the templates that are called.
    """

    reads: dict[Read, tuple[str, int]] = field(default_factory=dict)
    prints: dict[int, tuple[n.ActionNode, Value]] = field(default_factory=dict)
    unknown: dict[int, tuple[n.Node, Place, str]] = field(default_factory=dict)
    values: dict[tuple[int, Path], tuple[n.Node, bool]] = field(default_factory=dict)
    branches: dict[int, tuple[n.BranchNode, Any]] = field(default_factory=dict)
    repeated: dict[int, n.BranchNode] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)


def follow(model: Model, trees: Mapping[str, n.Tree], name: str, ran: Container[int] | None = None) -> Flow:
    """Follow the data through the template ``name``. ``ran`` has the ids of the lists of nodes that ran; None for all."""
    walk = _GoWalk(model, trees, ran)
    for _ in range(_PASSES):
        walk.visited.clear()
        walk.call(name, DATA)
    return walk.flow


class _GoWalk(Walk):
    def __init__(self, model: Model, trees: Mapping[str, n.Tree], ran: Container[int] | None) -> None:
        self.flow = Flow()
        super().__init__(model, self.flow.reads)
        self.trees = trees
        self.ran = ran
        self.visited: set[tuple[str, Value]] = set()
        # The values of variables that are assigned to, wherever they are in scope.
        self.assigned: dict[str, Value] = {
            variable.idents[0]: NOTHING
            for tree in trees.values()
            for node in n.within(tree.root)
            if isinstance(node, n.PipeNode) and node.is_assign
            for variable in node.decl
        }
        self.scopes: list[dict[str, Value]] = [{}]
        self.excused: frozenset[Path] = frozenset()

    def call(self, name: str, dot: Value) -> None:
        """Walk through a template that is called with ``dot``, unless it was for the same value."""
        tree = self.trees.get(name)
        if tree is None or (name, dot) in self.visited:
            return
        self.visited.add((name, dot))
        self.count_call()
        outer, self.scopes, text = self.scopes, [{"$": dot}], self.text
        self.text = tree.parse_name
        self.body(tree.root, dot)
        self.scopes, self.text = outer, text

    def body(self, node: n.ListNode | None, dot: Value) -> None:
        """Walk through a list in a scope of its own, if it ran."""
        if node is None or (self.ran is not None and id(node) not in self.ran):
            return
        self.scopes.append({})
        for child in node.nodes:
            self.node(child, dot)
        self.scopes.pop()

    def node(self, node: n.Node, dot: Value) -> None:
        match node:
            case n.ActionNode(pipe=pipe):
                value = self.pipe(pipe, dot, prints=not pipe.decl)
                if not pipe.decl:
                    self.read(value, pipe.line)
                    known = self.flow.prints.get(id(node), (node, NOTHING))[1]
                    taints = frozenset(self.taints(value))
                    self.flow.prints[id(node)] = (node, Value(taints=known.taints | taints))
            case n.TemplateNode(name=name, pipe=pipe):
                self.flow.called.add(name)
                self.call(name, NOTHING if pipe is None else self.pipe(pipe, dot))
            case n.IfNode() | n.WithNode() | n.RangeNode():
                self.branch(node, dot)

    def branch(self, node: n.BranchNode, dot: Value) -> None:
        """Walk through a chain of else-if in a loop: it is as deep as it is long."""
        self.scopes.append({})
        conditions: set[str] = set()
        excused = self.excused
        while True:
            if str(node.pipe) in conditions and not isinstance(node, n.RangeNode):
                self.flow.repeated[id(node)] = node
            conditions.add(str(node.pipe))
            before = len(self.flow.values)
            value = self.pipe(node.pipe, dot)
            self.read(value, node.pipe.line, deep=False)
            if isinstance(node, n.RangeNode):
                self.loop(node, value)
            else:
                if value.constant:
                    self.flow.branches[id(node)] = (node, value.constant[0])
                tested = {path for _, path in islice(reversed(self.flow.values), len(self.flow.values) - before)}
                self.excused = self.excused | self.paths_tested_by(node.pipe, dot) | tested
                self.body(node.body, value if isinstance(node, n.WithNode) else dot)
            otherwise = node.else_body
            inner = otherwise.nodes[0] if otherwise is not None and len(otherwise.nodes) == 1 else None
            ran = self.ran is None or id(otherwise) in self.ran
            if type(inner) is not type(node) or isinstance(node, n.RangeNode) or not ran:
                break
            node = inner
        self.body(otherwise, dot)
        self.scopes.pop()
        self.excused = excused

    def loop(self, node: n.RangeNode, value: Value) -> None:
        """Walk through the body of a range; its variables are the index or key, and the element."""
        taints = frozenset(self.taints(value))
        places = frozenset(place.element() for place in value.places)
        element = Value(places, value.taints)
        key = Value(taints=frozenset(taint for taint in taints if not self.is_list(value)))
        names = [variable.idents[0] for variable in node.pipe.decl]
        self.scopes[-1].update(zip(names, (key, element) if len(names) > 1 else (element,), strict=False))
        self.body(node.body, element)

    def is_list(self, value: Value) -> bool:
        return bool(value.places) and not value.taints and all(place.type.startswith("[]") for place in value.places)

    def paths_tested_by(self, pipe: n.PipeNode, dot: Value) -> frozenset[Path]:
        """Return the paths of values that a condition reads."""
        paths: set[Path] = set()
        for node in n.within(pipe):
            if isinstance(node, n.FieldNode | n.VariableNode | n.ChainNode):
                paths.update(place.path for place in self.operand(node, dot, note=False).places)
        return frozenset(paths)

    def pipe(self, pipe: n.PipeNode, dot: Value, *, prints: bool = False) -> Value:
        """Return the value of a pipeline, and declare or assign its variables."""
        value: Value | None = None
        simple = prints and len(pipe.cmds) == 1 and len(pipe.cmds[0].args) == 1
        for command in pipe.cmds:
            value = self.command(command, dot, value, prints=simple)
        value = value or NOTHING
        for variable in pipe.decl:
            name = variable.idents[0]
            if name in self.assigned:
                self.assigned[name] |= Value(value.places, value.taints)
            if not pipe.is_assign:
                self.scopes[-1][name] = value
        return value

    def command(self, command: n.CommandNode, dot: Value, piped: Value | None, *, prints: bool = False) -> Value:
        first, *rest = command.args
        if isinstance(first, n.IdentifierNode):
            args = [self.operand(operand, dot) for operand in rest] + ([] if piped is None else [piped])
            nodes: list[n.Node | None] = [*rest, *([] if piped is None else [None])]
            return self.function(first, args, nodes)
        for operand in rest:
            self.read(self.operand(operand, dot), operand.line)
        if piped is not None:
            self.read(piped, first.line)
        return self.operand(first, dot, prints=prints)

    def operand(self, node: n.Node, dot: Value, *, note: bool = True, prints: bool = False) -> Value:
        """Return the value of an operand. ``note`` is False to look at it once more."""
        match node:
            case n.DotNode():
                return dot
            case n.FieldNode(idents=idents):
                return self.fields(node, dot, idents, note=note, prints=prints)
            case n.VariableNode(idents=(name, *idents)):
                return self.fields(node, self.variable(name), idents, note=note, prints=prints)
            case n.ChainNode(node=inner, idents=idents):
                return self.fields(node, self.operand(inner, dot, note=note), idents, note=False)
            case n.PipeNode():
                return self.pipe(node, dot)
            case n.IdentifierNode():
                return self.function(node, [], [])
            case n.StringNode(text=constant) | n.BoolNode(value=constant):
                return Value(constant=(constant,))
            case n.NumberNode(as_int=number, as_float=real):
                return Value(constant=(number if number is not None else real,))
            case n.NilNode():
                return Value(constant=(None,))
        return NOTHING

    def variable(self, name: str) -> Value:
        if name in self.assigned:
            return self.assigned[name]
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), NOTHING)

    def fields(self, node: n.Node, value: Value, idents: Sequence[str], *, note: bool, prints: bool = False) -> Value:
        """Return a value after a chain of fields."""
        for ident in idents:
            reasons = set()
            for place in value.places:
                inner = self.model.field(place, ident)
                if inner is not None:
                    reasons.add(inner)
                elif note:
                    self.flow.unknown.setdefault(id(node), (node, place, ident))
            value = Value(frozenset(reasons), value.taints)
        if note and idents:
            for place in value.places:
                if place.path[:1] == ("values",) and not self.is_excused(place.path):
                    self.flow.values.setdefault((id(node), place.path), (node, prints))
        return value

    def is_excused(self, path: Path) -> bool:
        return any(path[: len(excused)] == excused or excused[: len(path)] == path for excused in self.excused)

    def function(self, node: n.IdentifierNode, args: list[Value], nodes: Sequence[n.Node | None]) -> Value:
        """Return what a function may return, and note what it reads of its arguments."""
        name = node.name
        keys = [operand.text if isinstance(operand, n.StringNode) else None for operand in nodes]
        if name == "index" and args:
            return self.index(node, args, keys)
        if name in {"annotation", "isset"} and len(args) > 1:
            return self.annotation(node, args, keys)
        if name == "render":
            for path in WHOLE:
                self.note(Read(path, deep=True), node.line)
        if name in _CHOOSING:
            if name in {"or", "and"}:
                return self.logical(name, node, args)
            for argument in args[:-1] if name != "ternary" else args[2:]:
                self.read(argument, node.line, deep=False)
            self.read(args[-1] if args else NOTHING, node.line, deep=False)
            return union(args) if args else NOTHING
        for argument in args:
            self.read(argument, node.line)
        constants = [argument.constant for argument in args]
        constant = (
            _constant(name, [argument_constants[0] for argument_constants in constants]) if all(constants) else ()
        )
        return Value(taints=frozenset(self.result(name, args, keys)), constant=constant)

    def logical(self, name: str, node: n.Node, args: list[Value]) -> Value:
        """Return one of the arguments; a constant if one decides."""
        for argument in args:
            self.read(argument, node.line, deep=False)
        decides = [
            argument.constant for argument in args if argument.constant and bool(argument.constant[0]) is (name == "or")
        ]
        joined = union(args) if args else NOTHING
        constants = [argument.constant for argument in args]
        if decides or (args and all(constants)):
            return Value(joined.places, joined.taints, decides[0] if decides else constants[-1])
        return Value(joined.places, joined.taints)

    def index(self, node: n.Node, args: list[Value], keys: Sequence[str | None]) -> Value:
        value = args[0]
        for key, text in zip(args[1:], keys[1:], strict=True):
            self.read(key, node.line)
            places = (place.key(text) if text is not None else place.element() for place in value.places)
            value = Value(frozenset(places), value.taints)
        return value

    def annotation(self, node: n.IdentifierNode, args: list[Value], keys: Sequence[str | None]) -> Value:
        """Return what ``annotation`` or ``isset`` reads: a key of the annotations."""
        self.read(args[1], node.line)
        key = keys[1] if keys[1] is not None else ANY_KEY
        if node.name == "isset":
            for place in args[0].places:
                self.read(Value(frozenset({place.key(key)})), node.line, deep=False)
            return NOTHING
        of_annotations = [self.model.field(place, "Annotations") for place in args[0].places]
        own = Value(frozenset(place.key(key) for place in of_annotations if place is not None), args[0].taints)
        self.read(union([own, *args[2:]]), node.line)
        return Value(taints=frozenset(self.taints(union([own, *args[2:]]))))

    def result(self, name: str, args: list[Value], keys: Sequence[str | None]) -> set[Taint]:
        """Return the texts of a pod in what a function returns."""
        taints = {taint for argument in args for taint in self.taints(argument)}
        if name in _HARMLESS:
            return set()
        if name in _QUOTING or (name == "printf" and keys[:1] == ["%q"]):
            return {Taint(path, QUOTED) for path, _ in taints}
        if name == "toYaml":
            return {Taint(path, YAML) for path, _ in taints}
        if name in _KEEPING:
            return taints
        return {Taint(path, RAW) for path, _ in taints}


def _constant(name: str, values: list[Any]) -> tuple[Any, ...]:
    match name, values:
        case "not", [value]:
            return (not value,)
        case "eq", [first, *others] if others:
            return (first in others,)
        case "ne", [first, second]:
            return (first != second,)
    return ()

"""A tree into Python: each node becomes one closure, made once and run for every rendering.

Follows text/template/exec.go (Go 1.26): the same order of evaluation, the same node named in errors. Variables are slots of a frame,
found when the template is compiled; constants and arities are settled then too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from injector.gotemplate import nodes as n
from injector.gotemplate.arguments import REFLECT, Unfit, checked, constant, ideal_constant
from injector.gotemplate.budget import Budget
from injector.gotemplate.builtins import BUILTINS
from injector.gotemplate.errors import ExecError, FuncError
from injector.gotemplate.fields import field_of
from injector.gotemplate.parser import parse
from injector.gotemplate.printf import sprint
from injector.gotemplate.reflect import ANY, NO_VALUE, element_type, indirect, is_true, kind_of, sorted_items, type_of
from injector.gotemplate.signatures import Signature, parse_signature
from injector.gotemplate.state import State
from injector.gotemplate.values import Func, Pointer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Step: TypeAlias = "Callable[[State, Any], Any]"
"""Evaluates or prints a node for a state and dot; a printing step returns None, _BREAK or _CONTINUE."""
Stage: TypeAlias = "Callable[[State, Any, Any], Any]"
"""Evaluates a command for a state, dot and the value of the stage before, ``MISSING`` in the first."""

MISSING: Final = object()
_BREAK: Final = object()
_CONTINUE: Final = object()


@dataclass(frozen=True, slots=True)
class Body:
    """A compiled template: what runs, and how many variables it has."""

    tree: n.Tree
    run: Step
    slots: int


@dataclass(frozen=True, slots=True)
class Template:
    """A set of compiled templates, executed by the name of the first."""

    name: str
    bodies: Mapping[str, Body]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all templates of the text, sorted."""
        return tuple(sorted(self.bodies))

    def execute(self, data: Any, *, budget: Budget | None = None) -> str:
        """Return the rendered text.

        Args:
            data: the value of dot, in the model of ``gotemplate.values``.
            budget: limits; by default a megabyte, a million steps and half a second.

        Raises:
            ExecError: a step failed; with Go's text.
            BudgetError: the budget is spent.
        """
        body = self.bodies[self.name]
        state = State(budget or Budget(), body.tree)
        state.frame = [NO_VALUE] * body.slots
        state.frame[0] = data
        try:
            body.run(state, data)
        except RecursionError:
            state.spent("nesting")
        return "".join(state.out)


def compile_template(
    name: str,
    source: str,
    *,
    funcs: Mapping[str, Func],
    left: str = "{{",
    right: str = "}}",
    missing_key: str = "default",
) -> Template:
    """Parse and compile a template text.

    Args:
        name: the template's name, which errors show.
        source: the text.
        funcs: functions by name; they win over Go's own.
        left: the opening delimiter.
        right: the closing delimiter.
        missing_key: ``default``, ``invalid``, ``zero`` or ``error``, as Go's option of that name.

    Raises:
        ParseError: it is no template; with Go's text.
    """
    functions = {**BUILTINS, **funcs}
    trees = parse(name, source, functions=functions, left=left, right=right)
    bodies: dict[str, Body] = {}
    for tree in trees.values():
        bodies[tree.name] = _Compiler(functions, bodies, missing_key).body(tree)
    return Template(name, bodies)


class _Compiler:
    """Compiles one tree; ``scopes`` maps the variables in scope to their slots, innermost last."""

    def __init__(self, functions: Mapping[str, Func], bodies: Mapping[str, Body], missing_key: str) -> None:
        self.functions = functions
        self.bodies = bodies
        self.missing_key = missing_key
        self.scope: list[tuple[str, int]] = [("$", 0)]
        self.slots = 1

    def body(self, tree: n.Tree) -> Body:
        run = self.list(tree.root)
        return Body(tree, run, self.slots)

    def declare(self, name: str) -> int:
        slot = self.slots
        self.slots += 1
        self.scope.append((name, slot))
        return slot

    def slot(self, name: str) -> int | None:
        """Return a variable's slot; None for one that the parser takes for declared and nothing declares (``{{ $x = 1 }}``)."""
        return next((slot for known, slot in reversed(self.scope) if known == name), None)

    # --- printing nodes

    def node(self, node: n.Node) -> Step:
        compile_node: Callable[[_Compiler, Any], Step] = self._NODES[type(node)]
        return compile_node(self, node)

    def list(self, node: n.ListNode) -> Step:
        steps = tuple(self.node(item) for item in node.nodes)
        if len(steps) == 1:
            return steps[0]

        def run(state: State, dot: Any) -> Any:
            for step in steps:
                signal = step(state, dot)
                if signal is not None:
                    return signal
            return None

        return run

    def text(self, node: n.TextNode) -> Step:
        text = node.text

        def run(state: State, _dot: Any) -> None:
            state.node = node
            state.write(text)

        return run

    def action(self, node: n.ActionNode) -> Step:
        evaluate = self.pipeline(node.pipe)
        silent = bool(node.pipe.decl)

        def run(state: State, dot: Any) -> None:
            state.node = node
            state.tick()
            value = evaluate(state, dot)
            if not silent:
                state.node = node
                state.write(value if type(value) is str else printed(state, node, value))

        return run

    def if_(self, node: n.IfNode) -> Step:
        return self.branch(node, moves_dot=False)

    def with_(self, node: n.WithNode) -> Step:
        return self.branch(node, moves_dot=True)

    def branch(self, node: n.IfNode | n.WithNode, *, moves_dot: bool) -> Step:
        mark = len(self.scope)
        condition = self.pipeline(node.pipe)
        body = self.list(node.body)
        otherwise = _nothing if node.else_body is None else self.list(node.else_body)
        del self.scope[mark:]

        def run(state: State, dot: Any) -> Any:
            state.node = node
            state.tick()
            value = condition(state, dot)
            if not is_true(value):
                return otherwise(state, dot)
            if not moves_dot:
                return body(state, dot)
            outer, state.interface_dot = state.interface_dot, False
            signal = body(state, value)
            state.interface_dot = outer
            return signal

        return run

    def range_(self, node: n.RangeNode) -> Step:
        mark = len(self.scope)
        evaluate = self.pipeline(node.pipe, assigns=False)
        slots = [self.slot(variable.idents[0]) for variable in node.pipe.decl]
        body = self.list(node.body)
        del self.scope[mark:]
        # Variables of the pipeline are not in the else branch's way: their slots stay what the pipeline gave.
        otherwise = _nothing if node.else_body is None else self.list(node.else_body)
        element_slot = slots[-1] if slots else None
        names = [variable.idents[0] for variable in node.pipe.decl]
        key_slot = slots[0] if len(slots) > 1 else None

        def run(state: State, dot: Any) -> Any:
            state.node = node
            value = indirect(evaluate(state, dot))[0]
            empty = True
            outer = state.interface_dot
            state.interface_dot = isinstance(value, dict | list) and element_type(value) == ANY
            if None in slots:
                state.fail(f"undefined variable: {names[slots.index(None)]}")
            if element_slot is not None and state.interface_dot:
                state.interface_slots.add(element_slot)
            for key, element in _entries(state, node, value):
                empty = False
                state.tick()
                if element_slot is not None:
                    state.frame[element_slot] = element
                if key_slot is not None:
                    state.frame[key_slot] = key
                if body(state, element) is _BREAK:
                    break
            state.interface_dot = outer
            return otherwise(state, dot) if empty else None

        return run

    def template(self, node: n.TemplateNode) -> Step:
        name, bodies = node.name, self.bodies
        evaluate = _no_value if node.pipe is None else self.pipeline(node.pipe)

        def run(state: State, dot: Any) -> None:
            state.node = node
            state.tick()
            body = bodies.get(name)
            if body is None:
                state.fail(f'template "{name}" not defined')
            if state.depth >= state.budget.depth:
                state.spent(f"templates nested deeper than {state.budget.depth}")
            value = evaluate(state, dot)
            outer = state.frame, state.tree, state.interface_dot, state.interface_slots
            state.frame = [NO_VALUE] * body.slots
            state.frame[0] = value
            state.tree, state.interface_dot, state.interface_slots = body.tree, False, set()
            state.depth += 1
            body.run(state, value)
            state.depth -= 1
            state.frame, state.tree, state.interface_dot, state.interface_slots = outer

        return run

    def break_(self, _node: n.BreakNode) -> Step:
        return lambda _state, _dot: _BREAK

    def continue_(self, _node: n.ContinueNode) -> Step:
        return lambda _state, _dot: _CONTINUE

    _NODES: Final[dict[type[n.Node], Any]] = {
        n.TextNode: text,
        n.ActionNode: action,
        n.IfNode: if_,
        n.WithNode: with_,
        n.RangeNode: range_,
        n.TemplateNode: template,
        n.BreakNode: break_,
        n.ContinueNode: continue_,
    }

    # --- pipelines

    def pipeline(self, pipe: n.PipeNode, *, assigns: bool = True) -> Step:
        stages = tuple(self.command(command) for command in pipe.cmds)
        slots = [self.slot(v.idents[0]) if pipe.is_assign else self.declare(v.idents[0]) for v in pipe.decl]
        if not slots or not assigns:
            if len(stages) == 1:
                return _single(pipe, stages[0])
            return _piped(pipe, stages)
        value_of = _single(pipe, stages[0]) if len(stages) == 1 else _piped(pipe, stages)

        def run(state: State, dot: Any) -> Any:
            value = value_of(state, dot)
            for slot in slots:
                if slot is None:
                    state.fail(f"undefined variable: {pipe.decl[0].idents[0]}")
                state.frame[slot] = value
                state.interface_slots.discard(slot)
            return value

        return run

    def command(self, command: n.CommandNode) -> Stage:
        first = command.args[0]
        if isinstance(first, n.FieldNode):
            return self.fields(first, _dot, first.idents, command.args)
        if isinstance(first, n.ChainNode):
            return self.chain(first, command.args)
        if isinstance(first, n.IdentifierNode):
            return self.function(first, command, command.args)
        if isinstance(first, n.VariableNode):
            return self.variable(first, command.args)
        if isinstance(first, n.PipeNode):
            return _operand(command.args, None, self.pipeline(first))
        return _operand(command.args, first, self.literal(first))

    def literal(self, node: n.Node) -> Step:
        if isinstance(node, n.DotNode):
            return _dot
        if isinstance(node, n.NilNode):
            return _failing(node, "nil is not a command")
        try:
            value = ideal_constant(node) if isinstance(node, n.NumberNode) else constant(node, ANY)
        except Unfit as unfit:
            return _failing(node, str(unfit))
        return lambda _state, _dot: value

    def variable(self, node: n.VariableNode, args: tuple[n.Node, ...]) -> Stage:
        slot = self.slot(node.idents[0])
        if slot is None:
            return _operand((), node, _failing(node, f"undefined variable: {node.idents[0]}"))

        def value_of(state: State, _dot: Any) -> Any:
            state.node = node
            return state.frame[slot]

        if len(node.idents) == 1:
            return _operand(args, node, value_of)
        return self.fields(node, value_of, node.idents[1:], args, slot)

    def chain(self, node: n.ChainNode, args: tuple[n.Node, ...]) -> Stage:
        if isinstance(node.node, n.NilNode):
            return _operand((), node, _failing(node, f"indirection through explicit nil in {node}"))
        inner = self.argument(node.node, REFLECT)

        def value_of(state: State, dot: Any) -> Any:
            state.node = node
            return inner(state, dot)

        return self.fields(node, value_of, node.idents, args)

    def fields(
        self, node: n.Node, value_of: Step, idents: tuple[str, ...], args: tuple[n.Node, ...], slot: int | None = None
    ) -> Stage:
        *inner, last = idents
        from_dot = value_of is _dot
        missing_key = self.missing_key
        has_args = len(args) > 1

        def run(state: State, dot: Any, final: Any) -> Any:
            state.node = node
            receiver = value_of(state, dot)
            loose = state.interface_dot if from_dot else slot in state.interface_slots
            static = ANY if loose else ""
            for name in inner:
                found = field_of(state, receiver, name, static, missing_key, has_args=False)
                if type(found) is Func:
                    found = self.method(found, node, name, ())(state, dot, MISSING)
                static = ANY if isinstance(receiver, dict) and element_type(receiver) == ANY else ""
                receiver = found
            given = has_args or final is not MISSING
            found = field_of(state, receiver, last, static, missing_key, has_args=given)
            if type(found) is Func:
                return self.method(found, node, last, args)(state, dot, final)
            return found

        return run

    def method(self, func: Func, node: n.Node, name: str, args: tuple[n.Node, ...]) -> Stage:
        """Compile a call of a method that was found while running."""
        return self.call(func, node, name, args[1:], builtin=False)

    # --- functions

    def function(self, node: n.IdentifierNode, at: n.Node, args: tuple[n.Node, ...]) -> Stage:
        func = self.functions[node.name]
        builtin = BUILTINS.get(node.name) is func
        call = self.call(func, at, node.name, args[1:], builtin=builtin)

        def run(state: State, dot: Any, final: Any) -> Any:
            state.node = node
            return call(state, dot, final)

        return run

    def call(self, func: Func, at: n.Node, name: str, args: tuple[n.Node, ...], *, builtin: bool) -> Stage:
        signature = parse_signature(func.signature)
        types = [signature.type_at(index) for index in range(len(args))]
        if builtin and name == "call":
            types = [REFLECT] * len(args)
        values = tuple(self.argument(arg, kind) for arg, kind in zip(args, types, strict=True))
        if builtin and name in ("and", "or"):
            return _short_circuit(name, values, signature)
        if builtin and name == "call":
            return _call_of(at, args, values)
        invoke = func.call

        def run(state: State, dot: Any, final: Any) -> Any:
            count = len(values) + (final is not MISSING)
            if count != len(signature.params):
                _check_count(state, name, signature, len(values), count)
            given = [value(state, dot) for value in values]
            if final is not MISSING:
                given.append(checked(state, final, signature.type_at(len(values))))
            try:
                return invoke(*given)
            except FuncError as error:
                state.node = at
                state.fail(f"error calling {name}: {error}")
            except ExecError as error:
                state.node = at
                state.fail(f"error calling {name}: {error}")

        return run

    def argument(self, node: n.Node, go_type: str) -> Step:
        """Compile an argument for a parameter of a type (exec.go evalArg)."""
        value_of = self.argument_value(node)
        if value_of is None:
            try:
                value = constant(node, go_type) if not isinstance(node, n.DotNode) else None
            except Unfit as unfit:
                return _failing(node, str(unfit))
            return lambda state, _dot: _at(state, node, value)
        if go_type == REFLECT:
            return value_of

        def run(state: State, dot: Any) -> Any:
            return checked(state, value_of(state, dot), go_type)

        return run

    def argument_value(self, node: n.Node) -> Step | None:
        if isinstance(node, n.DotNode):
            return lambda state, dot: _at(state, node, dot)
        if isinstance(node, n.PipeNode):
            return self.pipeline(node)
        if isinstance(node, n.FieldNode):
            return _without_final(self.fields(node, _dot, node.idents, (node,)))
        if isinstance(node, n.VariableNode):
            return _without_final(self.variable(node, (node,)))
        if isinstance(node, n.ChainNode):
            return _without_final(self.chain(node, (node,)))
        if isinstance(node, n.IdentifierNode):
            return _without_final(self.function(node, node, (node,)))
        return None


def printed(state: State, node: n.Node, value: Any) -> str:
    """Return the value of an action as it is printed (exec.go printValue)."""
    if value is NO_VALUE:
        return "<no value>"
    value = indirect(value)[0]
    if isinstance(value, Func):
        state.fail(f"can't print {node} of type {type_of(value)}")
    return sprint(value)


def _nothing(_state: State, _dot: Any) -> None:
    return None


def _no_value(_state: State, _dot: Any) -> Any:
    return NO_VALUE


def _dot(_state: State, dot: Any) -> Any:
    return dot


def _at(state: State, node: n.Node, value: Any) -> Any:
    state.node = node
    return value


def _failing(node: n.Node, reason: str) -> Step:
    def run(state: State, _dot: Any) -> Any:
        state.node = node
        state.fail(reason)

    return run


def _single(pipe: n.PipeNode, stage: Stage) -> Step:
    def run(state: State, dot: Any) -> Any:
        state.node = pipe
        value = stage(state, dot, MISSING)
        return NO_VALUE if value is None else value

    return run


def _piped(pipe: n.PipeNode, stages: tuple[Stage, ...]) -> Step:
    def run(state: State, dot: Any) -> Any:
        state.node = pipe
        value: Any = MISSING
        for stage in stages:
            value = stage(state, dot, value)
            if value is None:
                value = NO_VALUE
        return value

    return run


def _without_final(stage: Stage) -> Step:
    return lambda state, dot: stage(state, dot, MISSING)


def _operand(args: tuple[n.Node, ...], node: n.Node | None, value_of: Step) -> Stage:
    """Compile a command that is no function: it takes no arguments (exec.go notAFunction)."""
    has_args = len(args) > 1

    def run(state: State, dot: Any, final: Any) -> Any:
        if node is not None:
            state.node = node
        if has_args or final is not MISSING:
            state.fail(f"can't give argument to non-function {args[0]}")
        return value_of(state, dot)

    return run


def _entries(state: State, node: n.RangeNode, value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield what range ranges over: index and element, key and element, or the integers below one."""
    if isinstance(value, list | bytes):
        yield from enumerate(value)
    elif isinstance(value, dict):
        yield from sorted_items(value)
    elif value is None or value is NO_VALUE:
        return
    elif kind_of(value).startswith(("int", "uint")):
        if len(node.pipe.decl) > 1:
            state.fail(f"can't use {sprint(value)} to iterate over more than one variable")
        make = type(value)
        for number in range(value):
            yield NO_VALUE, make(number)
    else:
        shown = "<nil>" if isinstance(value, Pointer) else sprint(value)
        state.fail(f"range can't iterate over {shown}")


def _check_count(state: State, name: str, signature: Signature, args: int, count: int) -> None:
    fixed = len(signature.params)
    if signature.variadic:
        if count < fixed:
            state.fail(f"wrong number of args for {name}: want at least {fixed} got {args}")
    else:
        state.fail(f"wrong number of args for {name}: want {fixed} got {count}")


def _short_circuit(name: str, values: tuple[Step, ...], signature: Signature) -> Stage:
    stops_at = name == "or"

    def run(state: State, dot: Any, final: Any) -> Any:
        if not values and final is MISSING:
            _check_count(state, name, signature, 0, 0)
        value: Any = NO_VALUE
        for value_of in values:
            value = value_of(state, dot)
            if is_true(value) is stops_at:
                return value
        return value if final is MISSING else final

    return run


def _call_of(at: n.Node, args: tuple[n.Node, ...], values: tuple[Step, ...]) -> Stage:
    """Compile the builtin call, which calls its first argument with the others."""
    shown = str(args[0]) if args else ""

    def run(state: State, dot: Any, final: Any) -> Any:
        given = [value_of(state, dot) for value_of in values] + ([] if final is MISSING else [final])
        if not given:
            _check_count(state, "call", Signature(("reflect.Value",), "reflect.Value"), 0, 0)
        try:
            return _called(shown, given[0], given[1:])
        except FuncError as error:
            state.node = at
            state.fail(f"error calling call: {error}")

    return run


def _called(shown: str, func: Any, args: list[Any]) -> Any:
    if func is None or func is NO_VALUE:
        raise FuncError("call of nil")
    if not isinstance(func, Func):
        raise FuncError(f"non-function {shown} of type {type_of(func)}")
    signature = parse_signature(func.signature)
    if signature.variadic and len(args) < len(signature.params):
        raise FuncError(f"wrong number of args for {shown}: got {len(args)} want at least {len(signature.params)}")
    if not signature.variadic and len(args) != len(signature.params):
        raise FuncError(f"wrong number of args for {shown}: got {len(args)} want {len(signature.params)}")
    for index, arg in enumerate(args):
        wanted = signature.type_at(index)
        if wanted != ANY and type_of(arg) != wanted:
            raise FuncError(f"arg {index}: value has type {type_of(arg)}; should be {wanted}")
    return func.call(*args)

"""Pipelines into Python: what text/template/exec.go's eval functions do, written out for one pipeline.

Each method follows the function of exec.go that its docstring names, and visits nodes in the same order: ``place`` is what
``state.node`` would be after the lines written so far.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from injector.gotemplate import nodes as n
from injector.gotemplate.arguments import REFLECT, checked, constant, free_constant
from injector.gotemplate.costs import metered
from injector.gotemplate.failures import Failure
from injector.gotemplate.operands import NO_VALUE_CODE, NOTHING, Operand, Variable, container_of, folded
from injector.gotemplate.reflect import ANY
from injector.gotemplate.signatures import Signature, parse_signature
from injector.gotemplate.source import Mark, Origin, Place, Source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from injector.gotemplate.values import Func

_CLASSES: Final = {"string": "str", "bool": "bool", "int": "int", "float64": "float"}
"""Types whose values are of one Python class, so that generated code can check them at once."""
_COMPARED: Final = {"eq": "==", "ne": "!="}


class Pipelines:
    """Writes pipelines of one template."""

    def __init__(
        self, source: Source, tree: n.Tree, functions: Mapping[str, Func], builtins: Mapping[str, Func]
    ) -> None:
        self.source = source
        self.tree = tree
        self.functions = functions
        self.builtins = builtins
        self.place: Place = tree.root
        self.dot = Operand("d0")
        self.scope: list[Variable] = [Variable("$", self.dot)]
        self.tracked: frozenset[str] = frozenset()
        self.assigned: frozenset[str] = frozenset()
        self.optional = 0
        self.changing: set[str] = set()

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

    def assign_once(self, expression: str, value: Operand, **mark: Any) -> str:
        """Write a line that assigns an expression of ``value``, unless a name holds its value already; return the name.

        An equal line that ran before, in the same block or in one around it, did not fail, and would give the same again.
        """
        if value.code in self.changing:
            return self.assign(expression, **mark)
        name = self.source.computed(expression)
        if not name:
            name = self.assign(expression, **mark)
            self.source.note_computed(expression, name)
        return name

    def fail(self, reason: str) -> Operand:
        """Write a line that fails, in place of a value."""
        self.line(f"FAIL({reason!r})")
        return NOTHING

    def constant(self, value: Any, go_type: str = "") -> Operand:
        """Return a constant."""
        return Operand(self.source.literal(value), go_type, value is None, is_constant=True, value=value)

    # --- pipelines

    def pipeline(self, pipe: n.PipeNode, *, binds: bool = True) -> Operand:
        """Write a pipeline (evalPipeline); its value may still be a nil interface, see ``settled``."""
        self.place = pipe
        value: Operand | None = None
        for command in pipe.cmds:
            value = self.command(command, None if value is None else self.settled(value))
        assert value is not None  # noqa: S101 - the parser refuses empty pipelines
        if pipe.decl and binds:
            value = self.settled(value)
            for variable in pipe.decl:
                self.bind(variable.idents[0], value, is_assign=pipe.is_assign)
        return value

    def settled(self, value: Operand) -> Operand:
        """Make a nil interface no value, as the end of a pipeline does."""
        if value.is_constant:
            return NOTHING if value.value is None else value
        if not value.nilable:
            return replace(value, origin=None) if value.origin else value
        return Operand(self.assign(f"{value.code} if {value.code} is not None else {NO_VALUE_CODE}"))

    def bind(self, name: str, value: Operand, *, is_assign: bool) -> None:
        """Declare or assign a variable (push and setVar)."""
        if not is_assign:
            self.declare(name, value)
            return
        variable = self.lookup(name)
        if variable is None:
            self.fail(f"undefined variable: {name}")
            return
        self.set(variable, value)

    def declare(self, name: str, value: Operand) -> Variable:
        """Write the declaration of a variable with a value."""
        local = self.source.fresh("v")
        if name in self.assigned:
            self.changing.add(local)
        origin = Origin(self.source.fresh("o")) if name in self.tracked else None
        variable = Variable(name, Operand(local, nilable=origin is not None, origin=origin), maybe=self.optional > 0)
        self.set(variable, value)
        self.scope.append(variable)
        return variable

    def set(self, variable: Variable, value: Operand) -> None:
        """Write the assignment of a value to a variable, with what the value is an element of."""
        self.line(f"{variable.operand.code} = {value.code}")
        if variable.operand.origin is not None:
            origin = value.origin
            held_by = f"KEYED({origin.container})" if origin and origin.is_key else container_of(value)
            self.line(f"{variable.operand.origin.container} = {held_by}")

    def lookup(self, name: str) -> Variable | None:
        """Return the variable that a name means."""
        return next((variable for variable in reversed(self.scope) if variable.name == name), None)

    # --- commands

    def command(self, command: n.CommandNode, final: Operand | None) -> Operand:
        """Write a command (evalCommand)."""
        first = command.args[0]
        if isinstance(first, n.FieldNode):
            self.place = first
            return self.fields(first, self.dot, first.idents, command.args, final)
        if isinstance(first, n.ChainNode):
            return self.chain(first, command.args, final)
        if isinstance(first, n.IdentifierNode):
            return self.function(first, command, command.args, final)
        if isinstance(first, n.PipeNode):
            return self.lone(command.args, final) or self.settled(self.pipeline(first))
        if isinstance(first, n.VariableNode):
            return self.variable(first, command.args, final)
        self.place = first
        return self.lone(command.args, final) or self.word(first)

    def lone(self, args: Sequence[n.Node], final: Operand | None) -> Operand | None:
        """Write the failure of an operand that is given arguments and is no function (notAFunction)."""
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
            return self.fail(failure.reason)

    def variable(self, node: n.VariableNode, args: Sequence[n.Node], final: Operand | None) -> Operand:
        """Write a variable and its fields (evalVariableNode)."""
        self.place = node
        value = self.variable_value(node.idents[0])
        if len(node.idents) == 1:
            return self.lone(args, final) or value
        return self.fields(node, value, node.idents[1:], args, final)

    def variable_value(self, name: str) -> Operand:
        """Return the value of a variable (varValue); at run time if an operand that did not run may have declared it."""
        known = [variable for variable in self.scope if variable.name == name]
        if not known:
            return self.fail(f"undefined variable: {name}")
        if not known[-1].maybe:
            return known[-1].operand
        found = f"UNDEFINED({name!r})"
        for variable in known:
            code = variable.operand.code
            found = f"({code} if {code} is not UNSET else {found})" if variable.maybe else code
        return Operand(self.assign(found), nilable=True)

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
            return Operand(self.assign_once(f"FIELD({code}, {name!r})", receiver, call=node), nilable=True)
        fast = f"{code}[{name!r}] if {code}.__class__ is dict and {name!r} in {code} else FIELD({code}, {name!r})"
        found = self.assign_once(fast, receiver, call=node, origin=receiver.origin)
        return Operand(found, nilable=True, origin=Origin(code, name))

    def method(
        self, node: n.Node, receiver: Operand, name: str, args: Sequence[n.Node], final: Operand | None
    ) -> Operand:
        """Write a method with arguments, whose types are known only when it is found (evalField and evalCall)."""
        method = self.assign(f"METHOD({receiver.code}, {name!r})", origin=receiver.origin)
        result, place = self.source.fresh("t"), self.source.fresh("n")
        self.line(f"{result} = {NO_VALUE_CODE}; {place} = {self.where()}")
        with self.source.block(f"if {method} is not {NO_VALUE_CODE}:", self.mark()):
            self.line(f"COUNT({method}, {name!r}, {len(args)}, {final is not None})")
            given = [self.method_argument(method, index, arg) for index, arg in enumerate(args)]
            if final is not None:
                given.append(self.assign(f"CHECK({final.code}, TYPE({method}, {len(args)}))"))
            self.line(f"{result} = {method}.call({', '.join(given)})", call=node, name=name)
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
        is_builtin = self.builtins.get(node.name) is func
        if is_builtin and node.name in ("and", "or"):
            return self.short_circuit(node.name, args[1:], final)
        given = [self.argument(arg, signature.type_at(index)) for index, arg in enumerate(args[1:])]
        if final is not None:
            given.append(self.checked(final, signature.type_at(len(given))))
        if is_builtin:
            return self.builtin(func, command, args, given, signature)
        return self.call(func, node.name, command, given, signature)

    def call(self, func: Func, name: str, command: n.Node, given: Sequence[Operand], signature: Signature) -> Operand:
        """Write the call itself, which counts what it takes."""
        func = metered(func)
        known = folded(func, given)
        if known is not None:
            return self.constant(known, signature.result if signature.result in _CLASSES else "")
        arguments = ", ".join(operand.code for operand in given)
        result = self.assign(f"{self.source.function(func)}({arguments})", call=command, name=name)
        is_any = signature.result in (ANY, REFLECT)
        sure = signature.result if signature.result in _CLASSES else ""
        return Operand(result, sure, is_any, Origin("") if is_any else None)

    def builtin(
        self, func: Func, command: n.Node, args: Sequence[n.Node], given: Sequence[Operand], signature: Signature
    ) -> Operand:
        """Write the call of one of Go's own functions, in line where that is short."""
        if func.name == "not":
            return Operand(self.assign(f"not {given[0].code}"), "bool")
        if func.name in _COMPARED and len(given) == 2:  # noqa: PLR2004 - the common case
            for one, other in (given, given[::-1]):
                if type(one.value) is str and not other.is_constant:
                    fast = f"{other.code} {_COMPARED[func.name]} {one.code} if {other.code}.__class__ is str"
                    slow = f"{func.name.upper()}({given[0].code}, {given[1].code})"
                    return Operand(self.assign(f"{fast} else {slow}", call=command, name=func.name), "bool")
        if func.name == "slice":
            # Go's slice looks at its indexes as they come, not at what is inside an interface.
            given = [given[0], *map(self.as_reflected, given[1:])]
        if func.name == "call":
            shown = f"SHOW({given[0].code})" if len(args) == 1 else repr(str(args[1]))
            codes = ", ".join([shown, *(operand.code for operand in given)])
            return Operand(self.assign(f"CALL({codes})", call=command, name="call"), nilable=True, origin=Origin(""))
        return self.call(func, func.name, command, given, signature)

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
        known = len(self.scope)
        head = len(self.source.lines)
        operands: list[n.Node | Operand] = [*args, *([] if final is None else [final])]
        self.alternatives(operands, f"if {'not ' * (name == 'or')}{result}:", result, place)
        for variable in self.scope[known:]:
            if variable.maybe:
                self.source.insert(head, f"{variable.operand.code} = UNSET", self.mark())
        self.place = place
        return Operand(result, nilable=True, origin=Origin(""))

    def alternatives(self, operands: Sequence[n.Node | Operand], head: str, result: str, place: str) -> None:
        """Write the operands of ``and`` or ``or``, each behind the question whether the one before it was decisive."""
        first, *others = operands
        self.alternative(first, result, place)
        self.optional += 1
        for operand in others:
            with self.source.block(head, self.mark()):
                self.alternative(operand, result, place)
        self.optional -= 1

    def alternative(self, operand: n.Node | Operand, result: str, place: str) -> None:
        """Write an operand as the result so far."""
        value = self.argument(operand, REFLECT) if isinstance(operand, n.Node) else operand
        self.line(f"{result} = {value.code}; {place} = {self.where()}")

    # --- arguments

    def argument(self, node: n.Node, go_type: str) -> Operand:
        """Write an argument for a parameter of a type (evalArg)."""
        value = self.argument_value(node)
        if value is not None:
            return self.checked(value, go_type)
        try:
            return self.constant(constant(node, go_type), go_type if go_type in _CLASSES else "")
        except Failure as failure:
            return self.fail(failure.reason)

    def argument_value(self, node: n.Node) -> Operand | None:
        """Write an argument that is no constant; None for one that is."""
        self.place = node
        if isinstance(node, n.DotNode):
            return self.dot
        if isinstance(node, n.PipeNode):
            return self.settled(self.pipeline(node))
        if isinstance(node, n.FieldNode):
            return self.fields(node, self.dot, node.idents, (node,), None)
        if isinstance(node, n.VariableNode):
            return self.variable(node, (node,), None)
        if isinstance(node, n.ChainNode):
            return self.chain(node, (node,), None)
        if isinstance(node, n.IdentifierNode):
            return self.function(node, node, (node,), None)
        return None

    def checked(self, value: Operand, go_type: str) -> Operand:
        """Write the check of a value against a parameter's type (validateType)."""
        if go_type == REFLECT or (value.type and value.type == go_type):
            return value
        if value.is_constant:
            try:
                return self.constant(checked(value.value, go_type), go_type if go_type in _CLASSES else "")
            except Failure as failure:
                return self.fail(failure.reason)
        if go_type == ANY:
            if value.type:
                return value
            return Operand(self.assign(f"{value.code} if {value.code} is not {NO_VALUE_CODE} else None"), nilable=True)
        slow = f"CHECK({value.code}, {go_type!r}, {container_of(value)})"
        python = _CLASSES.get(go_type)
        fast = f"{value.code} if {value.code}.__class__ is {python} else " if python else ""
        return Operand(self.assign_once(fast + slow, value), go_type if python else "")

    def where(self) -> str:
        """Return an expression for the index of the present place."""
        return self.place if isinstance(self.place, str) else str(self.source.place_index(self.place))

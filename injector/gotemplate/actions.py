"""Actions into Python: what text/template/exec.go's walk functions do, written out for one template."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from injector.gotemplate import nodes as n
from injector.gotemplate.operands import NOTHING, Operand, Variable
from injector.gotemplate.pipelines import Pipelines
from injector.gotemplate.source import Origin
from injector.gotemplate.text import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from injector.gotemplate.source import Source
    from injector.gotemplate.values import Func

# How many actions may stand in a row before the budget is looked at again: functions may take their time.
_STRETCH: Final = 64
# A longer chain of else-if stands side by side instead of each link inside the one before it: Python's indentation is bounded.
_NESTED_LINKS: Final = 4


class Actions(Pipelines):
    """Writes the actions of one template.

    Text gathers until something else is printed, so that texts and constants that follow each other are one piece of output.
    """

    def __init__(
        self,
        source: Source,
        tree: n.Tree,
        functions: tuple[Mapping[str, Func], Mapping[str, Func]],
        bodies: Mapping[str, str],
        shown: Callable[[Any], str],
    ) -> None:
        super().__init__(source, tree, *functions)
        self.bodies = bodies
        self.shown = shown
        self.gathered: list[str] = []
        nodes = list(n.within(tree.root))
        ranged = {name for node in nodes if isinstance(node, n.RangeNode) for name in _names(node.pipe)}
        self.assigned = frozenset(
            name for node in nodes if isinstance(node, n.PipeNode) and node.is_assign for name in _names(node)
        )
        self.tracked = frozenset(ranged & self.assigned)

    def template(self) -> None:
        """Write the function that renders the template for a dot."""
        with self.source.block(f"def {self.bodies[self.tree.name]}(S, d0):", self.mark()):
            self.line(f"S.tick({_steps(self.tree.root)})")
            self.line("w = S.out.append")
            if "$" in self.assigned:
                self.declare("$", self.dot)
            self.nodes(self.tree.root)

    def nodes(self, body: n.ListNode) -> None:
        """Write the nodes of a list."""
        actions = 0
        for node in body.nodes:
            actions += not isinstance(node, n.TextNode)
            if actions > _STRETCH:
                self.line("S.tick(0)")
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
            self.line(f"w({''.join(self.gathered)!r})")
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
            self.gathered.append(self.shown(value.value))
            return
        self.flush()
        code = value.code
        self.line(
            f"w({code})" if value.type == "string" else f"w({code} if {code}.__class__ is str else PRINT({code}))"
        )

    def template_call(self, node: n.TemplateNode) -> None:
        """Write a call of another template (walkTemplate)."""
        self.flush()
        if node.name not in self.bodies:
            self.fail(f"template {quote(node.name)} not defined")
            return
        self.line("S.enter()")
        value = NOTHING if node.pipe is None else self.settled(self.pipeline(node.pipe))
        self.place = node
        self.line(f"{self.bodies[node.name]}(S, {value.code})")
        self.line("S.depth -= 1")

    def leave(self, node: n.BreakNode | n.ContinueNode) -> None:
        """Write ``break`` or ``continue``."""
        self.flush()
        self.line("break" if isinstance(node, n.BreakNode) else "continue")

    # --- if and with

    def branch(self, node: n.IfNode | n.WithNode) -> None:
        """Write ``if`` or ``with`` and what follows its ``else`` (walkIfOrWith)."""
        self.flush()
        known = len(self.scope)
        first, *others = _chain(node)
        if len(others) <= _NESTED_LINKS:
            self.nested(first, others)
        else:
            pending = self.source.fresh("p")
            self.link(first, pending)
            for link in others:
                with self.source.block(f"if {pending}:", self.mark()):
                    self.link(link, pending)
        del self.scope[known:]

    def nested(self, link: n.Branch | n.ListNode, others: Sequence[n.Branch | n.ListNode]) -> None:
        """Write a link and, as its ``else``, the others."""
        self.link(link, "")
        if others:
            with self.source.block("else:", self.mark()):
                self.nested(others[0], others[1:])

    def link(self, link: n.Branch | n.ListNode, pending: str) -> None:
        """Write a condition and its body; ``pending`` names the variable that says whether later links are to be tried."""
        if isinstance(link, n.ListNode):
            self.inside(link, self.dot)
            return
        self.place = link
        value = self.pipeline(link.pipe)
        moves = isinstance(link, n.WithNode)
        value = self.settled(value) if moves else value
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
        assigned = self.loop_variables(node.pipe, locals_, self.settled(value))
        targets = f"{key.code}, {dot.code} in PAIRS" if len(node.pipe.decl) > 1 else f"{dot.code} in EACH"
        with self.source.block(f"for {targets}({container}):", self.mark()):
            self.place = node.pipe
            self.line(f"S.tick({_steps(node.body)})")
            if empty:
                self.line(f"{empty} = False")
            for variable, local in assigned:
                self.set(variable, local)
            self.inside(node.body, dot)
        if node.else_body:
            with self.source.block(f"if {empty}:", self.mark()):
                # The variables hold the pipeline's value here, not an element of it.
                self.line(f"{container} = None")
                self.inside(node.else_body, self.dot)
        del self.scope[known:]

    def loop_variables(
        self, pipe: n.PipeNode, locals_: Sequence[Operand], value: Operand
    ) -> list[tuple[Variable, Operand]]:
        """Give the variables of a loop the pipeline's value, as evalPipeline does before the first round.

        Returns:
            Those that each round has to assign, with the local that holds the element or key. A variable that nothing else assigns
            is that local itself.
        """
        assigned: list[tuple[Variable, Operand]] = []
        for declared, local in zip(pipe.decl, locals_, strict=False):
            name = declared.idents[0]
            variable = self.lookup(name) if pipe.is_assign else None
            if variable is not None:
                self.set(variable, value)
            elif pipe.is_assign:
                self.fail(f"undefined variable: {name}")
                continue
            elif name in self.assigned:
                variable = self.declare(name, value)
            else:
                self.line(f"{local.code} = {value.code}")
                self.scope.append(Variable(name, local))
                continue
            assigned.append((variable, local))
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
        found = lists.pop().nodes
        steps += len(found)
        for node in found:
            if isinstance(node, n.BranchNode):
                inner = (None if isinstance(node, n.RangeNode) else node.body, node.else_body)
                lists += [each for each in inner if each is not None]
    return steps


def _names(pipe: n.PipeNode) -> Iterator[str]:
    return (variable.idents[0] for variable in pipe.decl)

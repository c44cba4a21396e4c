"""The sandbox of Jinja2 templates: the values and functions that they can access, and operators that charge the budget first.

Each expression of a template is a step. The steps of a body are counted before it runs, and those of its branches when they run. Beside
these, operators and functions count what depends on the values: their items and their length.

Only listed things are allowed. Templates can access keys and indices of data, some names of ``loop``, the exports of an imported
template and the blocks of ``self``. They can call macros, blocks, ``loop`` and the functions passed to them. They cannot access any
attribute or method of a Python object, such as ``str.format``.

The compiler writes calls of the environment instead of Python's operators, and evaluates nothing itself, since there is no budget while
it compiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from copy import copy
from types import MethodType
from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame, MacroRef, operators
from jinja2.environment import TemplateModule
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.runtime import BlockReference, LoopContext, Macro, TemplateReference, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import object_type_repr

from injector.gotemplate.budget import spend
from injector.istio.jinja.budget import (
    SEQUENCES,
    charge,
    check_bits,
    check_value_size,
    count_items,
    join_counted,
    measure,
    text_of,
)
from injector.istio.jinja.filters import JSON_FILTERS

_COUNTED: Final = "counted items"
"""The filter around the sequence of a loop. Templates cannot use it: its name has a space."""
_STEPS: Final = "counted steps"
"""The filter around an expression that is evaluated outside its body: the condition of a loop, and the default of an argument."""
_SUBSCRIPTED: Final = (dict, list, tuple, str, range, TemplateReference)
_CALL_STEPS: Final = 4
"""The steps for each item of an argument: Python functions walk it more than once."""
_SHORT: Final = 64
"""Characters of a constant that is compared without being measured."""
_SEQUENCES: Final = (str, *SEQUENCES)
_KEYS: Final = (str, int, float, type(None))
# fmt: off
_LOOP_NAMES: Final = frozenset({
    "changed", "cycle", "depth", "depth0", "first", "index", "index0", "last", "length", "nextitem", "previtem",
    "revindex", "revindex0",
})
# fmt: on


class TemplateFunction:
    """A function that templates can call with data, which ``Sandbox.call`` measures."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call


_CALLABLE: Final = (Macro, BlockReference)


class _Generator(CodeGenerator):
    """Writes calls of the environment where Jinja2 writes Python's operators."""

    def blockvisit(self, body: Iterable[nodes.Node], frame: Frame) -> None:
        statements = list(body)
        steps = _count_expressions(statements)
        if steps:
            self.writeline(f"environment.spend({steps})", statements[0])
        super().blockvisit(statements, frame)

    def visit_For(self, node: nodes.For, frame: Frame) -> None:  # noqa: N802 -- Jinja2's visitors are named so
        counted = copy(node)
        counted.iter = _filter(node.iter, _COUNTED)
        counted.test = node.test and _filter(node.test, _STEPS)
        super().visit_For(counted, frame)

    def macro_body(self, node: nodes.Macro | nodes.CallBlock, frame: Frame) -> tuple[Frame, MacroRef]:
        counted = copy(node)
        counted.defaults = [_filter(default, _STEPS) for default in node.defaults]
        return super().macro_body(counted, frame)

    def visit_Filter(self, node: nodes.Filter, frame: Frame) -> None:  # noqa: N802 -- Jinja2's visitors are named so
        if node.name == _COUNTED and node.node is not None:
            self._wrap("count_items", node.node, frame)
        elif node.name == _STEPS and node.node is not None:
            # ``spend`` returns None.
            self.write(f"(environment.spend({_count_expressions([node.node])}) or ")
            self.visit(node.node, frame)
            self.write(")")
        else:
            super().visit_Filter(node, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 -- Jinja2's visitors are named so
        self.write("environment.concat(")
        self.visit_Tuple(nodes.Tuple(node.nodes, "load"), frame)
        self.write(")")

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:  # noqa: N802 -- Jinja2's visitors are named so
        self.write("(")
        self._wrap("measure_value", node.expr, frame)
        for operand in node.ops:
            self.write(f" {operators[operand.op]} ")
            if isinstance(operand.expr, nodes.Const) and len(repr(operand.expr.value)) < _SHORT:
                self.visit(operand.expr, frame)
            else:
                self._wrap(
                    "measure_container" if operand.op in ("in", "notin") else "measure_value", operand.expr, frame
                )
        self.write(")")

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:  # noqa: N802 -- Jinja2's visitors are named so
        self.write("{")
        for item in node.items:
            self._wrap("measure_value", item.key, frame)
            self.write(": ")
            self.visit(item.value, frame)
            self.write(", ")
        self.write("}")

    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:  # noqa: N802 -- Jinja2's visitors are named so
        names = [node.attr]
        inner = node.node
        while isinstance(inner, nodes.Getattr):
            names.append(inner.attr)
            inner = inner.node
        self.write("environment.path(")
        self.visit(inner, frame)
        self.write(f", {tuple(reversed(names))!r})")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802 -- Jinja2's visitors are named so
        if not isinstance(node.arg, nodes.Slice):
            self.write("environment.item(")
            self.visit(node.node, frame)
            self.write(", ")
            self.visit(node.arg, frame)
            self.write(")")
            return
        self.write("environment.take_slice(")
        self.visit(node.node, frame)
        for bound in (node.arg.start, node.arg.stop, node.arg.step):
            self.write(", ")
            self.visit(bound or nodes.Const(None), frame)
        self.write(")")

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        # Jinja2 would write ``str(finalize(...))``. ``finalize`` returns a text, and so does a filter that writes JSON.
        del frame, finalize
        filters = self.environment.filters
        is_text = isinstance(node, nodes.Filter) and filters.get(node.name) in JSON_FILTERS
        self.write("(" if is_text else "environment.text_of(")

    def _output_child_post(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        del node, frame, finalize
        self.write(")")

    def _wrap(self, call: str, node: nodes.Expr, frame: Frame) -> None:
        self.write(f"environment.{call}(")
        self.visit(node, frame)
        self.write(")")


def _filter(node: nodes.Node, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def _count_expressions(body: Iterable[nodes.Node]) -> int:
    """Return the number of expressions in a body, without those of the bodies in it."""
    count = 0
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        count += isinstance(node, nodes.Expr)
        waiting += node.iter_child_nodes(exclude=("body", "else_"))
    return count


class _Template(jinja2.Template):
    """A template whose module is created by each rendering that imports it, and never shared."""

    def _get_default_module(self, ctx: jinja2.runtime.Context | None = None) -> TemplateModule:
        del ctx
        return self.make_module()


@jinja2.pass_context
def _print(context: jinja2.runtime.Context, value: Any) -> str:
    # The compiler does not call it for constants, because it takes the context.
    del context
    return text_of(value)


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of all templates of one config."""

    code_generator_class = _Generator
    template_class = _Template
    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    def __init__(self, templates: Mapping[str, str]) -> None:
        super().__init__(
            loader=jinja2.DictLoader(dict(templates)),
            undefined=jinja2.StrictUndefined,
            finalize=_print,
            autoescape=False,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            optimized=False,
            auto_reload=False,
            cache_size=-1,
        )

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for node in tree.find_all(nodes.ScopedEvalContextModifier):
            raise TemplateSyntaxError("the tag autoescape is not available", node.lineno, name, filename)
        return tree

    def concat(self, parts: Iterable[Any]) -> str:
        """Return the output of a macro, a block or ``{% set %}``, or the operands of ``~``, as one text."""
        return join_counted(parts)

    spend = staticmethod(spend)
    count_items = staticmethod(count_items)
    text_of = staticmethod(text_of)

    def measure_value(self, value: Any) -> Any:
        """Measure a value that is going to be compared or hashed."""
        if not isinstance(value, Undefined):
            measure(value)
        return value

    def measure_container(self, value: Any) -> Any:
        """Measure a value in which another is looked for, but no mapping: its size does not matter for finding a key."""
        return value if value.__class__ is dict else self.measure_value(value)

    def take_slice(self, value: Any, start: Any, stop: Any, step: Any) -> Any:
        """Return a slice."""
        if isinstance(value, _SEQUENCES):
            bounds = slice(start, stop, step)
            check_value_size(len(range(*bounds.indices(len(value)))))
            return charge(value[bounds])
        if isinstance(value, Undefined):
            str(value)
        raise SecurityError(f"{type(value).__name__} has no slices")

    def load(self, name: str) -> jinja2.Template:
        """Compile a template of the config, outside any rendering."""
        return super().get_template(name)

    def get_template(
        self,
        name: str | jinja2.Template,
        parent: str | None = None,
        globals: MutableMapping[str, Any] | None = None,  # noqa: A002 -- Jinja2's own signature
    ) -> jinja2.Template:
        """Return a template of the config while another is rendered; this is a step."""
        if isinstance(name, Undefined):
            str(name)
        if not isinstance(name, str):
            raise SecurityError(f"{type(name).__name__} is not a template name")
        spend()
        return super().get_template(name, parent, globals)

    def select_template(
        self,
        names: Iterable[str | jinja2.Template],
        parent: str | None = None,
        globals: MutableMapping[str, Any] | None = None,  # noqa: A002 -- Jinja2's own signature
    ) -> jinja2.Template:
        """Return the first template that exists."""
        measure(names)
        return super().select_template(names, parent, globals)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return ``obj[argument]`` for a filter that reads an attribute of each item; this is a step."""
        spend()
        return self.item(obj, argument)

    def path(self, obj: Any, names: tuple[str, ...]) -> Any:
        """Return ``obj.a.b``."""
        for name in names:
            obj = self.item(obj, name)
        return obj

    def item(self, obj: Any, argument: Any) -> Any:
        """Return ``obj[argument]``."""
        if argument.__class__ is str and isinstance(obj, dict) and argument in obj:
            return obj[argument]
        if isinstance(obj, Undefined):
            str(obj)
        if not isinstance(argument, _KEYS):
            raise SecurityError(f"{type(argument).__name__} is not a key")
        if isinstance(obj, _SUBSCRIPTED):
            try:
                return obj[argument]  # type: ignore[index] # of the wrong type: a TypeError
            except (TypeError, LookupError):
                pass
        if not isinstance(argument, str):
            return self.undefined(f"{object_type_repr(obj)} has no element {argument!r}")
        if _is_open(obj, argument):
            return getattr(obj, argument)
        if isinstance(obj, TemplateFunction) or hasattr(obj, argument):
            return self.unsafe_undefined(obj, argument)
        return self.undefined(obj=obj, name=argument)

    getattr = getitem  # type: ignore[assignment] # whose second argument may be of any type

    def call_binop(self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any) -> Any:
        """Return the result of an operator, if it is not too large."""
        if operator == "+" and left.__class__ is right.__class__ is str:
            check_value_size(len(left) + len(right))
            return charge(left + right)
        if operator == "**":
            raise SecurityError("the operator ** is not available")
        if operator == "%" and isinstance(left, str):
            raise SecurityError("formatting with % is not available; join the parts")
        _check_result(operator, left, right)
        return charge(super().call_binop(context, operator, left, right))

    def call(self, context: jinja2.runtime.Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a macro, a block, ``loop`` or a function of the sandbox."""
        spend((1 + _CALL_STEPS) * (len(args) + len(kwargs)))
        if obj.__class__ is TemplateFunction:
            if kwargs:
                # What Context.call does with a function that does not take the context.
                kwargs.pop("_block_vars", None)
                kwargs.pop("_loop_vars", None)
            for value in (*args, *kwargs.values()) if kwargs else args:
                measure(value, cost=_CALL_STEPS)
            return charge(obj.call(*args, **kwargs))
        if isinstance(obj, Undefined):
            str(obj)
        if isinstance(obj, LoopContext):
            args = tuple(map(count_items, args))
        elif isinstance(obj, MethodType) and isinstance(obj.__self__, LoopContext):
            for value in args:
                measure(value)
        elif not isinstance(obj, _CALLABLE):
            raise SecurityError(f"{type(obj).__name__} cannot be called")
        return charge(super().call(context, obj, *args, **kwargs))


def _is_open(obj: Any, name: str) -> bool:
    if isinstance(obj, LoopContext):
        return name in _LOOP_NAMES
    return isinstance(obj, TemplateModule) and name in vars(obj) and not name.startswith("_")


def _check_result(operator: str, left: Any, right: Any) -> None:
    if operator == "+" and isinstance(left, _SEQUENCES) and isinstance(right, _SEQUENCES):
        check_value_size(len(left) + len(right))
        return
    for value, other in ((left, right), (right, left)):
        if operator == "*" and isinstance(value, _SEQUENCES) and isinstance(other, int):
            check_value_size(len(value) * max(other, 0))
    bits = [value.bit_length() for value in (left, right) if isinstance(value, int)]
    check_bits(sum(bits) - 1 if operator == "*" else max(bits, default=0))

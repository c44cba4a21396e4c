"""Templates in Jinja2: the sandbox, its filters, and the budget of one rendering.

A revision with ``engine: jinja2`` is rendered here. The sandbox keeps templates from attributes and methods of Python; it does not bound
memory or time, so operators, loops and filters are counted. docs/jinja-revisions.md says what templates see.

Jinja2 is imported only by revisions that use it: ``istio.template`` loads this module when it meets one.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from injector.errors import DataError, TemplateRenderError
from injector.istio.functions import exclude_inbound_port
from injector.istio.jinjadata import jinja_data
from injector.istio.multus import AppendNetwork
from injector.kube.serial import dump_yaml, go_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from injector.istio.minor import Minor
    from injector.istio.template import Template, TemplateData

MAX_OUTPUT: Final = 1 << 20
MAX_STEPS: Final = 200_000
MAX_SECONDS: Final = 0.5
_CLOCK_EVERY: Final = 256
_BUDGET: Final = "_budget"
_COUNTED: Final = "_counted"
# fmt: off
_KEPT_FILTERS: Final = frozenset({
    "abs", "count", "d", "default", "dictsort", "first", "float", "int", "items", "join", "last", "length",
    "list", "lower", "map", "max", "min", "reject", "rejectattr", "replace", "reverse", "round", "select",
    "selectattr", "sort", "string", "sum", "trim", "unique", "upper",
})
# fmt: on


class BudgetSpentError(Exception):
    """A rendering that asks for more than it may; the text says of what."""


class _Budget:
    """Counts the steps of one rendering and looks at the clock."""

    __slots__ = ("clock", "deadline", "steps")

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.deadline = clock() + MAX_SECONDS
        self.steps = 0

    def tick(self) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise BudgetSpentError(f"more than {MAX_STEPS} steps")
        if self.steps % _CLOCK_EVERY == 0 and self.clock() > self.deadline:
            raise BudgetSpentError(f"more than {MAX_SECONDS:g} s")


def _check_size(size: int) -> None:
    if size > MAX_OUTPUT:
        raise BudgetSpentError(f"a value of {size} bytes or items")


@jinja2.pass_context
def _counted(context: jinja2.runtime.Context, items: Iterable[Any]) -> Iterator[Any]:
    budget = context[_BUDGET]
    for item in items:
        budget.tick()
        yield item


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox with operators that look at what they would make, and loops that count."""

    intercepted_binops = frozenset({"*", "+", "%", "**", "//"})

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for loop in list(tree.find_all(nodes.For)):
            loop.iter = nodes.Filter(loop.iter, _COUNTED, [], [], None, None, lineno=loop.lineno)
        return tree

    def call_binop(self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any) -> Any:
        context[_BUDGET].tick()
        if operator == "**":
            raise SecurityError("the operator ** is not available")
        if operator == "%" and isinstance(left, str):
            raise SecurityError("formatting with % is not available; join the parts")
        for text, other in ((left, right), (right, left)):
            if isinstance(text, str | list | tuple):
                size = len(text) * max(other, 0) if isinstance(other, int) else len(text) + _length(other)
                _check_size(size)
        return super().call_binop(context, operator, left, right)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Allow attributes of mappings' items only: no method of any Python object is reachable."""
        del value
        return isinstance(obj, jinja2.runtime.LoopContext) and not attr.startswith("_")


def _length(value: Any) -> int:
    return len(value) if hasattr(value, "__len__") else 0


def _indent(text: str, width: int = 4, first: bool = False) -> str:  # noqa: FBT001, FBT002 - Jinja's own signature
    _check_size(len(text) + (text.count("\n") + 1) * max(width, 0))
    pad = " " * max(width, 0)
    return (pad if first else "") + text.replace("\n", "\n" + pad)


def _quote(value: Any) -> str:
    """Return a value as a JSON string, which is a YAML string whatever it holds."""
    return json.dumps(value if isinstance(value, str) else _text(value))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _to_json(value: Any) -> str:
    return go_json(value)


def _filters() -> dict[str, Callable[..., Any]]:
    return {
        "tojson": _to_json,
        "toyaml": lambda value: dump_yaml(value).rstrip("\n"),
        "quote": _quote,
        "indent": _indent,
        "fromjson": _from_json,
        "truncated": lambda text, size: text[:size],
        "rstripped": lambda text, characters: text.rstrip(characters),
        "split": lambda text, separator: text.split(separator),
        _COUNTED: _counted,
    }


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise jinja2.TemplateRuntimeError(f"it is not JSON: {error}") from error


def _environment(templates: Mapping[str, str]) -> _Environment:
    environment = _Environment(
        loader=jinja2.DictLoader(dict(templates)),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    kept = {name: call for name, call in environment.filters.items() if name in _KEPT_FILTERS}
    environment.filters = {**kept, **_filters()}
    environment.globals = {
        "range": environment.globals["range"],
        "exclude_inbound_port": exclude_inbound_port,
        "append_multus_network": AppendNetwork(once=True, namespaced=True),
    }
    return environment


@dataclass(frozen=True, slots=True)
class JinjaTemplate:
    """A compiled Jinja2 template behind the protocol of ``istio.template``."""

    name: str
    compiled: jinja2.Template
    minor: Minor
    clock: Callable[[], float] = time.monotonic

    def render(self, data: TemplateData) -> str:
        """Return the rendered text.

        Raises:
            TemplateRenderError: the template fails or spends its budget; with its line.
        """
        values = {**jinja_data(data, self.minor), _BUDGET: _Budget(self.clock)}
        parts: list[str] = []
        size = 0
        try:
            for part in self.compiled.generate(values):
                size += len(part.encode())
                _check_size(size)
                parts.append(part)
        except (jinja2.TemplateError, BudgetSpentError, DataError, TypeError, ValueError, ArithmeticError) as error:
            raise self._failed(error) from error
        except (RecursionError, KeyError, AttributeError, IndexError) as error:
            raise self._failed(error) from error
        return "".join(parts)

    def _failed(self, error: Exception) -> TemplateRenderError:
        line = _line_of(error)
        where = f"template {self.name}, line {line}" if line else f"template {self.name}"
        text = "nested too deeply" if isinstance(error, RecursionError) else str(error) or type(error).__name__
        if isinstance(error, BudgetSpentError):
            text = f"the template's budget is spent: {text}"
        return TemplateRenderError(text, where=where, hint="correct the template, or the annotation it reads")


def _line_of(error: Exception) -> int:
    line = getattr(error, "lineno", 0) or 0
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def compile_jinja_templates(templates: Mapping[str, str], minor: Minor) -> dict[str, Template]:
    """Compile the templates of an inject config; each may import and include the others by name.

    Raises:
        TemplateRenderError: one does not parse; with its line.
    """
    environment = _environment(templates)
    compiled: dict[str, Template] = {}
    for name in templates:
        try:
            compiled[name] = JinjaTemplate(name, environment.get_template(name), minor)
        except jinja2.TemplateSyntaxError as error:
            where = f"template {name}, line {error.lineno}"
            raise TemplateRenderError(
                error.message or "it does not parse", where=where, hint="correct the template"
            ) from error
    return compiled

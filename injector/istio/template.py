"""Templates of both engines behind one protocol, shared by revisions with equal texts.

Control planes of one minor mostly have the same templates, and of the templates of a revision that is changed most stay.
Compiling those of Istio 1.30 takes a fifth of a second, and what comes of it two megabytes.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias
from weakref import WeakValueDictionary

from injector.gotemplate import Budget, BudgetError, FuncError, TemplateError, compile_template
from injector.gotemplate import Template as GoTemplate
from injector.gotemplate.budget import reserve, spend
from injector.gotemplate.sprig import txt_func_map
from injector.gotemplate.values import Func, Struct
from injector.istio.frozen import FrozenDict
from injector.istio.functions import istio_functions
from injector.memo import Memo

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from injector.istio.behaviours import Minor


class TemplateData(Struct):
    """Istio's SidecarTemplateData: the fields that a minor has, by Go name."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, Any], *, only: frozenset[str] | None = None) -> None:
        self._fields = dict(fields) if only is None else {name: fields[name] for name in fields if name in only}

    @property
    def go_type(self) -> str:
        """The type as Go prints it."""
        return "inject.SidecarTemplateData"

    def field(self, name: str) -> Any:
        """Return a field; KeyError for one that the minor has not."""
        return self._fields[name]

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Yield the fields in Go's order."""
        return iter(self._fields.items())


class Template(Protocol):
    """A compiled template."""

    @property
    def hermetic(self) -> bool:
        """Whether the text depends on the data alone, and not on a clock, the environment or random numbers."""

    @property
    def called(self) -> frozenset[str]:
        """The names of the Go functions that it calls."""

    def render(self, data: TemplateData) -> str:
        """Return the rendered text; raise TemplateRenderError where the template fails or spends its budget."""


_RENDERED: Final[ContextVar[tuple[TemplateData, int] | None]] = ContextVar("rendered", default=None)
"""What is being rendered, and how deep inside itself: ``render`` gets neither as an argument."""

_COMPILED: Final = 16
_COMPILED_CHARACTERS: Final = 1 << 16
"""How many compiled texts are held, and how long they are together."""
_COMPILED_STEPS: Final = 10
_COMPILED_BYTES: Final = 200
"""What compiling a text takes for each character."""
_RENDER_SINCE: Final[Minor] = (1, 2)
_RENDER_UNTIL: Final[Minor] = (1, 13)
_RENDER_DEPTH: Final = 8
"""Istio's own templates render values that render nothing; Go would run until its stack is full."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class GoTextTemplate:
    """A Go template with Istio's functions and sprig's."""

    compiled: GoTemplate
    called: frozenset[str] = frozenset()

    @property
    def hermetic(self) -> bool:
        """Whether none of its functions reads a clock, the environment or random numbers."""
        return all(func.hermetic for func in self.compiled.functions.values())

    def render(self, data: TemplateData) -> str:
        """Return the rendered text."""
        token = _RENDERED.set((data, 0))
        try:
            return self.compiled.execute(data, budget=Budget())
        finally:
            _RENDERED.reset(token)


def _render(functions: Mapping[str, Func]) -> Func:
    """Return the function ``render`` of 1.2 to 1.13: a text, rendered with the data and functions of the template that calls it.

    Follows ``RunTemplate`` in pkg/kube/inject/inject.go (1.13.9): what cannot be rendered gives an empty text.
    """

    def render(text: str) -> str:
        spend(_COMPILED_STEPS * len(text))
        reserve(_COMPILED_BYTES * len(text))
        data, depth = _RENDERED.get() or (TemplateData({}), 0)
        if depth >= _RENDER_DEPTH:
            raise FuncError(f"templates render themselves deeper than {_RENDER_DEPTH}")
        token = _RENDERED.set((data, depth + 1))
        try:
            return _rendered(templates.get(text, compiled), data)
        except BudgetError:
            raise
        except TemplateError:
            return ""
        finally:
            _RENDERED.reset(token)

    def compiled(text: str) -> GoTemplate:
        return compile_template("inject", text, funcs=functions)

    templates: Memo[str, GoTemplate] = Memo(_COMPILED, _COMPILED_CHARACTERS, len)
    return Func("render", "func(string) string", render, hermetic=False, mutates=True)


def go_functions(minor: Minor, env: Mapping[str, str], *, with_sprig: bool) -> dict[str, Func]:
    """Return the functions of templates of ``minor``: Istio's win over sprig's, which win over Go's own."""
    functions = txt_func_map() if with_sprig else {}
    functions.update(istio_functions(minor, env))
    if _RENDER_SINCE <= minor <= _RENDER_UNTIL:
        functions["render"] = _render(functions)
    return functions


def compile_go_template(name: str, text: str, functions: Mapping[str, Func], delimiters: tuple[str, str]) -> Template:
    """Compile one Go template of an inject config.

    Raises:
        TemplateRenderError: it does not parse; the text names the template's line.
    """
    left, right = delimiters
    compiled = compile_template(name, text, funcs=functions, left=left, right=right)
    return GoTextTemplate(compiled, frozenset(func.name for func in compiled.functions.values()))


def _rendered(compiled: GoTemplate, data: TemplateData) -> str:
    return compiled.execute(data, budget=Budget())


Key: TypeAlias = "Hashable"


class Templates(FrozenDict):
    """Compiled templates by name. They keep nothing between renderings, so threads and revisions may share them."""

    __slots__ = ("__weakref__",)


_SHARED: Final[WeakValueDictionary[Key, Templates]] = WeakValueDictionary()
_SINGLE: Final[WeakValueDictionary[Key, Template]] = WeakValueDictionary()


def shared_templates(key: Key, compiled: Callable[[], Templates]) -> Templates:
    """Return the templates that a revision with an equal ``key`` has, else what ``compiled`` makes; its errors are not remembered."""
    found = _SHARED.get(key)
    if found is None:
        found = _SHARED[key] = compiled()
    return found


def shared_template(key: Key, compiled: Callable[[], Template]) -> Template:
    """Return the template that a revision with an equal ``key`` has among others, else what ``compiled`` makes."""
    found = _SINGLE.get(key)
    if found is None:
        found = _SINGLE[key] = compiled()
    return found

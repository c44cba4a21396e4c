"""Templates of both engines behind one protocol, and Go templates, which revisions with equal texts share.

Control planes of one minor mostly have the same templates, and most templates of a changed revision stay the same. Compiling all of
Istio 1.30 takes a fifth of a second and two megabytes. The Python of a template is written when it is first rendered.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakValueDictionary

from injector.gotemplate import BudgetError, FuncError, GoTemplate, TemplateError, compile_template
from injector.gotemplate.budget import reserve, spend
from injector.gotemplate.sprig import txt_func_map
from injector.gotemplate.values import Func, Pointer
from injector.istio.functions import istio_functions
from injector.istio.goview import FieldStruct
from injector.memo import Memo, share

if TYPE_CHECKING:
    from injector.istio.behaviours import Minor


class TemplateData(FieldStruct):
    """Istio's SidecarTemplateData: the fields of a minor, by Go name."""

    __slots__ = ()

    def __init__(self, fields: Mapping[str, Any], *, only: frozenset[str] | None = None) -> None:
        selected = {name: value for name, value in fields.items() if only is None or name in only}
        super().__init__("inject.SidecarTemplateData", selected)


class Template(Protocol):
    """A compiled template."""

    @property
    def hermetic(self) -> bool:
        """Whether the result depends only on the data, not on a clock, the environment or random numbers."""

    @property
    def is_pure(self) -> bool:
        """Whether it cannot change the data."""

    @property
    def called(self) -> frozenset[str]:
        """The names of the Go functions that it calls."""

    def render(self, data: TemplateData) -> str:
        """Return the rendered text; raise TemplateRenderError if the template fails or exceeds its budget."""


_RENDERED: Final[ContextVar[tuple[Pointer | None, int]]] = ContextVar("rendered", default=(None, 0))
"""The data of the current rendering, and the depth of ``render`` calls: Go's ``render`` gets neither as an argument."""

_SPRIG_SINCE: Final[Minor] = (1, 8)
# The function ``render``: its minors, and the texts that it keeps compiled.
_RENDER_SINCE: Final[Minor] = (1, 2)
_RENDER_UNTIL: Final[Minor] = (1, 13)
_MAX_COMPILED: Final = 16
_MAX_COMPILED_CHARACTERS: Final = 1 << 16
# The cost of compiling, for each character.
_COMPILE_STEPS: Final = 10
_COMPILE_BYTES: Final = 200
# Istio's own templates render values that call ``render`` no further; Go would recurse until its stack is full.
_MAX_RENDER_DEPTH: Final = 8


@dataclass(frozen=True, slots=True, weakref_slot=True)
class GoTextTemplate:
    """A Go template with Istio's functions and sprig's."""

    compiled: GoTemplate
    called: frozenset[str] = frozenset()

    @property
    def hermetic(self) -> bool:
        """Whether none of its functions reads a clock, the environment or random numbers."""
        return all(func.hermetic for func in self.compiled.functions)

    @property
    def is_pure(self) -> bool:
        """Whether it calls no function that changes a map."""
        return self.compiled.is_pure

    def render(self, data: TemplateData) -> str:
        """Return the rendered text."""
        pointer = Pointer(f"*{data.go_type}", data)
        token = _RENDERED.set((pointer, 0))
        try:
            return self.compiled.execute(pointer)
        finally:
            _RENDERED.reset(token)


def _render(functions: Mapping[str, Func]) -> Func:
    """Return the function ``render`` of 1.2 to 1.13, which renders a text with the data and functions of the calling template.

    Follows ``RunTemplate`` in pkg/kube/inject/inject.go (1.13.9): a text that cannot be rendered gives an empty text.
    """

    def render(text: str) -> str:
        spend(_COMPILE_STEPS * len(text))
        reserve(_COMPILE_BYTES * len(text))
        data, depth = _RENDERED.get()
        if depth >= _MAX_RENDER_DEPTH:
            raise FuncError(f"templates render themselves deeper than {_MAX_RENDER_DEPTH}")
        token = _RENDERED.set((data, depth + 1))
        try:
            return templates.get(text, compile_text).execute(data)
        except BudgetError:
            raise
        except TemplateError:
            return ""
        finally:
            _RENDERED.reset(token)

    def compile_text(text: str) -> GoTemplate:
        return compile_template("inject", text, funcs=functions)

    templates: Memo[str, GoTemplate] = Memo(_MAX_COMPILED, _MAX_COMPILED_CHARACTERS, len)
    return Func("render", "func(string) string", render, hermetic=False, mutates=True)


def go_functions(minor: Minor, env: Mapping[str, str]) -> dict[str, Func]:
    """Return the functions of templates of ``minor``: Istio's replace sprig's, which replace Go's own."""
    functions = txt_func_map(environ=env) if minor >= _SPRIG_SINCE else {}
    functions.update(istio_functions(minor, env))
    if _RENDER_SINCE <= minor <= _RENDER_UNTIL:
        functions["render"] = _render(functions)
    return functions


def compile_go_template(name: str, text: str, functions: Mapping[str, Func], delimiters: tuple[str, str]) -> Template:
    """Compile one Go template of an inject config. Raises TemplateRenderError, with the line, if it does not parse."""
    left, right = delimiters
    compiled = compile_template(name, text, funcs=functions, left=left, right=right)
    called = frozenset(func.name for func in compiled.functions)
    return GoTextTemplate(compiled, called)


_COMPILED: Final[WeakValueDictionary[Hashable, Template]] = WeakValueDictionary()


def compile_go_templates(
    texts: Mapping[str, str], delimiters: tuple[str, str], minor: Minor, env: Mapping[str, str]
) -> Mapping[str, Template]:
    """Compile the Go templates of an inject config, except those that another revision in use has already compiled.

    A compiled template keeps nothing between renderings, so threads and revisions can share it. Raises TemplateRenderError, with the line,
    if a template does not parse.
    """
    functions = cache(partial(go_functions, minor, env))

    def compile_one(name: str, text: str) -> Template:
        key = name, text, delimiters, minor, tuple(sorted(env.items()))
        return share(_COMPILED, key, lambda: compile_go_template(name, text, functions(), delimiters))

    return MappingProxyType({name: compile_one(name, text) for name, text in texts.items()})

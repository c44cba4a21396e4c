"""Templates of both engines behind one protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from injector.gotemplate import Budget, compile_template
from injector.gotemplate import Template as GoTemplate
from injector.gotemplate.sprig import txt_func_map
from injector.gotemplate.values import Struct
from injector.istio.functions import istio_functions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from injector.gotemplate.values import Func
    from injector.istio.minor import Minor


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

    def render(self, data: TemplateData) -> str:
        """Return the rendered text; raise TemplateRenderError where the template fails or spends its budget."""


@dataclass(frozen=True, slots=True)
class GoTextTemplate:
    """A Go template with Istio's functions and sprig's."""

    compiled: GoTemplate

    def render(self, data: TemplateData) -> str:
        """Return the rendered text."""
        return self.compiled.execute(data, budget=Budget())


def go_functions(minor: Minor, env: Mapping[str, str], *, with_sprig: bool) -> dict[str, Func]:
    """Return the functions of templates of ``minor``: Istio's win over sprig's, which win over Go's own."""
    functions = txt_func_map() if with_sprig else {}
    functions.update(istio_functions(minor, env))
    return functions


def compile_go_template(name: str, text: str, functions: Mapping[str, Func], delimiters: tuple[str, str]) -> Template:
    """Compile one Go template of an inject config.

    Raises:
        TemplateRenderError: it does not parse; the text names the template's line.
    """
    left, right = delimiters
    return GoTextTemplate(compile_template(name, text, funcs=functions, left=left, right=right))

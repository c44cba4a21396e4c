"""One template of a revision: rendered for a pod with the place of each line, and followed for what it reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from injector.errors import TemplateRenderError
from injector.gotemplate.builtins import BUILTINS
from injector.gotemplate.parser import parse_template
from injector.injection.authoring import goflow
from injector.injection.authoring.lint import is_gateway
from injector.injection.authoring.marked import Marked, mark_go, mark_jinja
from injector.injection.authoring.model import Model, Read
from injector.injection.data import Parameters, template_data
from injector.injection.pipeline import admitted_pod, seen_by_templates, validated, webhook_parameters
from injector.injection.render import select_templates
from injector.istio.config import SIDECAR_TEMPLATE_NAME
from injector.istio.template import TemplateData, go_functions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.injection.result import RequestFacts
    from injector.istio.revision import Revision


@dataclass(frozen=True)
class PodData:
    """The data of the templates for one pod, and the names of the templates that the pod gets."""

    params: Parameters
    names: tuple[str, ...]

    @classmethod
    def of(cls, revision: Revision, pod: dict[str, Any], facts: RequestFacts) -> PodData:
        """Return the data for a pod, whether a policy would inject it or not.

        Raises:
            DataError: the pod cannot be read, or Istio refuses one of its annotations.
        """
        admitted = admitted_pod(pod, facts.namespace)
        validated(revision, admitted)
        params = webhook_parameters(revision, admitted, facts)
        if revision.config.appends:
            return cls(params, (SIDECAR_TEMPLATE_NAME,))
        return cls(params, select_templates(revision, admitted, params.default_templates))

    def data(self) -> TemplateData:
        """Return the data for one rendering: a template may change it."""
        return template_data(self.params, seen_by_templates(self.params, webhook=True))


class TracedTemplate:
    """A template of a revision.

    Args:
        revision: the revision.
        name: the template's name.
    """

    def __init__(self, revision: Revision, name: str) -> None:
        self.name = name
        self._revision = revision
        self._text = revision.config.templates[name]
        self._model = Model(revision.minor, gateway=is_gateway(self._text))
        self._is_jinja = revision.engine == "jinja2"
        if self._is_jinja:
            self._branches = mark_jinja(revision.config.templates, name, revision.minor)
            self._render = self._branches.render
        else:
            left, right = revision.config.delimiters
            functions = {**BUILTINS, **go_functions(revision.minor, revision.env)}
            self._trees = parse_template(name, self._text, functions=functions, left=left, right=right)
            self._render = mark_go(self._trees, name, functions)

    def render(self, data: TemplateData) -> Marked:
        """Render the template.

        Raises:
            TemplateRenderError: it fails.
        """
        return self._render(data)

    def reads(self, marked: Marked | None = None) -> Mapping[Read, tuple[str, int]]:
        """Return what the template reads, with the template and line of the first read.

        Args:
            marked: a rendering, to leave out the branches that did not run.

        Raises:
            TemplateRenderError: another template of the config does not parse, or they nest too deeply.
        """
        ran = None if marked is None else marked.ran
        try:
            return self._jinja_reads(ran) if self._is_jinja else self._go_reads(ran)
        except RecursionError as error:
            raise TemplateRenderError("nested too deeply", where=f"template {self.name}", hint="simplify it") from error

    def _go_reads(self, ran: frozenset[int] | None) -> Mapping[Read, tuple[str, int]]:
        return goflow.follow(self._model, self._trees, self.name, ran).reads

    def _jinja_reads(self, ran: frozenset[int] | None) -> Mapping[Read, tuple[str, int]]:
        from injector.injection.authoring import jinjaflow  # noqa: PLC0415 -- only revisions that use Jinja2 load it
        from injector.istio.jinja.engine import environment_of, parse_jinja  # noqa: PLC0415

        texts = self._revision.config.templates
        environment = environment_of(texts)
        others = {name: parse_jinja(environment, name, text) for name, text in texts.items()}
        trees = {**others, self.name: self._branches.tree}
        return jinjaflow.follow(self._model, trees, self.name, ran, self._branches.skippable).reads

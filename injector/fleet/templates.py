"""The templates of a revision for their authors: linted, rendered for workloads, and the fields that they read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from injector.authoring.formatfile import JINJA
from injector.authoring.lint import Finding, lint_go, trials
from injector.authoring.model import Read, without_repeats
from injector.authoring.traced import PodData, TracedTemplate
from injector.errors import AnnotationError, ConfigError, DataError, UsageError
from injector.golang.json import dump_json
from injector.gotemplate import ParseError
from injector.injection.result import RequestFacts
from injector.kube.yaml import load_yaml
from injector.revisions.source import Texts, build, parse_texts

if TYPE_CHECKING:
    from injector.authoring.traced import Marked
    from injector.istio.revision import Revision
    from injector.kube.podtemplates import Created
    from injector.revisions.source import RawRevision

Reads: TypeAlias = Mapping[Read, tuple[str, int]]
"""The fields that a template reads, each with the template and the line that reads it first."""
SYNTAX: Final = "syntax"
"""The rule of a finding about a template that does not parse."""


@dataclass(frozen=True, slots=True)
class TemplateSelection:
    """A revision whose templates may have mistakes, and the names of those that a command is about."""

    raw: RawRevision
    texts: Texts
    names: tuple[str, ...]
    are_given: bool
    are_files: bool = False

    def build(self) -> Revision:
        """Build the revision. Raises DataError, which names the language of the templates if files were given, if it is not valid."""
        try:
            return build(self.raw)
        except ParseError as error:
            error.hint = self.language or error.hint
            raise

    @property
    def language(self) -> str:
        """The remedy for a template file in the other language; empty without files."""
        if not self.are_files:
            return ""
        own, other = ("Jinja2", "Go") if self.texts.engine == JINJA else ("Go", "Jinja2")
        by_config = " or --injectConfigFile" if other == "Go" else ""
        return f"revision {self.raw.name} has {own} templates; for one in {other}, give another --revision{by_config}"

    def of_pod(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the templates that the command line names, else ``names``, those of the pod. Raises AnnotationError if one is unknown."""
        if self.are_given:
            return self.names
        unknown = next((name for name in names if name not in self.texts.config.templates), None)
        if unknown is not None:
            known = ", ".join(sorted(self.texts.config.templates))
            raise AnnotationError(f"requested template {unknown[:80]!r} not found", hint=f"known are {known}")
        return names


def select_templates(raw: RawRevision, file_texts: Mapping[str, str], named: tuple[str, ...]) -> TemplateSelection:
    """Return templates of a revision: those that are named, or those of files, which are then its default ones, or else all.

    Raises UsageError if the revision has no template of a name, and DataError if one of its texts is not valid.
    """
    if file_texts:
        raw = _with_files(raw, file_texts)
    texts = parse_texts(raw)
    known = texts.config.templates
    unknown = next((name for name in named if name not in known), None)
    if unknown is not None:
        what = f"the revision {raw.name} has no template {unknown[:80]!r}"
        raise UsageError(what, where="--template", hint=f"known are {', '.join(sorted(known))}")
    names = named or tuple(file_texts)
    return TemplateSelection(raw, texts, names or tuple(known), bool(names), bool(file_texts))


def _with_files(raw: RawRevision, file_texts: Mapping[str, str]) -> RawRevision:
    config = load_yaml(raw.config, where=f"{raw.origin}: config")
    if not isinstance(config, dict):
        raise ConfigError("`config` is not a mapping", where=raw.origin, hint="give the key `config` unchanged")
    changed: dict[str, Any] = {
        **config,
        "defaultTemplates": list(file_texts),
        "templates": {**_templates(config), **file_texts},
    }
    return replace(raw, config=dump_json(changed).decode())


def _templates(config: dict[str, Any]) -> dict[str, Any]:
    templates = config.get("templates")
    if isinstance(templates, dict):
        return templates
    raise ConfigError(
        "a template of Istio 1.0 to 1.8 cannot be replaced by a file",
        where="[TEMPLATE]...",
        hint="give the whole config by --injectConfigFile",
    )


def lint_templates(templates: TemplateSelection) -> tuple[list[Finding], tuple[str, ...]]:
    """Return the mistakes of templates, and notes about rules that are not checked."""
    findings = [finding for name in templates.names for finding in _findings_of(templates, name)]
    notes: tuple[str, ...] = ()
    if not any(finding.rule in (SYNTAX, "function") for finding in findings):
        try:
            revision = templates.build()
            findings += [trial for name in templates.names for trial in trials(revision, name)]
        except DataError as error:
            notes = (f"the rule yaml is not checked: {error}",)
    return sorted(findings), notes


def _findings_of(templates: TemplateSelection, name: str) -> list[Finding]:
    texts, values = templates.texts, templates.texts.values.tree or None
    if texts.engine == JINJA:
        from injector.authoring.jinjalint import lint_jinja  # noqa: PLC0415 -- only its revisions load Jinja2

        return lint_jinja(name, texts.config.templates, texts.minor, values=values)
    config = texts.config
    return lint_go(name, config.templates[name], texts.minor, values=values, delimiters=config.delimiters)


@dataclass(frozen=True, slots=True)
class RenderedTemplate:
    """The result of a template for the pod of a workload."""

    workload: Created
    template: TracedTemplate
    result: Marked

    def data(self, **fields: Any) -> dict[str, Any]:
        """Return the workload and the template as JSON data, with more fields."""
        return {**self.workload.data(), "template": self.template.name, **fields}


def render_templates(templates: TemplateSelection, workloads: tuple[Created, ...]) -> Iterator[RenderedTemplate]:
    """Render the templates for each workload, even if the policy would skip it. Raises DataError if the revision or a pod is not valid."""
    revision = templates.build()
    known: dict[str, TracedTemplate] = {}
    for workload in workloads:
        facts = RequestFacts(workload.namespace, {}, revision.namespaces.get(workload.namespace))
        try:
            data = PodData.of(revision, workload.pod, facts)
            for name in templates.of_pod(data.names):
                template = known[name] = known.get(name) or TracedTemplate(revision, name)
                yield RenderedTemplate(workload, template, template.render(data.data()))
        except DataError as error:
            error.where = ": ".join(filter(None, (str(workload), error.where)))
            raise


def trace_templates(
    templates: TemplateSelection, workloads: tuple[Created, ...] | None
) -> list[tuple[dict[str, Any], Reads]]:
    """Return the fields that templates read for the pods of workloads, or without workloads in all branches.

    The JSON data about the workload and the template comes with the fields.
    """
    if workloads is not None:
        return [
            (rendered.data(), without_repeats(rendered.template.reads(rendered.result)))
            for rendered in render_templates(templates, workloads)
        ]
    revision = templates.build()
    return [({"template": name}, without_repeats(TracedTemplate(revision, name).reads())) for name in templates.names]

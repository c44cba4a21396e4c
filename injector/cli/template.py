"""``injector template``: tools for authors of templates: ``lint``, ``render``, ``trace``, ``fmt`` and ``test``."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from injector.authoring.formatting import format_go, format_jinja
from injector.authoring.lint import RULES, Finding, lint_go, trials
from injector.authoring.model import Read, format_path, without_repeats
from injector.authoring.traced import PodData, TracedTemplate
from injector.cli.commands import EX_DATAERR, EX_FAILED, Subcommands, verbose
from injector.cli.keys import CONFIG, FLAGS, TEMPLATE, check_content
from injector.cli.manifests import OTHER_KINDS_OPTION, SEPARATOR, read_workloads, workload_options, write_file
from injector.cli.options import FILE, exit_code_option, option_group, output_format
from injector.cli.output import DIFF_COLORS, HEADINGS, data_text, echo, echo_colored, examples, table, write_verbatim
from injector.cli.revisionoptions import RevisionOptions, revision_options
from injector.cli.sources import revision_option, revision_source_options, select_revisions
from injector.errors import AnnotationError, ConfigError, DataError, ManifestError, TemplateRenderError, UsageError
from injector.fleet.manifests import SUFFIXES, WorkloadFiles
from injector.golang.json import dump_json
from injector.gotemplate import ParseError
from injector.gotemplate.lexer import Kind, tokens
from injector.injection.pipeline import inject_pod, without_namespace
from injector.injection.result import RequestFacts, Skipped
from injector.istio.config import parse_inject_config
from injector.kube.escaping import escape_line
from injector.kube.yaml import dump_yaml, load_yaml
from injector.revisions.files import read_text, read_verbatim, required_text
from injector.revisions.source import SETTINGS_KEY, Texts, build, parse_settings, parse_texts

if TYPE_CHECKING:
    from injector.authoring.traced import Marked
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.fleet.sources import RevisionSources
    from injector.istio.revision import Revision
    from injector.kube.pods import Created, OtherKinds
    from injector.revisions.source import RawRevision


@click.group("template", cls=Subcommands, no_args_is_help=True)
@verbose
def template() -> None:
    """Check, render, trace, format and test the templates of a revision."""


@dataclass(frozen=True, slots=True)
class ChosenTemplates:
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
        own, other = ("Jinja2", "Go") if self.texts.engine == _JINJA else ("Go", "Jinja2")
        return f"revision {self.raw.name} has {own} templates; for one in {other}, give another --revision{_by_config(other)}"

    def of_pod(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the templates that the command line names, else ``names``, those of the pod. Raises AnnotationError if one is unknown."""
        if self.are_given:
            return self.names
        unknown = next((name for name in names if name not in self.texts.config.templates), None)
        if unknown is not None:
            known = ", ".join(sorted(self.texts.config.templates))
            raise AnnotationError(f"requested template {unknown[:80]!r} not found", hint=f"known are {known}")
        return names


def _by_config(language: str) -> str:
    return f" or {FLAGS[CONFIG]}" if language == "Go" else ""


def _select_templates(
    files: tuple[str, ...], named: tuple[str, ...], revision_source: RevisionOptions
) -> ChosenTemplates:
    """Read the revision, with the files as its default templates if there are any."""
    file_texts = {name: required_text(Path(name)) for name in files}
    for name, text in file_texts.items():
        check_content(text, TEMPLATE, where=name)
    raw = revision_source.read()
    if file_texts:
        raw = _with_files(raw, file_texts)
    texts = parse_texts(raw)
    known = texts.config.templates
    unknown = next((name for name in named if name not in known), None)
    if unknown is not None:
        what = f"the revision {raw.name} has no template {unknown[:80]!r}"
        raise UsageError(what, where="--template", hint=f"known are {', '.join(sorted(known))}")
    return ChosenTemplates(raw, texts, named or files or tuple(known), bool(named or files), bool(files))


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


template_options: Final = option_group(
    "templates",
    _select_templates,
    click.argument("files", metavar="[TEMPLATE]...", nargs=-1),
    click.option("-t", "--template", "named", metavar="NAME", multiple=True, help="Only this template. Repeatable."),
    revision_options,
)
"""Template files, ``--template`` and the options of a revision, as the parameter ``templates``."""


_SYNTAX: Final = "syntax"
_LINT_COLORS: Final = {r"^\S+:\d+:\d+:": "1", r"^ +\| +\^$": "1;31"}
_LONGEST_LINE: Final = 160


@template.command(
    "lint",
    epilog=examples(
        "template lint",
        "template lint --revision canary --ignore value",
        "template lint --revision stable --template sidecar -o json",
    ),
)
@template_options
@click.option("--ignore", multiple=True, type=click.Choice(RULES), help="Leave out the findings of a rule. Repeatable.")
@exit_code_option("there are findings")
@output_format("text", "json", "yaml")
@verbose
def lint(*, templates: ChosenTemplates, ignore: tuple[str, ...], exit_code: bool, output: str) -> None:
    """Report the mistakes of templates.

    The templates are those of the revision, or the TEMPLATE files. A TEMPLATE file is checked with the Istio version and the values
    of the revision. The rules:

    \b
    syntax       the template does not parse
    unquoted     a text of the pod can end its place in the YAML and add fields
    field        the Istio version of the revision has no such field
    function     it has no such function
    value        the values do not have it
    unreachable  a template that is never called, or a branch that is never taken
    yaml         the result is not YAML for some values

    The exit code is 1 if there are findings, and 65 if a template does not parse.
    """  # noqa: D301 -- click takes the character \b, not the backslash
    findings = [finding for finding in _findings(templates) if finding.rule not in ignore]
    if output == "text":
        echo_colored("".join(map(_finding_text, findings)), _LINT_COLORS)
    else:
        echo(data_text([finding.data() for finding in findings], output), nl=False)
    if templates.language and any(finding.rule == _SYNTAX for finding in findings):
        echo(f"note: {templates.language}", err=True)
    if findings and exit_code:
        does_not_parse = any(finding.rule == _SYNTAX for finding in findings)
        click.get_current_context().exit(EX_DATAERR if does_not_parse else EX_FAILED)


def _findings(templates: ChosenTemplates) -> list[Finding]:
    findings = [finding for name in templates.names for finding in _findings_of(templates, name)]
    if not any(finding.rule in (_SYNTAX, "function") for finding in findings):
        findings += _trials(templates)
    return sorted(findings)


def _findings_of(templates: ChosenTemplates, name: str) -> list[Finding]:
    texts, values = templates.texts, templates.texts.values.tree or None
    if texts.engine == "jinja2":
        from injector.authoring.jinjalint import lint_jinja  # noqa: PLC0415 -- only its revisions load Jinja2

        return lint_jinja(name, texts.config.templates, texts.minor, values=values)
    config = texts.config
    return lint_go(name, config.templates[name], texts.minor, values=values, delimiters=config.delimiters)


def _trials(templates: ChosenTemplates) -> Iterable[Finding]:
    try:
        revision = templates.build()
        return [trial for name in templates.names for trial in trials(revision, name)]
    except DataError as error:
        echo(f"note: the rule yaml is not checked: {error}", err=True)
        return []


def _finding_text(finding: Finding) -> str:
    place = f"{finding.template}:{finding.line}:{finding.column}"
    number = str(finding.line)
    start = max(0, finding.column - _LONGEST_LINE // 2) if len(finding.source) > _LONGEST_LINE else 0
    source = escape_line(finding.source[start : start + _LONGEST_LINE].replace("\t", " "))
    caret = " " * (finding.column - 1 - start) + "^"
    head = f"{escape_line(place)}: {finding.rule}: {escape_line(finding.what)}; {escape_line(finding.hint)}\n"
    return f"{head}  {number} | {source}\n  {' ' * len(number)} | {caret}\n\n"


_POD_OPTIONS: Final = workload_options("Namespace of workloads that name none. Default: default.")


@dataclass(frozen=True, slots=True)
class RenderedTemplate:
    """The result of a template for the pod of a workload."""

    workload: Created
    template: TracedTemplate
    result: Marked

    def data(self, **fields: Any) -> dict[str, Any]:
        """Return the workload and the template as JSON data, with more fields."""
        names = {"kind": self.workload.kind, "namespace": self.workload.namespace, "name": self.workload.name}
        return {**names, "template": self.template.name, **fields}


def render_templates(templates: ChosenTemplates, workloads: tuple[Created, ...]) -> Iterator[RenderedTemplate]:
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


_RENDER_COLORS: Final = {r"^# .*": "1", r"^\S+:\d+ +\|": "36"}


@template.command(
    "render",
    epilog=examples(
        "template render -f docs/samples/hello.yaml",
        "template render -r canary -f docs/samples/hello.yaml -o json",
    ),
)
@template_options
@_POD_OPTIONS
@output_format("text", "json", "yaml")
@verbose
def render(*, templates: ChosenTemplates, files: WorkloadFiles, output: str) -> None:
    """Print what templates render, with the place of each line.

    Each line of the result is printed with the line of the template that it comes from. If it comes from several, this is the line of its
    first text. The command renders the templates that a pod gets, or the TEMPLATE files, or the templates that --template names. Each
    of them renders a part of the pod. `injector kube-inject` merges the parts into the pod.
    """
    results = list(render_templates(templates, read_workloads(files)))
    if output == "text":
        echo_colored("".join(map(_render_text, results)), _RENDER_COLORS)
        return
    data = [
        template.data(
            lines=[{"place": f"{line.template}:{line.line}", "text": line.text} for line in template.result.lines]
        )
        for template in results
    ]
    echo(data_text(data, output), nl=False)


def _render_text(template: RenderedTemplate) -> str:
    places = [escape_line(f"{line.template}:{line.line}") for line in template.result.lines]
    width = max(map(len, places), default=0)
    lines = (
        f"{place.ljust(width)} | {escape_line(line.text)}".rstrip()
        for place, line in zip(places, template.result.lines, strict=True)
    )
    head = f"# {template.workload}, template {escape_line(template.template.name)}"
    return "\n".join((head, *lines)) + "\n"


_Reads: TypeAlias = Mapping[Read, tuple[str, int]]


@template.command(
    "trace",
    epilog=examples(
        "template trace",
        "template trace -f docs/samples/hello.yaml",
        "template trace --revision canary -t sidecar -o json",
    ),
)
@template_options
@_POD_OPTIONS
@output_format("text", "json", "yaml")
@verbose
def trace(*, templates: ChosenTemplates, files: WorkloadFiles, output: str) -> None:
    """Print the fields that templates read.

    The list has fields of the pod, the values and the mesh config, each with the first line that reads it. With -f, it has the fields that
    are read for the pods of the files, otherwise those of all branches. A field that is not in the list does not change the output. A
    field in the list may or may not change it. `[*]` stands for every item of a list or map.
    """
    if files.filenames:
        traced = [
            (template.data(), without_repeats(template.template.reads(template.result)))
            for template in render_templates(templates, read_workloads(files))
        ]
    else:
        revision = templates.build()
        traced = [
            ({"template": name}, without_repeats(TracedTemplate(revision, name).reads())) for name in templates.names
        ]
    if output == "text":
        echo_colored("\n".join(_reads_text(*reads) for reads in traced), HEADINGS)
        return
    data = [
        {
            **about,
            "reads": [
                {"field": format_path(read.path), "whole": read.deep, "place": f"{name}:{line}"}
                for read, (name, line) in reads.items()
            ],
        }
        for about, reads in traced
    ]
    echo(data_text(data, output), nl=False)


def _reads_text(about: dict[str, Any], reads: _Reads) -> str:
    of_pod = f"{about['kind']} {about['namespace']}/{about['name']}, " if "kind" in about else ""
    head = table(("FIELD", "FIRST READ"), [(str(read), f"{name}:{line}") for read, (name, line) in reads.items()])
    title = table((f"# {of_pod}template {about['template']}",), [])
    return f"{title}{head}"


_GO: Final = "go"
_JINJA: Final = "jinja2"


@template.command(
    "fmt", epilog=examples("template fmt revisions/stable/config --check", "template fmt sidecar.yaml --write")
)
@click.argument("names", metavar="TEMPLATE...", nargs=-1, required=True)
@click.option("-w", "--write", is_flag=True, help="Write the files that change, and print their names.")
@click.option("-l", "--check", is_flag=True, help="Print the names of the files that would change, and exit with 1.")
@click.option("-d", "--diff", is_flag=True, help="Print the changes, and exit with 1 if there are any.")
@click.option(
    "--engine",
    type=click.Choice([_GO, _JINJA]),
    help="Language of the templates. Default: that of revision.yaml in the same folder, or else go.",
)
@verbose
def fmt(*, names: tuple[str, ...], write: bool, check: bool, diff: bool, engine: str | None) -> None:
    """Format the actions of templates.

    A TEMPLATE is a file with a template, or the config of a revision. Actions get one space inside the delimiters, around `|` and `:=`, and
    after commas. Text, trim markers and comments do not change, so the output of the template does not change. Without a flag, the
    command prints the result.
    """
    if write + check + diff > 1:
        raise UsageError("--write, --check and --diff exclude each other", hint="give one of them")
    differ = False
    for name in names:
        before = required_text(Path(name), read_verbatim)
        if _config(before) is None:
            check_content(before, TEMPLATE, where=name)
        after = format_file(name, before, engine or _engine_of(Path(name)))
        differ = differ or before != after
        if not (write or check or diff):
            write_verbatim([after])
        elif before != after:
            _report(name, before, after, write=write, diff=diff)
    if differ and (check or diff):
        click.get_current_context().exit(EX_FAILED)


def _report(name: str, before: str, after: str, *, write: bool, diff: bool) -> None:
    if diff:
        echo_colored(_unified_diff(before, after, name, f"{name} (formatted)"), DIFF_COLORS)
        return
    if write:
        write_file(Path(name), [after])
    echo(name)


def _unified_diff(before: str, after: str, old: str, new: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), old, new, lineterm="")
    return "".join(f"{escape_line(line)}\n" for line in lines)


def _engine_of(path: Path) -> str:
    settings = path.parent / SETTINGS_KEY
    return _JINJA if parse_settings(read_text(settings), where=str(settings)).get("engine") == _JINJA else _GO


def format_file(name: str, text: str, engine: str) -> str:
    """Return a template, or the config of a revision, with its actions in the canonical form.

    Raises:
        DataError: a template does not parse, or the config has templates that are not block scalars.
    """
    config = _config(text)
    if config is None:
        return _format(name, text, engine, ("{{", "}}"))
    parsed = parse_inject_config(text, where=name)
    delimiters = parsed.delimiters
    expected = {
        key: {entry: _format(entry, inner, engine, delimiters) for entry, inner in value.items()}
        if key == "templates" and isinstance(value, dict)
        else _format(key, value, engine, delimiters)
        if key == "template" and isinstance(value, str)
        else value
        for key, value in config.items()
    }
    try:
        after = _format(name, text, engine, delimiters, parses=False)
    except TemplateRenderError:
        after = ""
    if _config(after) != expected:
        hint = "write the templates as block scalars, `sidecar: |`, without actions outside of them"
        raise ConfigError("the templates cannot be formatted in place", where=name, hint=hint)
    return after


def _config(text: str) -> dict[str, Any] | None:
    """Return a config of a revision; None if the text is something else."""
    try:
        document = load_yaml(text)
    except DataError:
        return None
    return document if isinstance(document, dict) and {"template", "templates"} & document.keys() else None


def _format(name: str, text: str, engine: str, delimiters: tuple[str, str], *, parses: bool = True) -> str:
    """Format a template; with ``parses``, check that it parses, and to the same as before."""
    if engine == _JINJA:
        from injector.istio.jinja.engine import environment_of, parse_jinja  # noqa: PLC0415 -- only its templates load Jinja2

        after, environment = format_jinja(text), environment_of({})
        is_same = not parses or parse_jinja(environment, name, text) == parse_jinja(environment, name, after)
    else:
        try:
            after = format_go(text, delimiters)
        except ParseError as error:
            where = f"{name}:{error.line}"
            raise TemplateRenderError(error.reason, where=where, hint="correct the template") from error
        is_same = _tokens(text, delimiters) == _tokens(after, delimiters)
    if not is_same:
        raise TemplateRenderError("cannot be formatted without a change", where=name, hint="report it")
    return after


def _tokens(text: str, delimiters: tuple[str, str]) -> list[tuple[Kind, str]]:
    return [(token.kind, token.text) for token in tokens(text, *delimiters) if token.kind is not Kind.SPACE]


EXPECTED: Final = "expected"
_TEST_COLORS: Final = {r"^ok .*": "32", r"^FAIL .*": "1;31", **DIFF_COLORS}


@template.command("test", epilog=examples("template test goldens", "template test goldens -r 1-28 -r 1-30 --update"))
@click.argument("folder", type=FILE)
@revision_option(
    "Revision or tag. Repeatable. Default: those with expected results, or else the default revision.", multiple=True
)
@click.option("--update", is_flag=True, help="Write the results as the expected ones.")
@revision_source_options
@OTHER_KINDS_OPTION
@verbose
def test(
    *,
    folder: Path,
    revision: tuple[str, ...],
    update: bool,
    sources: RevisionSources,
    kubeconfig: Kubeconfig,
    others: OtherKinds,
) -> None:
    """Compare injected pods with golden files.

    FOLDER contains files with pods or workloads. For each of them, FOLDER/expected/REVISION contains a file of the same name, with the
    pods that the webhook of the revision returns, or with the reason if it skips or refuses a pod. --update writes these files. The
    exit code is 1 if a result differs.
    """
    files = _pod_files(folder)
    failed = False
    with select_revisions(sources, kubeconfig) as revisions:
        for revision_name in revision or _with_goldens(folder):
            raw = revisions.find(revision_name)
            name, built = revision_name or raw.name, revisions.build(raw)
            for file in files:
                expected, result = folder / EXPECTED / name / file.name, _inject(file, built, others)
                difference = _difference(expected, result)
                failed = failed or (bool(difference) and not update)
                if update and difference:
                    expected.parent.mkdir(parents=True, exist_ok=True)
                    write_file(expected, [result])
                word = "ok  " if not difference else "wrote" if update else "FAIL"
                echo_colored(f"{word} {name} {escape_line(file.name)}\n", _TEST_COLORS)
                if difference and not update:
                    echo_colored(difference, _TEST_COLORS)
    if failed:
        echo("error: results differ; if they are right, --update writes them as the expected ones", err=True)
        click.get_current_context().exit(EX_FAILED)


def _pod_files(folder: Path) -> list[Path]:
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())
    except OSError as error:
        hint = "give a folder with files of pods"
        raise ManifestError(f"cannot be read: {error.strerror}", where=str(folder), hint=hint) from error
    if not files:
        raise ManifestError("the folder has no .yaml, .yml or .json file", where=str(folder), hint="add a pod to it")
    return files


def _with_goldens(folder: Path) -> tuple[str, ...]:
    expected = folder / EXPECTED
    folders = (path.name for path in expected.iterdir() if path.is_dir()) if expected.is_dir() else ()
    return tuple(sorted(folders)) or ("",)


def _inject(file: Path, revision: Revision, others: OtherKinds) -> str:
    created = read_workloads(WorkloadFiles((str(file),), others=others))
    return SEPARATOR.join(dump_yaml(_result(revision, workload)) for workload in created)


def _difference(path: Path, result: str) -> str:
    """Return the difference between the expected result, which a file has, and the real one; empty if they are equal."""
    expected = read_text(path)
    if expected is None:
        return f"there is no {path}; --update writes it\n"
    if expected == result:
        return ""
    return _unified_diff(expected, result, str(path), "result") or "the line breaks at the end differ\n"


def _result(revision: Revision, workload: Created) -> dict[str, Any]:
    """Return the injected pod, or why there is none."""
    facts = RequestFacts(workload.namespace, {}, revision.namespaces.get(workload.namespace))
    try:
        result = inject_pod(revision, workload.pod, facts)
    except DataError as error:
        return {"refused": str(error)}
    return {"skipped": result.detail} if isinstance(result, Skipped) else without_namespace(result.pod, workload.pod)

"""``injector template``: tools for authors of templates: ``lint``, ``render``, ``trace``, ``fmt`` and ``test``."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from injector.authoring.formatfile import GO, JINJA, config_of, format_file
from injector.authoring.lint import RULES, Finding
from injector.authoring.model import format_path
from injector.cli.commands import EX_DATAERR, EX_FAILED, Subcommands, verbose
from injector.cli.keys import TEMPLATE, check_content
from injector.cli.manifests import OTHER_KINDS_OPTION, read_workloads, workload_options, write_file
from injector.cli.options import FILE, exit_code_option, option_group, output_format
from injector.cli.output import DIFF_COLORS, HEADINGS, data_text, echo, echo_colored, examples, table, write_verbatim
from injector.cli.revisionoptions import RevisionOptions, revision_options
from injector.cli.sources import revision_option, revision_source_options, select_revisions
from injector.errors import UsageError
from injector.fleet.goldens import Golden, read_goldens
from injector.fleet.manifests import WorkloadFiles
from injector.fleet.templates import (
    SYNTAX,
    Reads,
    RenderedTemplate,
    TemplateSelection,
    lint_templates,
    render_templates,
    select_templates,
    trace_templates,
)
from injector.kube.escaping import escape_line
from injector.revisions.files import read_text, read_verbatim, required_text
from injector.revisions.source import SETTINGS_KEY, parse_settings

if TYPE_CHECKING:
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.fleet.sources import RevisionSources
    from injector.kube.podtemplates import Created, OtherKinds


@click.group("template", cls=Subcommands, no_args_is_help=True)
@verbose
def template() -> None:
    """Check, render, trace, format and test the templates of a revision."""


def _select_templates(
    files: tuple[str, ...], named: tuple[str, ...], revision_source: RevisionOptions
) -> TemplateSelection:
    """Read the revision, and the files that are its default templates if there are any."""
    file_texts = {name: required_text(Path(name)) for name in files}
    for name, text in file_texts.items():
        check_content(text, TEMPLATE, where=name)
    return select_templates(revision_source.read(), file_texts, named)


template_options: Final = option_group(
    "templates",
    _select_templates,
    click.argument("files", metavar="[TEMPLATE]...", nargs=-1),
    click.option("-t", "--template", "named", metavar="NAME", multiple=True, help="Only this template. Repeatable."),
    revision_options,
)
"""Template files, ``--template`` and the options of a revision, as the parameter ``templates``."""


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
def lint(*, templates: TemplateSelection, ignore: tuple[str, ...], exit_code: bool, output: str) -> None:
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
    mistakes, notes = lint_templates(templates)
    findings = [finding for finding in mistakes if finding.rule not in ignore]
    for note in notes:
        echo(f"note: {note}", err=True)
    if output == "text":
        echo_colored("".join(map(_finding_text, findings)), _LINT_COLORS)
    else:
        echo(data_text([finding.data() for finding in findings], output), nl=False)
    if templates.language and any(finding.rule == SYNTAX for finding in findings):
        echo(f"note: {templates.language}", err=True)
    if findings and exit_code:
        does_not_parse = any(finding.rule == SYNTAX for finding in findings)
        click.get_current_context().exit(EX_DATAERR if does_not_parse else EX_FAILED)


def _finding_text(finding: Finding) -> str:
    place = f"{finding.template}:{finding.line}:{finding.column}"
    number = str(finding.line)
    start = max(0, finding.column - _LONGEST_LINE // 2) if len(finding.source) > _LONGEST_LINE else 0
    source = escape_line(finding.source[start : start + _LONGEST_LINE].replace("\t", " "))
    caret = " " * (finding.column - 1 - start) + "^"
    head = f"{escape_line(place)}: {finding.rule}: {escape_line(finding.what)}; {escape_line(finding.hint)}\n"
    return f"{head}  {number} | {source}\n  {' ' * len(number)} | {caret}\n\n"


_POD_OPTIONS: Final = workload_options("Namespace of workloads that name none. Default: default.")


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
def render(*, templates: TemplateSelection, files: WorkloadFiles, output: str) -> None:
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
def trace(*, templates: TemplateSelection, files: WorkloadFiles, output: str) -> None:
    """Print the fields that templates read.

    The list has fields of the pod, the values and the mesh config, each with the first line that reads it. With -f, it has the fields that
    are read for the pods of the files, otherwise those of all branches. A field that is not in the list does not change the output. A
    field in the list may or may not change it. `[*]` stands for every item of a list or map.
    """
    workloads = read_workloads(files) if files.filenames else None
    traced = trace_templates(templates, workloads)
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


def _reads_text(about: dict[str, Any], reads: Reads) -> str:
    of_pod = f"{about['kind']} {about['namespace']}/{about['name']}, " if "kind" in about else ""
    head = table(("FIELD", "FIRST READ"), [(str(read), f"{name}:{line}") for read, (name, line) in reads.items()])
    title = table((f"# {of_pod}template {about['template']}",), [])
    return f"{title}{head}"


@template.command(
    "fmt", epilog=examples("template fmt revisions/stable/config --check", "template fmt sidecar.yaml --write")
)
@click.argument("names", metavar="TEMPLATE...", nargs=-1, required=True)
@click.option("-w", "--write", is_flag=True, help="Write the files that change, and print their names.")
@click.option("-l", "--check", is_flag=True, help="Print the names of the files that would change, and exit with 1.")
@click.option("-d", "--diff", is_flag=True, help="Print the changes, and exit with 1 if there are any.")
@click.option(
    "--engine",
    type=click.Choice([GO, JINJA]),
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
        if config_of(before) is None:
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
    return JINJA if parse_settings(read_text(settings), where=str(settings)).get("engine") == JINJA else GO


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
    failed = False

    def read(file: Path) -> tuple[Created, ...]:
        return read_workloads(WorkloadFiles((str(file),), others=others))

    with select_revisions(sources, kubeconfig) as revisions:
        for golden in read_goldens(folder, revision, revisions, read):
            failed = failed or not (golden.is_met or update)
            if update and not golden.is_met:
                golden.path.parent.mkdir(parents=True, exist_ok=True)
                write_file(golden.path, [golden.result])
            word = "ok  " if golden.is_met else "wrote" if update else "FAIL"
            echo_colored(f"{word} {golden.revision} {escape_line(golden.file.name)}\n", _TEST_COLORS)
            if not golden.is_met and not update:
                echo_colored(_difference(golden), _TEST_COLORS)
    if failed:
        echo("error: results differ; if they are right, --update writes them as the expected ones", err=True)
        click.get_current_context().exit(EX_FAILED)


def _difference(golden: Golden) -> str:
    if golden.expected is None:
        return f"there is no {golden.path}; --update writes it\n"
    path = str(golden.path)
    return _unified_diff(golden.expected, golden.result, path, "result") or "the line breaks at the end differ\n"

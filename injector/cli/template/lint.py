"""``injector template lint``: the mistakes of templates, each with its place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import click

from injector.cli.commands import EX_DATAERR, EX_FAILED, verbose
from injector.cli.options import exit_code_option, output_format
from injector.cli.output import data_text, echo, echo_colored, examples
from injector.cli.template.chosen import ChosenTemplates, template_options
from injector.errors import DataError
from injector.injection.authoring.lint import RULES, Finding, lint_go, trials
from injector.kube.escaping import escape_line
from injector.revisions.build import build

_SYNTAX: Final = "syntax"
_COLORS: Final = {r"^\S+:\d+:\d+:": "1", r"^ +\| +\^$": "1;31"}
_LONGEST_LINE: Final = 160


@click.command(
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
    found = [each for each in findings(templates) if each.rule not in ignore]
    if output == "text":
        echo_colored("".join(map(as_text, found)), _COLORS)
    else:
        echo(data_text([each.data() for each in found], output), nl=False)
    if found and exit_code:
        does_not_parse = any(each.rule == _SYNTAX for each in found)
        click.get_current_context().exit(EX_DATAERR if does_not_parse else EX_FAILED)


def findings(templates: ChosenTemplates) -> list[Finding]:
    """Return the findings of templates, in order."""
    found = [each for name in templates.names for each in _findings(templates, name)]
    if not any(each.rule in (_SYNTAX, "function") for each in found):
        found += _trials(templates)
    return sorted(found)


def _findings(templates: ChosenTemplates, name: str) -> list[Finding]:
    texts, values = templates.texts, templates.texts.values.tree or None
    if texts.engine == "jinja2":
        from injector.injection.authoring.jinjalint import lint_jinja  # noqa: PLC0415 -- only its revisions load Jinja2

        return lint_jinja(name, texts.config.templates, texts.minor, values=values)
    config = texts.config
    return lint_go(name, config.templates[name], texts.minor, values=values, delimiters=config.delimiters)


def _trials(templates: ChosenTemplates) -> Iterable[Finding]:
    try:
        revision = build(templates.raw)
        return [each for name in templates.names for each in trials(revision, name)]
    except DataError as error:
        echo(f"note: the rule yaml is not checked: {error}", err=True)
        return []


def as_text(finding: Finding) -> str:
    """Return a finding as text: its place, and the line with a caret."""
    place = f"{finding.template}:{finding.line}:{finding.column}"
    number = str(finding.line)
    start = max(0, finding.column - _LONGEST_LINE // 2) if len(finding.source) > _LONGEST_LINE else 0
    source = escape_line(finding.source[start : start + _LONGEST_LINE].replace("\t", " "))
    caret = " " * (finding.column - 1 - start) + "^"
    head = f"{escape_line(place)}: {finding.rule}: {escape_line(finding.what)}; {escape_line(finding.hint)}\n"
    return f"{head}  {number} | {source}\n  {' ' * len(number)} | {caret}\n\n"

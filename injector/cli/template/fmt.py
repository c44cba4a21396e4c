"""``injector template fmt``: the canonical form of the actions of templates, alone or in the config of a revision."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, Final

import click

from injector.cli.commands import EX_FAILED, verbose
from injector.cli.manifests import write_file
from injector.cli.output import echo, echo_colored, examples
from injector.errors import ConfigError, DataError, TemplateRenderError, UsageError
from injector.gotemplate import ParseError
from injector.gotemplate.lexer import Kind, tokens
from injector.injection.authoring.formatting import format_go, format_jinja
from injector.istio.config import parse_inject_config
from injector.kube.escaping import escape_line
from injector.kube.yaml import load_yaml
from injector.revisions.files import read_text, required_text
from injector.revisions.source import SETTINGS_KEY, parse_settings

_COLORS: Final = {r"^-.*": "31", r"^\+.*": "32", r"^@@.*": "36"}
_GO: Final = "go"
_JINJA: Final = "jinja2"


@click.command(
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

    A TEMPLATE is a file with a template, or the config of a revision. Inside the delimiters, there is one space beside them, around `|`
    and `:=`, and after commas. Text, trim markers and comments stay, and so does the output. Without a flag, the result is printed.
    """
    if write + check + diff > 1:
        raise UsageError("--write, --check and --diff exclude each other", hint="give one of them")
    differ = False
    for name in names:
        before = required_text(Path(name), _verbatim)
        after = format_file(name, before, engine or _engine_of(Path(name)))
        differ = differ or before != after
        if not (write or check or diff):
            echo(after, nl=False)
        elif before != after:
            _report(name, before, after, write=write, diff=diff)
    if differ and (check or diff):
        click.get_current_context().exit(EX_FAILED)


def _verbatim(path: Path) -> str | None:
    """Return the text of a file with its own line breaks."""
    return None if read_text(path) is None else path.read_bytes().decode()


def _report(name: str, before: str, after: str, *, write: bool, diff: bool) -> None:
    if diff:
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), name, f"{name} (formatted)", lineterm="")
        echo_colored("".join(f"{escape_line(line)}\n" for line in lines), _COLORS)
        return
    if write:
        write_file(Path(name), [after])
    echo(name)


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
        key: {each: _format(each, inner, engine, delimiters) for each, inner in value.items()}
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
        found = load_yaml(text)
    except DataError:
        return None
    return found if isinstance(found, dict) and {"template", "templates"} & found.keys() else None


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
    return [(each.kind, each.text) for each in tokens(text, *delimiters) if each.kind is not Kind.SPACE]

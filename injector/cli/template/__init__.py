"""``injector template``: tools for authors of templates."""

from __future__ import annotations

import click

from injector.cli.commands import Subcommands, verbose
from injector.cli.template.fmt import fmt
from injector.cli.template.lint import lint
from injector.cli.template.render import render, trace
from injector.cli.template.test import test


@click.group("template", cls=Subcommands, no_args_is_help=True)
@verbose
def template() -> None:
    """Check, render, trace, format and test the templates of a revision."""


for _command in (fmt, lint, render, test, trace):
    template.add_command(_command)

"""``injector template``: tools for authors of templates, one module for each command."""

from __future__ import annotations

import click

from injector.cli.commands import verbose
from injector.cli.template.lint import lint


@click.group("template", no_args_is_help=True)
@verbose
def template() -> None:
    """Check, render, trace, format and test the templates of a revision."""


for _command in (lint,):
    template.add_command(_command)

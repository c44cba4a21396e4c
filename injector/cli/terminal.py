"""Text for people, on stdout and stderr.

Names and values come from manifests and from the cluster, so every line is printed by ``echo``, which escapes control characters.
"""

from __future__ import annotations

import sys
from typing import IO, Any

import click

from injector.kube.escaping import escape_controls


def echo(text: str, *, err: bool = False, nl: bool = True, file: IO[Any] | None = None) -> None:
    """Print text, its control characters as escapes."""
    click.echo(escape_controls(text), file=file, err=err, nl=nl)  # noqa: TID251 -- the one place that may


def confirm(question: str) -> bool:
    """Ask on stderr; no answer is no."""
    try:
        return click.confirm(escape_controls(question), default=False, err=True)  # noqa: TID251 -- the one place that may
    except click.Abort:
        return False


def stdout_is_terminal() -> bool:
    """Tell whether a person sees what is written to stdout."""
    return sys.stdout.isatty()

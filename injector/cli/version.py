"""``injector version``: the versions of the injector and of Istio."""

from __future__ import annotations

import platform

import click

from injector.cli.commands import DISTRIBUTION, own_version, verbose
from injector.cli.options import OutputFormat
from injector.cli.output import data_text, echo, examples
from injector.istio.behaviours import NEWEST, OLDEST, format_minor


@click.command("version", epilog=examples("version", "version -o json"))
@verbose
@click.option("-o", "--output", type=OutputFormat(("json", "yaml")), help="Print all details in this format.")
def version(output: str | None) -> None:
    """Print the version of the injector and the Istio versions that it supports."""
    details = {
        "version": own_version(),
        "python": platform.python_version(),
        "istioVersions": f"{format_minor(OLDEST)} to {format_minor(NEWEST)}",
    }
    if output is None:
        echo(f"{DISTRIBUTION} {details['version']} (Istio {details['istioVersions']})")
    else:
        echo(data_text(details, output), nl=False)

"""``injector version``."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Final

import click

from injector.cli.commands import verbose
from injector.cli.output import data_text, echo
from injector.istio.behaviours import NEWEST, OLDEST, format_minor

DISTRIBUTION: Final = "revision-injector"


def own_version() -> str:
    """Return the version of the installed distribution, or ``unknown`` if none is installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown"


@click.command("version")
@verbose
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="Print all details in this format.")
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

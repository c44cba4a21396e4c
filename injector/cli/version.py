"""``injector version``."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Final

import click

from injector.cli.commands import verbose
from injector.cli.output import echo, json_text
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
    match output:
        case "json":
            echo(json_text(details), nl=False)
        case "yaml":
            echo("".join(f'{name}: "{value}"\n' for name, value in details.items()), nl=False)
        case _:
            echo(f"{DISTRIBUTION} {details['version']} (Istio {details['istioVersions']})")

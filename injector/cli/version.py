"""``injector version``."""

from __future__ import annotations

import json
import platform
from importlib import metadata
from typing import Final

import click

from injector.cli.commands import verbose
from injector.cli.terminal import echo
from injector.istio.behaviours import NEWEST, OLDEST, format_minor

DISTRIBUTION: Final = "revision-injector"


def own_version() -> str:
    """Return the version of the installed distribution; ``unknown`` where none is installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown"


def facts() -> dict[str, str]:
    """Return what identifies this injector."""
    return {
        "version": own_version(),
        "python": platform.python_version(),
        "istioVersions": f"{format_minor(OLDEST)} to {format_minor(NEWEST)}",
    }


@click.command("version")
@verbose
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="Print all facts in this format.")
def version(output: str | None) -> None:
    """Print the version of the injector and the Istio versions it knows."""
    match output:
        case "json":
            echo(json.dumps(facts(), indent=2))
        case "yaml":
            echo("".join(f'{name}: "{value}"\n' for name, value in facts().items()), nl=False)
        case _:
            echo(f"{DISTRIBUTION} {facts()['version']} (Istio {facts()['istioVersions']})")

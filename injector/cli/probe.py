"""``injector probe``: check the health check file of a server, as Istio's sidecar-injector did (``--healthCheckFile``)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import click

from injector.cli.commands import verbose
from injector.cli.options import Duration
from injector.cli.output import echo
from injector.errors import InjectorError, UsageError

# Istio allows the same for the file system and the scheduler (istio 1.4, pkg/probe/client.go).
JITTER: Final = 0.01


@click.command("probe")
@click.option(
    "--probe-path", "path", type=click.Path(path_type=Path), required=True, help="File that the server writes."
)
@click.option("--interval", type=Duration(), required=True, metavar="DURATION", help="Maximum age of the file.")
@verbose
def probe(path: Path, interval: float) -> None:
    """Check that a server in this container is healthy, by its health check file.

    The exit code is 0 if the server wrote the file within the interval, else 1.
    """
    if interval <= 0:
        hint = "give more than --healthCheckInterval, such as 4s"
        raise UsageError("the interval must be greater than 0", where="--interval", hint=hint)
    check_fresh(path, interval, time.time())
    echo("OK")


def check_fresh(path: Path, interval: float, now: float) -> None:
    """Check that a file was written within the interval.

    Raises:
        InjectorError: the file is older, or does not exist.
    """
    try:
        age = now - path.stat().st_mtime
    except OSError as error:
        hint = "give the server's --healthCheckFile"
        raise InjectorError(f"cannot be read: {error.strerror}", where=str(path), hint=hint) from error
    if age > interval + JITTER:
        raise InjectorError(
            f"was written {age:.1f} s ago, which is more than {interval:g} s",
            where=str(path),
            hint="the server is stuck, or its --healthCheckInterval is longer",
        )

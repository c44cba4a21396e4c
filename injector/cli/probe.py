"""``injector probe``: whether ``--healthCheckFile`` of a server is fresh, as Istio's sidecar-injector looked at it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import click

from injector.cli.commands import verbose
from injector.cli.flags import Duration
from injector.cli.terminal import echo
from injector.errors import InjectorError, UsageError

# Istio allows as much for the file system and the scheduler (istio 1.4, pkg/probe/client.go).
JITTER: Final = 0.01


@click.command("probe")
@click.option(
    "--probe-path", "path", type=click.Path(path_type=Path), required=True, help="The file that the server writes."
)
@click.option(
    "--interval", type=Duration(), required=True, metavar="DURATION", help="How long ago it may have been written."
)
@verbose
def probe(path: Path, interval: float) -> None:
    """Check that a server in this container lives, by the file that it writes.

    The exit code is 0 where the file was written within the interval, else 1.
    """
    if interval <= 0:
        raise UsageError("it is nought", where="--interval", hint="give more than --healthCheckInterval, such as 4s")
    check_fresh(path, interval, time.time())
    echo("OK")


def check_fresh(path: Path, interval: float, now: float) -> None:
    """Check that a file was written within the interval.

    Raises:
        InjectorError: it was not, or there is none.
    """
    try:
        written = path.stat().st_mtime
    except OSError as error:
        raise InjectorError(
            f"cannot be looked at: {error.strerror}", where=str(path), hint="give the server's --healthCheckFile"
        ) from error
    if now - written > interval + JITTER:
        raise InjectorError(
            f"it was written {now - written:.1f} s ago, and should be within {interval:g} s",
            where=str(path),
            hint="the server is stuck, or its --healthCheckInterval is longer",
        )

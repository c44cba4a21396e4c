"""Flags that istioctl's kube-inject had once, so that scripts of any age still run.

Istio 1.0 and 1.1 could write a template from flags (istioctl/cmd/istioctl/kubeinject.go, 1.0.9); given a config they ignored them and
said so. ``--hub`` and ``--tag`` meant that template alone, and were an error without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from injector.cli.terminal import echo
from injector.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

IGNORED: Final = (
    "verbosity",
    "sidecarProxyUID",
    "setVersionString",
    "imagePullPolicy",
    "statusPort",
    "readinessInitialDelaySeconds",
    "readinessPeriodSeconds",
    "readinessFailureThreshold",
    "includeIPRanges",
    "excludeIPRanges",
    "includeInboundPorts",
    "excludeInboundPorts",
)
IGNORED_SWITCHES: Final = ("coreDump", "rewriteAppProbe", "debug")
"""A switch takes no value, or one after ``=``."""

REFUSED: Final = ("hub", "tag")


def old_flags(command: F) -> F:
    """Add the flags; those that say nothing any more are named on stderr and dropped, the others are refused."""
    for name in IGNORED:
        command = click.option(f"--{name}", callback=_ignored, **_HIDDEN)(command)
    for name in IGNORED_SWITCHES:
        command = click.option(f"--{name}", is_flag=False, flag_value="true", callback=_ignored, **_HIDDEN)(command)
    for name in REFUSED:
        command = click.option(f"--{name}", callback=_refused, **_HIDDEN)(command)
    return command


def _ignored(_context: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None:
        echo(f"Flag {option.opts[0]} has been deprecated, Use --injectConfigFile instead", err=True)


def _refused(_context: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise UsageError(
            "there is no template to write from flags",
            where=option.opts[0],
            hint="give --injectConfigFile FILE: kubectl -n istio-system get configmap istio-sidecar-injector"
            " -o=jsonpath='{.data.config}' > FILE",
        )


_HIDDEN: Final[dict[str, Any]] = {"hidden": True, "expose_value": False, "metavar": "VALUE"}

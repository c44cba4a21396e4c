"""Flags that several commands have, in every spelling that their users know.

Istio 1.0 and 1.1 could write a template from flags (istioctl/cmd/istioctl/kubeinject.go, 1.0.9); given a config they ignored them and
said so. ``--hub`` and ``--tag`` meant that template alone, and were an error without it.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from injector.cli.output import FORMATS
from injector.cli.terminal import echo
from injector.errors import UsageError
from injector.flagvalues import key_values, parse_duration
from injector.injection.result import GUARDS
from injector.revisions.build import Overrides
from injector.revisions.files import required_text

if TYPE_CHECKING:
    from collections.abc import Callable


class Duration(click.ParamType[float]):
    """A Go duration."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return its seconds."""
        if isinstance(value, float):
            return value
        try:
            return parse_duration(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


F = TypeVar("F", bound="Callable[..., Any]")

FILE: Final = click.Path(path_type=Path)
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


FILENAME: Final = click.option(
    "-f", "--filename", "named", multiple=True, metavar="FILE", help="A file, a folder, or - for stdin. Repeatable."
)
RECURSIVE: Final = click.option("-R", "--recursive", is_flag=True, help="Look into the folders of a folder too.")
NODE_VERSION: Final = click.option(
    "--node-version",
    multiple=True,
    metavar="VERSION",
    help="A kubelet version of the cluster, such as v1.33.0: whether sidecars can be native. Repeatable.",
)
GUARD: Final = click.option(
    "--guard",
    type=click.Choice(GUARDS),
    default=GUARDS[0],
    show_default=True,
    help="Refuse a pod whose values break out of the template, warn of it, or do not look.",
)
"""Options that commands take one by one; each gives the parameter of its long name, ``-f`` the parameter ``named``."""


def both_spellings(camel: str) -> tuple[str, str]:
    """Return the spellings of a flag: Istio's (``--meshConfigFile``) and kubectl's (``--mesh-config-file``)."""
    return f"--{camel}", f"--{_CAPITAL.sub('-', camel).lower()}"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What the flags say that ``revision.yaml`` says in a folder."""

    istio_version: str | None
    set_env: tuple[str, ...]
    node_version: tuple[str, ...]

    def overrides(self, *, values: Path | None = None, mesh: Path | None = None) -> Overrides:
        """Return them checked, with the texts of the files that stand in for a revision's own.

        Raises:
            UsageError: ``--set-env`` is no pair.
            ConfigError: a file cannot be read.
        """
        return Overrides(
            istio_version=self.istio_version,
            env=key_values(self.set_env, flag="--set-env"),
            node_versions=self.node_version,
            values=None if values is None else required_text(values),
            mesh=None if mesh is None else required_text(mesh),
            files={key: str(path) for key, path in (("values", values), ("mesh", mesh)) if path is not None},
        )


def behaviour_flags(command: F) -> F:
    """Add the flags of ``Behaviour``, as its parameter ``behaviour``."""

    @click.option(
        "--istio-version",
        metavar="VERSION",
        help="The Istio that the configuration is of, such as 1.24; inferred where it is not given.",
    )
    @click.option(
        "--set-env",
        multiple=True,
        metavar="NAME=VALUE",
        help="A feature variable of istiod, such as ENABLE_NATIVE_SIDECARS=auto. Repeatable.",
    )
    @NODE_VERSION
    @functools.wraps(command)
    def with_behaviour(
        *args: Any, istio_version: str | None, set_env: tuple[str, ...], node_version: tuple[str, ...], **kwargs: Any
    ) -> Any:
        return command(*args, behaviour=Behaviour(istio_version, set_env, node_version), **kwargs)

    return cast("F", with_behaviour)


@dataclass(frozen=True, slots=True)
class ManifestFlags:
    """Where manifests come from and where they go."""

    names: tuple[str, ...]
    recursive: bool
    format: str
    file: Path | None


def manifest_flags(command: F) -> F:
    """Add the flags of ``ManifestFlags``, as its parameter ``manifest``."""

    @click.argument("names", metavar="[FILES]...", nargs=-1)
    @FILENAME
    @RECURSIVE
    @click.option(
        "-o",
        "--output",
        metavar="FORMAT|FILE",
        help="yaml, json or patch (one JSON patch a line); else a file to write.",
    )
    @click.option(*both_spellings("outputFile"), "file", type=FILE, help="The file to write, whatever the format.")
    @functools.wraps(command)
    def with_manifest(
        *args: Any,
        names: tuple[str, ...],
        named: tuple[str, ...],
        recursive: bool,
        output: str | None,
        file: Path | None,
        **kwargs: Any,
    ) -> Any:
        return command(*args, manifest=_manifest(named + names, recursive, output, file), **kwargs)

    return cast("F", with_manifest)


def _manifest(names: tuple[str, ...], recursive: bool, output: str | None, file: Path | None) -> ManifestFlags:  # noqa: FBT001 -- a flag's value
    if output is None or output in FORMATS:
        return ManifestFlags(names, recursive, output or FORMATS[0], file)
    if file is not None:
        raise UsageError(
            f"{output!r} is no format, and --output-file names a file",
            where="-o",
            hint=f"give one of {', '.join(FORMATS)}",
        )
    return ManifestFlags(names, recursive, FORMATS[0], Path(output))


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

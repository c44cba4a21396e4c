"""Flags that several commands share, and their values."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import click
from click.core import ParameterSource

from injector.cli.commands import DRY_RUN_FLAG, DRY_RUNS
from injector.errors import UsageError
from injector.golang.time import parse_duration
from injector.injection.result import GUARDS

F = TypeVar("F", bound="Callable[..., Any]")


class _NamedPath(click.Path):
    """A path that is not empty: the empty one, of a variable that is not set, would be the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if value == "":
            self.fail("the name is empty; check the variable that it comes from", param, ctx)
        return super().convert(value, param, ctx)


FILE: Final = _NamedPath(path_type=Path)
REVISION_FLAG: Final = "--revision"
PRECEDENCE_FLAG: Final = "--revision-label-precedence"
_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def option_group(
    parameter: str, build: Callable[..., Any], *options: Callable[[F], F], names: Sequence[str] = ()
) -> Callable[[F], F]:
    """Return a decorator that adds options to a command and combines their values.

    Args:
        parameter: the command's parameter for the combined value.
        build: makes that value; its parameters are those of the options, or have a default.
        options: decorators of click, in the order of the help.
        names: the parameters of the options, if ``build`` does not name them.
    """
    names = names or tuple(inspect.signature(build).parameters)

    def add(command: F) -> F:
        @functools.wraps(command)
        def with_group(*args: Any, **kwargs: Any) -> Any:
            value = build(**{name: kwargs.pop(name) for name in names if name in kwargs})
            return command(*args, **{parameter: value}, **kwargs)

        decorated = cast("F", with_group)
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return add


def both_spellings(camel: str) -> tuple[str, str]:
    """Return the spellings of a flag: Istio's (``--meshConfigFile``) and kubectl's (``--mesh-config-file``)."""
    return f"--{camel}", f"--{_CAPITAL.sub('-', camel).lower()}"


def was_given(parameter: str) -> bool:
    """Tell whether the command line has an option of the running command, by its parameter's name."""
    return click.get_current_context().get_parameter_source(parameter) is ParameterSource.COMMANDLINE


def refuse_unused(why: str, *parameters: str, hint: str = "leave it out") -> None:
    """Raise UsageError if the command line has an option of the parameters. ``why`` says why they have no effect, as in `with -f`."""
    for parameter in click.get_current_context().command.params:
        if parameter.name in parameters and was_given(parameter.name):
            flag = next((text for text in parameter.opts if text.startswith("--")), parameter.opts[0])
            raise UsageError(f"{flag} has no effect {why}", hint=hint)


def validator(is_valid: Callable[[str], bool], what: str, hint: str) -> Callable[..., str | None]:
    """Return a callback of click that refuses a value that is not ``what``. No value is valid."""

    def check(_context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
        if value is None or is_valid(value):
            return value
        where = next((flag for flag in parameter.opts if flag.startswith("--")), parameter.opts[0].upper())
        raise UsageError(f"{value[:80]!r} is not {what}", where=where, hint=hint)

    return check


def output_file(_context: click.Context, parameter: click.Parameter, name: str | None) -> Path | None:
    """Return the file to write: a callback of click. None is stdout, also written as ``-``.

    Raises:
        UsageError: the name is empty or that of a folder, or its folder does not exist.
    """
    if name is None or name == "-":
        return None
    where, path = parameter.opts[0], Path(name)
    if not name:
        raise UsageError("the name is empty", where=where, hint="check the variable that it comes from")
    if name.endswith("/") or path.is_dir():
        raise UsageError(f"{name!r} is a folder", where=where, hint="give the name of a file in it")
    if not path.parent.is_dir():
        what = f"there is no folder {str(path.parent)!r}"
        raise UsageError(what, where=where, hint="create it, or give a file in another one")
    return path


def converter(convert: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a callback of click that converts a value. No value stays None."""
    return lambda _context, _parameter, value: None if value is None else convert(value)


def duration(_context: click.Context, parameter: click.Parameter, value: str) -> float:
    """Return the seconds of a Go duration: a callback of click."""
    return seconds_of(value, where=parameter.opts[0])


def seconds_of(text: str, *, where: str) -> float:
    """Return the seconds of a Go duration such as ``1m30s`` or ``0``. Raises UsageError if it is not valid or is negative."""
    try:
        nanoseconds = parse_duration(text)
    except ValueError:
        nanoseconds = -1
    if nanoseconds < 0:
        raise UsageError(f"{text!r} is not a valid duration", where=where, hint="write it as 500ms, 5s or 1m30s")
    return nanoseconds / 1e9


def key_values(pairs: Sequence[str], *, flag: str) -> dict[str, str]:
    """Read repeated ``NAME=VALUE`` arguments. The last value of a name wins. Raises UsageError if an argument is not such a pair."""
    values: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not _ENV_NAME.fullmatch(name):
            raise UsageError(f"{pair!r} is not NAME=VALUE", where=flag, hint="write it as ENABLE_NATIVE_SIDECARS=true")
        values[name] = value
    return values


FILENAME: Final = click.option(
    "-f", "--filename", "filenames", multiple=True, metavar="FILE", help="File, folder, or - for stdin. Repeatable."
)
RECURSIVE: Final = click.option("-R", "--recursive", is_flag=True, help="Recurse into subdirectories.")
NODE_VERSION: Final = click.option(
    "--node-version",
    multiple=True,
    metavar="VERSION",
    help="Kubelet version in the cluster, such as v1.33.0. Native sidecars depend on it. Repeatable.",
)
GUARD: Final = click.option(
    "--guard",
    type=click.Choice(GUARDS),
    default=GUARDS[0],
    show_default=True,
    help="What to do with a pod whose values break out of the template: refuse it, print a warning, or disable the check.",
)
SKIP_CONFIRMATION: Final = click.option(
    *("-y", "--yes", "--skip-confirmation", "skip_confirmation"), is_flag=True, help="Do not ask for confirmation."
)


ALL_FLAG: Final = "--all-namespaces"
ALL_NAMESPACES: Final = click.option("-A", ALL_FLAG, "every", is_flag=True, help="All namespaces of the cluster.")
"""The parameter ``every``."""


def exit_code_option(difference: str) -> Callable[[F], F]:
    """Return the option ``--exit-code``. ``difference`` names what the command reports by its exit code."""
    text = f"With false, exit with 0 even if {difference}."
    return click.option("--exit-code", type=bool, default=True, metavar="BOOL", show_default=True, help=text)


_OF_KUBECTL: Final = frozenset({
    *("name", "wide", "table", "text", "yaml", "json", "kyaml", "template", "templatefile"),
    *("jsonpath", "jsonpath-as-json", "jsonpath-file", "go-template", "go-template-file"),
    *("custom-columns", "custom-columns-file"),
})  # fmt: skip
"""The output formats of kubectl, of istioctl and of the commands, without the expression that follows ``=``."""
_FILTERED: Final = frozenset(
    {
        "name",
        *(
            field_name
            for field_name in _OF_KUBECTL
            if "template" in field_name or "path" in field_name or "col" in field_name
        ),
    }
)
"""Those that select a part of the objects."""


def is_format(value: str) -> bool:
    """Return whether a value of ``--output`` is written like a format of kubectl: ``wide``, or ``jsonpath={.spec}``."""
    return value.partition("=")[0].strip().lower() in _OF_KUBECTL


def similar_format(value: str, formats: Sequence[str]) -> str:
    """Return `` (did you mean X?)`` with the most similar format, or an empty text if none is similar."""
    from injector.hints import did_you_mean  # noqa: PLC0415 -- a server does not need it

    return did_you_mean(value, formats)


def unknown_format(value: str, formats: Sequence[str], more: str = "") -> UsageError:
    """Return the error for a value of ``--output`` that is not a format. ``more`` is the end of its hint."""
    known = f"give one of {', '.join(formats)}{more}"
    if not value:
        return UsageError("the output format is empty", where="-o", hint=f"{known}, or leave -o out")
    name = value.partition("=")[0].strip().lower()
    if name in formats:
        return UsageError(f"{value[:80]!r}: the format {name} has no argument", where="-o", hint=known)
    if name in _FILTERED and "json" in formats:
        known = f"{known}; -o json and a tool such as jq select a part"
    similar = "" if is_format(value) else similar_format(value, formats)
    return UsageError(f"{value[:80]!r} is not an output format of this command{similar}", where="-o", hint=known)


class OutputFormat(click.Choice[str]):
    """The formats of ``--output``, in upper or lower case, as kubectl takes them."""

    def __init__(self, formats: Sequence[str]) -> None:
        super().__init__(formats, case_sensitive=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the format. Raises UsageError if it is not one of the command."""
        if str(value).lower() not in self.choices:
            raise unknown_format(str(value), self.choices)
        return super().convert(value, param, ctx)


def output_format(*formats: str) -> Callable[[F], F]:
    """Return the option ``--output``. The first format is the default."""
    return click.option(
        "-o", "--output", type=OutputFormat(formats), default=formats[0], show_default=True, help="Output format."
    )


def dry_run_option(*, client: str, server: str) -> Callable[[F], F]:
    """Return the option ``--dry-run``. ``client`` and ``server`` say what the two kinds of a dry run do."""
    return click.option(
        DRY_RUN_FLAG,
        type=click.Choice(DRY_RUNS),
        is_flag=False,
        flag_value=DRY_RUNS[1],
        default=DRY_RUNS[0],
        show_default=True,
        help=f"`client`, or no value: {client}. `server`: {server}.",
    )


CONFIRMED: Final = 3
"""The number of workloads whose injected pods the API server checks by default."""


def confirm_option(condition: str) -> Callable[[F], F]:
    """Return the option ``--confirm``. ``condition`` says when it has an effect."""
    return click.option(
        "--confirm",
        type=click.IntRange(min=0),
        default=CONFIRMED,
        show_default=True,
        metavar="N",
        help=f"{condition}, let the API server check the injected pods of N workloads that differ, by a dry run.",
    )

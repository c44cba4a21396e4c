"""``injector serve``, whose options are the table of settings, and ``injector probe``, which checks the health check file of a server.

``server`` builds the parts of the server from the settings, and runs it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import click

from injector.cli.commands import verbose
from injector.cli.options import FILE, duration
from injector.cli.output import echo, examples
from injector.errors import InjectorError, UsageError
from injector.settings import SETTINGS, Setting, Settings

OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "Path | None": {"type": FILE, "metavar": "PATH"},
    "Port": {"type": click.IntRange(0, 65535), "metavar": "PORT"},
    "Count": {"type": click.IntRange(1), "metavar": "COUNT"},
    "float": {"callback": duration, "metavar": "DURATION"},
    "bool": {"is_flag": True},
    "bool | None": {"type": bool, "is_flag": False, "flag_value": True, "metavar": "BOOL"},
    "str": {},
    "str | None": {},
    "tuple[str, ...]": {"multiple": True},
}
"""The arguments of ``click.Option`` for each type of setting."""


def option_of(setting: Setting) -> click.Option:
    """Return the option for a setting."""
    arguments = dict(OPTIONS[setting.kind])
    if setting.choices:
        arguments["type"] = click.Choice(setting.choices)
    if setting.metavar:
        arguments["metavar"] = setting.metavar
    return click.Option(
        [*setting.flags, setting.name],
        default=f"{setting.default:g}s" if setting.kind == "float" else setting.default,
        show_default=setting.default not in (None, "", (), False),
        envvar=setting.variable,
        show_envvar=True,
        help=setting.summary,
        **arguments,
    )


def run(**settings: Any) -> None:
    """Serve the admission webhook for pods.

    POST /inject/NAME injects with the revision or tag NAME, POST /inject with the default one. Revisions come from the folders of
    --revisions-dir, from the files of --injectConfig, or from Istio's ConfigMaps in the cluster with --from-cluster. --embedded uses two
    examples.

    On SIGTERM the server becomes unready, keeps serving for --shutdown-delay, finishes the requests in progress, and exits with 0.
    """
    # Imported here, because the server's libraries take several times as long as the rest of the command line, and --help and shell
    # completion do not need them.
    from injector.cli.serve.server import run_server
    from injector.cli.sources import check_variable

    for setting in SETTINGS:
        if settings[setting.name] is None and setting.kind == "Path | None":
            check_variable(setting.variable)
    run_server(Settings(**settings).check())


GROUPS: Final = {
    "bind": "Addresses",
    "tls_mode": "Certificate and webhooks",
    "revisions_dir": "Revisions from files",
    "from_cluster": "Revisions from the cluster",
    "explain": "Admissions",
    "reload_interval": "Load, reload and shutdown",
    "log_format": "Logs and health",
}
"""The heading of each group of options in the help, by the first option of the group."""


class ServeCommand(click.Command):
    """``serve``, whose help has its many options in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under the headings of ``GROUPS``."""
        heading, groups = "", dict[str, list[tuple[str, str]]]()
        for option in self.get_params(ctx):
            heading = GROUPS.get(option.name or "", heading)
            record = option.get_help_record(ctx)
            if record is not None:
                is_general = option.name in ("help", "verbose")
                groups.setdefault("Options" if is_general else heading, []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)


serve = verbose(
    ServeCommand(
        "serve",
        callback=run,
        help=run.__doc__,
        params=[option_of(setting) for setting in SETTINGS],
        epilog=examples(
            "serve --insecure-http --bind 127.0.0.1 --revisions-dir revisions",
            "serve --from-cluster --tls-mode self-signed",
            "serve --from-cluster --tls-cert-file tls.crt --tls-key-file tls.key",
        ),
    )
)
"""The command."""


# Istio allows the same for the file system and the scheduler (istio 1.4, pkg/probe/client.go).
_TOLERANCE: Final = 0.01


@click.command("probe", epilog=examples("probe --probe-path=/health --interval=4s"))
@click.option(
    "--probe-path", "path", type=click.Path(path_type=Path), required=True, help="File that the server writes."
)
@click.option("--interval", callback=duration, required=True, metavar="DURATION", help="Maximum age of the file.")
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
    """Check that a file was written within the interval. Raises InjectorError if the file is older, or does not exist."""
    try:
        age = now - path.stat().st_mtime
    except OSError as error:
        hint = "give the server's --healthCheckFile"
        raise InjectorError(f"cannot be read: {error.strerror}", where=str(path), hint=hint) from error
    if age > interval + _TOLERANCE:
        raise InjectorError(
            f"was written {age:.1f} s ago, which is more than {interval:g} s",
            where=str(path),
            hint="the server is stuck, or its --healthCheckInterval is longer",
        )

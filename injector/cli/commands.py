"""The root command, which imports a command when it is used and prints every error as one line.

The exit codes are those of BSD's sysexits.h where istioctl uses them too (istioctl/cmd/sysexits.go, 1.30.3).

The flags and defaults of ``sidecar-injector``, the standalone injector of Istio 1.0 to 1.4, become arguments of ``injector``. A Deployment
of those releases has only flags, without a command, and a probe that calls ``/usr/local/bin/sidecar-injector probe``. Follows
pilot/cmd/sidecar-injector/main.go (1.1.17) and sidecar-injector/cmd/sidecar-injector/main.go (1.4.10).
"""

from __future__ import annotations

import errno
import importlib
import re
import sys
import traceback
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, NoReturn

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from injector.cli.output import PROGRAM, drop_unwritable_output, echo, examples, one_line
from injector.errors import DataError, InjectorError

DISTRIBUTION: Final = "revision-injector"
VERBOSE: Final = "injector.verbose"
_MAX_SUMMARY: Final = 500
DRY_RUN_FLAG: Final = "--dry-run"
DRY_RUNS: Final = ("none", "client", "server")
_DRY_RUN_VALUES: Final = frozenset({*DRY_RUNS, "true", "false"})
"""The values that may follow the flag after a space. The last two are those of kubectl before 1.18, which are refused."""
_SHORT_FLAG: Final = re.compile(r"^(-[A-Za-z])=")

EX_FAILED: Final = 1
EX_USAGE: Final = 64
EX_DATAERR: Final = 65
EX_SOFTWARE: Final = 70
EX_CONFIG: Final = 78
EX_ISSUES: Final = 79
EX_INTERRUPTED: Final = 130
EX_PIPE: Final = 141
EXIT_CODES: Final = (
    (0, "success"),
    (EX_FAILED, "failure, or a check or comparison that found a problem or a difference"),
    (EX_USAGE, "wrong flag or argument"),
    (EX_DATAERR, "invalid input: a manifest, template, values, mesh config or annotation"),
    (EX_SOFTWARE, "internal error: please report it with the output of -v"),
    (EX_CONFIG, "no cluster or no source of revisions is configured"),
    (EX_ISSUES, "analyze found issues"),
    (EX_INTERRUPTED, "interrupted by Ctrl-C"),
    (EX_PIPE, "the program that reads the output has ended, such as head"),
)

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "analyze": ("analyze", "Report mistakes that concern injection, for FILES or for the cluster, as istioctl does."),
    "completion": ("commands", "Print the shell completion script."),
    "diff": ("diff", "Compare the pods that two revisions or tags produce, for FILES or for the cluster."),
    "help": ("commands", "Print the help of a command."),
    "explain": ("explain", "Explain step by step why pods of the FILES or of the cluster are injected or not."),
    "krm": ("krm", "Inject the workloads of a ResourceList on stdin: a KRM function for kustomize and kpt."),
    "kube-inject": ("kube_inject", "Inject the sidecar into every workload of the FILES and print the result."),
    "probe": ("serve", "Check that a server in this container is healthy, by its health check file."),
    "revision": ("revision", "Create, list, verify and remove revisions, and show which workloads run an older one."),
    "serve": ("serve", "Serve the admission webhook for pods."),
    "tag": ("tag", "Set, list and remove tags, or print the webhooks of a tag."),
    "template": ("template", "Check, render, trace, format and test the templates of a revision."),
    "uninject": ("kube_inject", "Remove the sidecar from every workload of the FILES and print the result."),
    "uninstall": ("uninstall", "Remove the objects that the injector wrote to the cluster, webhooks first."),
    "upgrade": ("upgrade", "Plan and run an upgrade: move workloads to another revision in waves."),
    "version": ("version", "Print the version of the injector and the Istio versions that it supports."),
    "webhook": ("webhook", "Print or apply the MutatingWebhookConfigurations of revisions and tags."),
}
"""The module of each command and the first sentence of its help, which ``--help`` prints without importing the module."""


class CommandError(click.ClickException):
    """An error that is ready to be printed: ``error: `` and one line, after the traceback if ``-v`` asked for it."""

    def __init__(self, message: str, code: int, *, trace: str = "", prefix: str = "error: ") -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # click declares one exit code for each class
        self.trace = trace
        self.prefix = prefix

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it on stderr. If that cannot be written, the exit code has to do."""
        with suppress(OSError):
            echo(f"{self.trace}{self.prefix}{self.message}", file=file, err=file is None)


def command_error(error: Exception, *, command: str, verbose: bool) -> CommandError:
    """Return the error to print for an error that ended ``command``."""
    message, code = _message_and_code(error, command)
    trace = "".join(traceback.format_exception(error)) if verbose else ""
    lines = [str(refused) for refused in error.errors] if isinstance(error, DataError) else [message]
    return CommandError("\nerror: ".join(map(one_line, lines)), code, trace=trace)


def _message_and_code(error: Exception, command: str) -> tuple[str, int]:
    match error:
        case InjectorError():
            return str(error), error.exit_code
        case click.UsageError():
            path = error.ctx.command_path if error.ctx else command
            hint = f"see `{path} --help`"
            if error.ctx and (better := _usage_hint(error, error.ctx, path)):
                hint = better
            return f"{error.format_message().rstrip('.')}; {hint}", EX_USAGE
        case click.ClickException():
            return error.format_message(), error.exit_code
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return f"{where}{error.strerror or error}", EX_FAILED
        case _:
            what = f"internal error: {type(error).__name__}: {error}"
            return f"{what}; please report it with the output of -v", EX_SOFTWARE


def _end_for(error: OSError) -> NoReturn:
    """End the process because stdout cannot be written: silently if its reader has ended, as programs in C and Go, else with one line."""
    drop_unwritable_output()
    if error.errno == errno.EPIPE:
        sys.exit(EX_PIPE)
    what = f"standard output: cannot be written: {error.strerror}; free some space, or write to another place"
    CommandError(what, EX_FAILED).show()
    drop_unwritable_output()
    sys.exit(EX_FAILED)


@contextmanager
def complete_output() -> Iterator[None]:
    """Write the rest of the output, before Python does it and ignores an error."""
    try:
        yield
    except OSError as error:
        _end_for(error)
    finally:
        if (failed := drop_unwritable_output()) is not None:
            _end_for(failed)


_EXTRA: Final = re.compile(r"Got unexpected extra arguments? \((.+)\)")
_WITH_FILES: Final = "select the objects with kubectl and pass them on: `kubectl get deploy %s -o yaml | %s -f -`"
_ALL_NAMESPACES: Final = ("-A", "--all-namespaces")
_SELECTORS: Final = ("-l", "--selector", "--field-selector")


def _usage_hint(error: click.UsageError, context: click.Context, path: str) -> str:
    """Return the remedy for a flag of kubectl that a command does not have, or for an argument in the place of a flag."""
    names = {flag for param in context.command.params for flag in param.opts}
    if isinstance(error, click.NoSuchOption):
        if isinstance(context.command, click.Group):
            return f"write it after the command: `{path} COMMAND {error.option_name}`"
        return _flag_hint(error.option_name, names, path)
    match = _EXTRA.fullmatch(error.format_message().rstrip("."))
    if match is None:
        return ""
    first = match[1].split()[0]
    if is_file_name(first) or Path(first).exists():
        if Path(first).is_dir() and "--revisions-dir" in names and not {"-f", "-R"} & names:
            return f"give the folder by a flag: `--revisions-dir {first}`"
        if "-f" in names:
            return f"give files by a flag: `-f {first}`"
    return ""


def _flag_hint(flag: str, names: Collection[str], path: str) -> str:
    """Return the remedy for a flag of kubectl that a command does not have; empty for others."""
    reads_files, reads_cluster = "-f" in names, "--context" in names
    if flag in _ALL_NAMESPACES:
        if reads_files:
            return _WITH_FILES % (flag, path)
        return "leave it out: the command is not about namespaces"
    if flag in _SELECTORS:
        return (
            _WITH_FILES % (f"{flag} ...", path)
            if reads_files
            else "leave it out: the command has no selection by labels"
        )
    if flag in ("-n", "--namespace") and "-i" in names:
        return "Istio's namespace is that of -i; the command is about no other one"
    if flag in ("-k", "--kustomize"):
        return f"render it first: `kubectl kustomize DIR | {path} -f -`" if reads_files else ""
    if flag in ("-w", "--watch"):
        return f"repeat the command, for example with `watch {path}`"
    if flag in ("-f", "--filename"):
        return f"give files as arguments; see `{path} --help`"
    if flag in ("-o", "--output"):
        return "leave it out: the command has one form of output"
    if flag == DRY_RUN_FLAG:
        other = "`injector upgrade plan` shows what would happen" if path.endswith(" run") else "leave it out"
        return f"the command has no dry run; {other}" if reads_cluster else "the command only prints; leave it out"
    return ""


def is_file_name(text: str) -> bool:
    """Return whether an argument is written like a file, and not like the name of an object."""
    return text.startswith(("./", "../", "/", "~")) or text == "-" or text.endswith((".yaml", ".yml", ".json"))


@contextmanager
def _failures(command: str, meta: dict[str, Any]) -> Iterator[None]:
    """Turn every error that ends a command into a ``CommandError``."""
    try:
        yield
    except (click.exceptions.Exit, click.Abort, CommandError):
        raise
    except KeyboardInterrupt as error:
        raise CommandError("interrupted", EX_INTERRUPTED, prefix="") from error
    except click.exceptions.NoArgsIsHelpError as error:
        raise CommandError(error.format_message(), EX_USAGE, prefix="") from error
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None:
            # The error is that of stdout if it occurs again, or, without a buffer, by its number.
            failed = drop_unwritable_output() or (error if error.errno in (errno.EPIPE, errno.ENOSPC) else None)
            if failed is not None:
                _end_for(failed)
        raise command_error(error, command=command, verbose=VERBOSE in meta) from error


class Subcommands(click.Group):
    """A group whose help has the summary of each command as a whole. Click cuts it to the width of the terminal."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. An error of click's parser does not name the command, and gets its name here."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            error.ctx = error.ctx or click.Context(self, ctx, ctx.invoked_subcommand)
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first sentence of the help of each command."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(_MAX_SUMMARY)) for name, command in commands if command]
            )


class LazyGroup(Subcommands):
    """A group that imports a command when it runs, and prints every error as one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        """Return the commands in the order of ``--help``."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 -- click's signature
        """Import and return a command; None if the name is unknown."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"injector.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; the error for an unknown one suggests a similar name."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            raise click.NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 -- click's signature
        """Write the commands from the table, which imports none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in sorted(COMMANDS.items())])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 -- click's signature
        """Write the table of exit codes."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_CODES])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command from the table, or an option of the root command."""
        items = [CompletionItem(name, help=summary) for name, (_, summary) in sorted(COMMANDS.items())]
        matching = [item for item in items if item.value.startswith(incomplete)]
        return matching + click.Command.shell_complete(self, ctx, incomplete)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the options before the command's name; flags of the old ``sidecar-injector`` need no command."""
        if args and is_old_flag(args[0]) and COMMANDS.keys().isdisjoint(args):
            args = arguments_of(args)
        end = args.index("--") if "--" in args else len(args)
        args = [*_normal_flags(args[:end]), *args[end:]]
        with _failures(info_name or "injector", {}):
            return super().make_context(info_name, args, parent, **extra)

    def main(self, args: Sequence[str] | None = None, **extra: Any) -> Any:  # type: ignore[override]  # the same for all its overloads
        """Run the command line. Every entry point does it by this method."""
        with complete_output():
            return super().main(args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Parse the command's own options and run it."""
        with _failures(ctx.command_path, ctx.meta):
            return super().invoke(ctx)


def _normal_flags(arguments: Sequence[str]) -> list[str]:
    """Return arguments without two habits of kubectl: the value of a short flag after ``=``, and ``--dry-run`` without a value."""
    expanded = [_SHORT_FLAG.sub(r"\1", argument) for argument in arguments]
    for index, argument in enumerate(expanded):
        if argument == DRY_RUN_FLAG and not _DRY_RUN_VALUES & set(expanded[index + 1 : index + 2]):
            expanded[index] = f"{DRY_RUN_FLAG}={DRY_RUNS[1]}"
    return expanded


def _remember_verbose(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001, FBT001 -- click's signature
    if value:
        ctx.meta[VERBOSE] = True


verbose = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    expose_value=False,
    callback=_remember_verbose,
    help="Print tracebacks with errors.",
)
"""``-v``: every command has it, so that users can write it before or after the command's name."""


@click.group(
    "injector",
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    no_args_is_help=True,
)
@click.version_option(package_name=DISTRIBUTION, message="%(package)s %(version)s", help="Print the version.")
@verbose
def root() -> None:
    """Istio sidecar injector for many control-plane revisions: a webhook and offline commands.

    Commands that need revisions use those of --revisions-dir or INJECTOR_REVISIONS_DIR, else those in the cluster of the current
    context. --embedded uses two examples instead. The help of a command has examples. The pages in docs/ of the source explain the
    commands; start with docs/README.md.
    """


@click.command("help", epilog=examples("help", "help tag set"))
@verbose
@click.argument("names", metavar="[COMMAND]...", nargs=-1)
def help(names: tuple[str, ...]) -> None:  # noqa: A001 -- the name of the command
    """Print the help of a command."""
    root.main([*names, "--help"], prog_name=PROGRAM, standalone_mode=False)


SHELLS: Final = ("bash", "zsh", "fish", "powershell")


@click.command("completion")
@verbose
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the shell completion script.

    \b
    bash        source <(injector completion bash)
    zsh         source <(injector completion zsh)
    fish        injector completion fish | source
    powershell  injector completion powershell | Out-String | Invoke-Expression
    """  # noqa: D301 -- click takes the character \b, not the backslash
    script = get_completion_class(shell)
    if script is None:  # pragma: no cover -- click before 8.5 does not support powershell
        raise InjectorError(f"the installed click has no completion for {shell}", hint="install click 8.5 or later")
    # The variable that click's own scripts set when they ask the program for completions. The script is code, so it is not escaped.
    click.echo(script(root, {}, "injector", "_INJECTOR_COMPLETE").source())  # noqa: TID251 -- see above


_FILES_TOO: Final = 0
_NO_FILES: Final = 4


def completions(words: Sequence[str]) -> None:
    """Print how the last of the words after ``kubectl injector`` can go on, for kubectl.

    kubectl reads a line for each completion, with its help after a tab. The last line is ``:`` and a directive of cobra (completions.go,
    1.10.2): whether the shell also completes the names of files. It does if nothing is found.
    """
    *before, incomplete = words or [""]
    candidates = ShellComplete(root, {}, "injector", "_INJECTOR_COMPLETE").get_completions(before, incomplete)
    plain = [item for item in candidates if item.type == "plain"]
    for item in plain:
        echo("\t".join(map(one_line, filter(None, (item.value, item.help)))))
    echo(f":{_NO_FILES if plain else _FILES_TOO}")


def own_version() -> str:
    """Return the version of the installed distribution, or ``unknown`` if none is installed."""
    from importlib import metadata  # noqa: PLC0415 -- takes 40 million instructions, and few commands need it

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown"


SIDECAR_INJECTOR: Final = "sidecar-injector"

_FILES: Final = {
    "meshConfig": "etc/istio/config/mesh",
    "injectConfig": "etc/istio/inject/config",
    "injectValues": "etc/istio/inject/values",
    "tlsCertFile": "etc/istio/certs/cert-chain.pem",
    "tlsKeyFile": "etc/istio/certs/key.pem",
    "caCertFile": "etc/istio/certs/root-cert.pem",
}
_DEFAULTS: Final = {
    "port": "443",
    "monitoringPort": "15014",
    "webhookConfigName": "istio-sidecar-injector",
    "webhookName": "sidecar-injector.istio.io",
    "reconcileWebhookConfig": "true",
}
_OTHERS: Final = frozenset({"healthCheckInterval", "healthCheckFile", "kubeconfig"})
# istio.io/pkg/log, Options.AttachCobraFlags: the format and the amount of logging, which are the injector's own.
_LOGGING: Final = frozenset({
    "log_as_json", "log_caller", "log_output_level", "log_rotate", "log_rotate_max_age", "log_rotate_max_backups",
    "log_rotate_max_size", "log_stacktrace_level", "log_target",
})  # fmt: skip
_SWITCHES: Final = frozenset({"log_as_json"})
"""Flags that need no value."""


def serves(command_line: Sequence[str]) -> bool:
    """Tell whether a command line, the name of the program included, is that of a server."""
    program, *arguments = command_line or [""]
    return "serve" in arguments[:2] or program.endswith(f"/{SIDECAR_INJECTOR}") or any(map(is_old_flag, arguments[:1]))


def is_old_flag(argument: str) -> bool:
    """Tell whether an argument is a flag of ``sidecar-injector``."""
    return argument.startswith("--") and _name(argument) in {*_FILES, *_DEFAULTS, *_OTHERS, *_LOGGING}


def arguments_of(arguments: Sequence[str], root: Path = Path("/")) -> list[str]:
    """Return the arguments of ``injector`` for those of ``sidecar-injector``: flags, or a command and its flags.

    Flags for logging are left out. 1.0 and 1.1 have no values, so their file may be missing. The default paths are in ``root``.
    """
    if arguments and not arguments[0].startswith("-"):
        return list(arguments)
    remaining: list[str] = []
    skips_value = False
    for argument in arguments:
        if skips_value:
            skips_value = False
        elif argument.startswith("--") and _name(argument) in _LOGGING:
            skips_value = "=" not in argument and _name(argument) not in _SWITCHES
        else:
            remaining.append(argument)
    stated = {_name(argument) for argument in remaining if argument.startswith("--")}
    files = {name: root / path for name, path in _FILES.items()}
    if not files["injectValues"].exists():
        del files["injectValues"]
    defaults = {**files, **_DEFAULTS}
    return ["serve", *(f"--{name}={value}" for name, value in defaults.items() if name not in stated), *remaining]


def _name(argument: str) -> str:
    return argument.removeprefix("--").partition("=")[0]

"""The root command: what commands there are, found in a table and imported when they are used."""

from __future__ import annotations

import importlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from injector.cli.failures import EX_USAGE, EXIT_CODES, Failure, failure_of

if TYPE_CHECKING:
    from collections.abc import Iterator

VERBOSE: Final = "injector.verbose"


@dataclass(frozen=True, slots=True)
class Entry:
    """A command as the table has it: where it lives, and the line that ``--help`` prints without importing it."""

    module: str
    attribute: str
    summary: str


COMMANDS: Final[dict[str, Entry]] = {
    "completion": Entry("injector.cli.completion", "completion", "Print the completion script of a shell."),
    "diff": Entry(
        "injector.cli.diff",
        "diff",
        "Show what differs in the pods of the FILES, or of the cluster, between two revisions or tags.",
    ),
    "explain": Entry(
        "injector.cli.explain",
        "explain",
        "Say step by step why the pods of the FILES, or of the cluster, are injected, or why not.",
    ),
    "kube-inject": Entry(
        "injector.cli.kube_inject",
        "kube_inject",
        "Inject the sidecar into every workload of the FILES, and print them.",
    ),
    "probe": Entry(
        "injector.cli.probe", "probe", "Check that a server in this container lives, by the file that it writes."
    ),
    "revision": Entry(
        "injector.cli.revision",
        "revision",
        "List, verify and remove revisions, and see which workloads run an older one.",
    ),
    "serve": Entry("injector.cli.serve", "serve", "Serve the admission webhook on AdmissionReviews of pods."),
    "tag": Entry("injector.cli.tag", "tag", "Set, list and remove tags, or print the webhooks of one."),
    "uninject": Entry(
        "injector.cli.uninject",
        "uninject",
        "Remove from every workload of the FILES what injection wrote, and print them.",
    ),
    "version": Entry(
        "injector.cli.version", "version", "Print the version of the injector and the Istio versions it knows."
    ),
    "webhook": Entry(
        "injector.cli.webhook", "webhook", "Print or apply the MutatingWebhookConfigurations of revisions and tags."
    ),
}


class LazyGroup(click.Group):
    """A group that imports a command when it runs, and shows every error as one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        """Return the commands in the order of ``--help``."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 -- click's signature
        """Import and return a command; None for a name that is none."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(importlib.import_module(entry.module), entry.attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 -- click's signature
        """Write the commands from the table: asking each for its help would import them all."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in sorted(COMMANDS)])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 -- click's signature
        """Write what the exit codes mean."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_CODES])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command from the table, and the flags before it."""
        commands = [
            CompletionItem(name, help=entry.summary)
            for name, entry in sorted(COMMANDS.items())
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the flags before the command."""
        with _shown(info_name or "injector", {}):
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Parse the command's own flags and run it."""
        with _shown(ctx.command_path, ctx.meta):
            return super().invoke(ctx)


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
"""``-v``: every command has it, so that it may stand before and after the command's name."""


@click.group(
    "injector",
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    no_args_is_help=True,
)
@verbose
def root() -> None:
    """Istio's sidecar injector for many control-plane revisions at once: as a webhook, and offline.

    Offline, and without flags that name a revision, commands work on the embedded default, `stable`.
    """


@contextmanager
def _shown(command: str, meta: dict[str, Any]) -> Iterator[None]:
    """Turn what ends a command into a ``Failure``; what click means to be an orderly end passes."""
    try:
        yield
    except (click.exceptions.Exit, click.Abort, Failure, BrokenPipeError):
        raise
    except click.exceptions.NoArgsIsHelpError as error:
        raise Failure(error.format_message(), EX_USAGE, prefix="") from error
    except Exception as error:
        raise failure_of(error, command=command, verbose=VERBOSE in meta) from error

"""``injector completion SHELL``."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

from injector.cli.commands import verbose
from injector.errors import InjectorError

SHELLS: Final = ("bash", "zsh", "fish", "powershell")
PROGRAM: Final = "injector"
# The variable that click's own scripts set when they ask the program for completions.
COMPLETE_VARIABLE: Final = "_INJECTOR_COMPLETE"


@click.command("completion")
@verbose
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash        source <(injector completion bash)
    zsh         source <(injector completion zsh)
    fish        injector completion fish | source
    powershell  injector completion powershell | Out-String | Invoke-Expression
    """  # noqa: D301 -- click takes the character \b, not the backslash
    script = get_completion_class(shell)
    if script is None:  # pragma: no cover -- click before 8.5 knows no powershell
        raise InjectorError(f"this click has no completion for {shell}", hint="install click 8.5 or later")
    root = ctx.find_root().command
    # A program of the shell, which is not for people.
    click.echo(script(root, {}, PROGRAM, COMPLETE_VARIABLE).source())  # noqa: TID251 -- see above

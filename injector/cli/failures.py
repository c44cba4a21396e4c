"""Errors as a user sees them: one line on stderr, and an exit code that says whose turn it is.

The codes are those of BSD's sysexits.h where istioctl uses them too (istioctl/cmd/sysexits.go, 1.30.3).
"""

from __future__ import annotations

import traceback
from typing import IO, Any, Final

import click

from injector.cli.terminal import echo
from injector.errors import InjectorError

EX_OK: Final = 0
EX_FAILED: Final = 1
EX_USAGE: Final = 64
EX_DATAERR: Final = 65
EX_SOFTWARE: Final = 70

EXIT_CODES: Final = (
    (EX_OK, "done"),
    (EX_FAILED, "failed, or what was checked is not in order, or differs"),
    (EX_USAGE, "a wrong flag or argument"),
    (EX_DATAERR, "bad input: a manifest, a template, values, mesh config or an annotation"),
    (EX_SOFTWARE, "a fault of the injector itself: report it with the output of -v"),
)


class Failure(click.ClickException):
    """An error that is ready to be shown: ``error: `` and one line, after the traceback where that was asked for."""

    def __init__(self, message: str, code: int, *, trace: str = "", prefix: str = "error: ") -> None:
        super().__init__(message)
        self.code = code
        self.trace = trace
        self.prefix = prefix

    @property
    def exit_code(self) -> int:  # type: ignore[override]  # click's is a class variable, the same for every error
        """The exit code of the process."""
        return self.code

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it on stderr."""
        echo(f"{self.trace}{self.prefix}{self.message}", file=file, err=file is None)


def failure_of(error: Exception, *, command: str, verbose: bool) -> Failure:
    """Return how ``error``, which ended ``command``, is shown."""
    message, code = _message_and_code(error, command)
    trace = "".join(traceback.format_exception(error)) if verbose else ""
    return Failure(one_line(message), code, trace=trace)


def one_line(text: str) -> str:
    """Return ``text`` on one line, its lines joined by a blank."""
    return " ".join(part for line in text.splitlines() if (part := line.strip()))


def _message_and_code(error: Exception, command: str) -> tuple[str, int]:
    match error:
        case InjectorError():
            return str(error), error.exit_code
        case click.UsageError():
            return f"{error.format_message().rstrip('.')}; see `{_path(error, command)} --help`", EX_USAGE
        case click.ClickException():
            return error.format_message(), error.exit_code
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return f"{where}{error.strerror or error}", EX_FAILED
        case _:
            return f"{type(error).__name__}: {error}; this is a fault of the injector: report it with -v", EX_SOFTWARE


def _path(error: click.UsageError, command: str) -> str:
    return error.ctx.command_path if error.ctx else command

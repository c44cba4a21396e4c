"""Text on stdout and stderr: messages, questions, tables, JSON and YAML.

Names and values come from manifests and from the cluster. Every line is printed by ``echo``, which escapes control characters.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import IO, Any, Final, TypeVar

import click

from injector.kube.escaping import escape_controls, escape_line

T = TypeVar("T")

KUBECTL: Final = "kubectl injector"
PROGRAM: Final = KUBECTL if os.path.basename(sys.argv[0]).startswith("kubectl-injector") else "injector"  # noqa: PTH119 -- --help needs no pathlib
"""The name of the program in help texts: kubectl runs ``kubectl-injector`` for ``kubectl injector``."""
_MANY: Final = 100
"""The number of workloads that take about half a second."""


def echo(text: str, *, err: bool = False, nl: bool = True, file: IO[Any] | None = None) -> None:
    """Print text with its control characters escaped."""
    click.echo(escape_controls(text), file=file, err=err, nl=nl)  # noqa: TID251 -- the one place that may


def drop_unwritable_output() -> OSError | None:
    """Flush stdout and stderr, and drop what cannot be written. Return the error of stdout, None without one.

    Otherwise Python would try again when it ends, print `Exception ignored`, and exit with 120.
    """
    failed: OSError | None = None
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            failed = error if stream is sys.stdout else failed
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
    return failed


def write_verbatim(pieces: Iterable[str]) -> None:
    """Print text as it is. On a terminal, its control characters are escaped."""
    sys.stdout.writelines(map(escape_controls, pieces) if is_terminal() else pieces)


def has_color() -> bool:
    """Return whether to print colors: on a terminal, unless ``NO_COLOR`` or ``TERM=dumb`` is set."""
    return has_cursor() and not os.environ.get("NO_COLOR")


def echo_colored(text: str, colors: Mapping[str, str], *, with_color: bool | None = None) -> None:
    """Print text, on a terminal with colors: ANSI codes such as ``1;32`` by the patterns, within a line, that they are for."""
    color = has_color() if with_color is None else with_color
    colored = _colorize(escape_controls(text), colors if color else {})
    click.echo(colored, nl=False, color=color)  # noqa: TID251 -- the escapes are in


def _colorize(text: str, colors: Mapping[str, str]) -> str:
    for pattern, color in colors.items():
        text = re.sub(f"(?m){pattern}", rf"\033[{color}m\g<0>\033[0m", text)
    return text


def has_cursor(*, err: bool = False) -> bool:
    """Return whether text can replace text that was printed before: on a terminal, unless ``TERM=dumb`` is set."""
    return (sys.stderr if err else sys.stdout).isatty() and os.environ.get("TERM") != "dumb"


class LiveText:
    """Text on a terminal that each further one replaces. It is cut to the height of the terminal, and long lines are wrapped."""

    def __init__(self, colors: Mapping[str, str]) -> None:
        self._colors = colors if has_color() else {}
        self._height = 0

    def show(self, text: str) -> None:
        """Print the text in place of the one before."""
        width, height = shutil.get_terminal_size()
        lines = [part for line in escape_controls(text).splitlines() for part in _wrap(line, width)]
        if len(lines) >= height:
            lines = [*lines[: height - 2], "..."]
        colored = _colorize("".join(f"{line}\n" for line in lines), self._colors).replace("\n", f"{_CLEAR_LINE}\n")
        start = f"\033[{self._height}F" if self._height else ""
        click.echo(f"{start}{colored}{_CLEAR_BELOW}", nl=False, color=True)  # noqa: TID251 -- the escapes are in
        self._height = len(lines)


_CLEAR_LINE: Final = "\033[K"
_CLEAR_BELOW: Final = "\033[J"


def _wrap(line: str, width: int) -> list[str]:
    return [line[start : start + width] for start in range(0, len(line), width)] or [""]


DIFF_COLORS: Final = {r"^-.*": "31", r"^\+.*": "32", r"^@@.*": "36"}
"""The colors of a unified diff, for ``echo_colored``."""
HEADINGS: Final = {r"^[A-Z][A-Z -]+$": "1"}
"""The color of the first line of a table."""


def confirm(question: str) -> None:
    """Ask on stderr, and end the command unless the answer is yes. An empty answer, or the end of the input, means no."""
    try:
        if click.confirm(escape_controls(question), default=False, err=True):  # noqa: TID251 -- the one place that may
            return
    except click.Abort:
        echo("", err=True)  # the answer would have ended the line
    echo("Aborting operation.", err=True)
    click.get_current_context().exit(1)


def is_dialog() -> bool:
    """Return whether a person can read a question and answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def is_terminal() -> bool:
    """Return whether a person reads the output, and no script."""
    return sys.stdout.isatty()


def examples(*lines: str) -> str:
    """Return the epilog of a command's help. A line without a program is one of ``injector``."""
    commands = "\n".join(f"  {line if line.startswith('kubectl ') else f'{PROGRAM} {line}'}" for line in lines)
    return f"\b\nExamples:\n{commands}"


def one_line(text: str) -> str:
    """Return ``text`` with its lines joined by a space."""
    return " ".join(part for line in text.splitlines() if (part := line.strip()))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the rows below their headings. Each column is as wide as its widest cell."""
    lines = [columns, *([escape_line(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join(
        f"{'   '.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()}\n"
        for line in lines
    )


def data_text(data: Any, output_format: str, *, indent: int | str = 2) -> str:
    """Return data for programs as ``json`` or ``yaml``. ``indent`` is that of JSON."""
    return yaml_text(data) if output_format == "yaml" else json_text(data, indent=indent)


def yaml_text(data: Any) -> str:
    """Return data as YAML with its control characters escaped."""
    # Imported here, because --help does not need it and loading YAML takes longer than --help may take.
    from injector.kube.yaml import dump_yaml  # noqa: PLC0415

    return dump_yaml(data, escape=True)


def json_text(data: Any, *, indent: int | str = 2) -> str:
    """Return data as JSON with its control characters escaped."""
    return f"{escape_controls(json.dumps(data, indent=indent, ensure_ascii=False))}\n"


def print_note(text: str) -> None:
    """Print a note for the user on stderr."""
    echo(f"note: {text}", err=True)


def print_warning(text: str) -> None:
    """Print a warning on stderr."""
    echo(f"warning: {text}", err=True)


def with_progress(items: Iterable[T], label: str, *, length: int | None = None) -> Iterator[T]:
    """Yield the items, with a progress bar on stderr if that is a terminal and there are many.

    ``length`` is the number of items. If it is None, the bar has no percentage.
    """
    remaining = iter(items)
    first = list(islice(remaining, _MANY)) if has_cursor(err=True) else []
    remaining = chain(first, remaining)
    if len(first) < _MANY:
        yield from remaining
        return
    with click.progressbar(remaining, length, label=escape_line(label), width=0, file=sys.stderr) as progress:
        yield from progress

"""Documents out, to stdout or to a file that is never half written; tables, and progress on a terminal."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from injector.cli.terminal import stdout_is_terminal
from injector.errors import InjectorError
from injector.kube.escaping import escape_controls, escape_line
from injector.kube.jsonpatch import create_patch
from injector.kube.yaml import dump_yaml
from injector.revisions.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

FORMATS: Final = ("yaml", "json", "patch")
SEPARATOR: Final = "---\n"


@dataclass(frozen=True, slots=True)
class Processed:
    """One document of a manifest and what became of it.

    Args:
        text: how it stood in its file, byte for byte.
        before: what it holds.
        after: what it holds now; None where it is of no kind that the command changes, and passes through.
    """

    text: str
    before: Any
    after: Any | None


def rendered(documents: list[Processed], output_format: str, *, fold: bool = True, escape: bool = False) -> str:
    """Return the documents in one of ``FORMATS``; ``fold`` wraps long lines of YAML, as most minors do.

    ``escape`` is that of ``dump_yaml``; JSON has escapes for all control characters in any case.

    YAML ends every document with ``---``, as istioctl does. JSON is the object itself, or a List of several, as
    kubectl prints them. A patch is one line of JSON for each document, from the document given to the one made of it.
    """
    match output_format:
        case "json":
            return _json(documents)
        case "patch":
            return "".join(f"{json.dumps(_patch(document))}\n" for document in documents)
        case _:
            texts = (_yaml(document, fold=fold, escape=escape) for document in documents)
            return "".join(f"{text}{SEPARATOR}" for text in texts)


def data_text(data: Any, output_format: str) -> str:
    """Return data for programs as ``json`` or ``yaml``."""
    return yaml_text(data) if output_format == "yaml" else f"{json_text(data, indent=2)}\n"


def yaml_text(data: Any) -> str:
    """Return data as YAML in which all control characters are escapes."""
    return dump_yaml(data, escape=True)


def json_text(data: Any, *, indent: int | str) -> str:
    """Return data as JSON in which all control characters are escapes."""
    return escape_controls(json.dumps(data, indent=indent, ensure_ascii=False))


def write(text: str, path: Path | None) -> None:
    """Write ``text`` to a file, whole or not at all, or to stdout; on a terminal with its control characters as escapes.

    Raises:
        InjectorError: the file cannot be written.
    """
    if path is None:
        # A document that passes through can have some in its comments.
        sys.stdout.write(escape_controls(text) if stdout_is_terminal() else text)
        return
    try:
        _replace(path, text)
    except OSError as error:
        raise InjectorError(
            f"cannot be written: {error.strerror}",
            where=str(path),
            hint="name a file in a folder that you may write to",
        ) from error


def _yaml(document: Processed, *, fold: bool, escape: bool) -> str:
    if document.after is not None:
        return dump_yaml(document.after, fold=fold, escape=escape)
    return document.text if document.text.endswith("\n") else f"{document.text}\n"


def _json(documents: list[Processed]) -> str:
    objects = [
        content
        for document in documents
        if (content := document.before if document.after is None else document.after) is not None
    ]
    content = objects[0] if len(objects) == 1 else {"apiVersion": "v1", "kind": "List", "items": objects}
    return f"{json_text(content, indent=4)}\n"


def _patch(document: Processed) -> list[dict[str, Any]]:
    return [] if document.after is None else create_patch(document.before, document.after)


def _replace(path: Path, text: str) -> None:
    # What is there may be a device, a pipe, or a link that must stay one: only a plain file is replaced whole.
    if path.exists() and not (path.is_file() and not path.is_symlink()):
        path.write_text(text, encoding="utf-8")
        return
    replace_file(path, text)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the rows below their headings, each column as wide as its widest cell."""
    lines = [columns, *([escape_line(cell) for cell in row] for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    return "".join(
        f"{'   '.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()}\n"
        for line in lines
    )


def printable(text: str) -> str:
    """Return the text as it is where a terminal shows it so, else quoted."""
    return text if text.isprintable() and text.strip() == text and text else json.dumps(text)


T = TypeVar("T")


def shown(items: Sequence[T], what: str) -> Iterator[T]:
    """Yield the items, with a bar that says how many are done."""
    if not sys.stderr.isatty():
        yield from items
        return
    # Imported here, since it takes as long as all else that --help needs.
    from rich.console import Console  # noqa: PLC0415
    from rich.markup import escape  # noqa: PLC0415
    from rich.progress import track  # noqa: PLC0415

    yield from track(items, description=escape(escape_line(what)), console=Console(stderr=True), transient=True)

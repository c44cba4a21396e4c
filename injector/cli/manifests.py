"""Manifests: read files, folders and stdin, change their documents or find their workloads, and print the result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from tempfile import SpooledTemporaryFile
from textwrap import indent
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from injector.cli.options import FILENAME, RECURSIVE, option_group
from injector.cli.output import echo, is_terminal, json_text, print_warning, with_progress, write_verbatim
from injector.cli.sources import namespace_option
from injector.cluster.kubeconfig import DEFAULT_NAMESPACE
from injector.errors import InjectorError, ManifestError, UsageError
from injector.fleet.manifests import SELECTOR_FLAG, SEPARATOR, ChangedDocument, WorkloadFiles, is_selected
from injector.kube.jsonpatch import create_patch
from injector.kube.podtemplates import OtherKinds, parse_rules
from injector.kube.selectors import EVERYTHING, Selector
from injector.kube.yaml import dump_yaml
from injector.revisions.files import replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from injector.fleet.files import FileReader
    from injector.kube.podtemplates import Created

F = TypeVar("F", bound="Callable[..., Any]")

FORMATS: Final = ("yaml", "json", "patch")
_IN_MEMORY: Final = 16 * 1024 * 1024
_PIECE: Final = 1024 * 1024


def _other_kinds(_context: click.Context, option: click.Parameter, rules: tuple[str, ...]) -> OtherKinds:
    """Return the known kinds with those of the rules. Raises UsageError if a rule is not valid."""
    try:
        return parse_rules(rules)
    except ManifestError as error:
        raise UsageError(error.what, where=option.opts[0], hint=error.hint) from error


OTHER_KINDS_OPTION: Final = click.option(
    "--pod-template-path",
    "others",
    multiple=True,
    metavar="KIND.GROUP=PATH",
    callback=_other_kinds,
    help="Pod template of another kind of workload, such as Foo.example.com=spec.template; [*] and * are every item of a list or map. "
    "Repeatable, also for one kind.",
)


SELECTOR: Final = click.option(
    "-l",
    SELECTOR_FLAG,
    metavar="SELECTOR",
    callback=lambda _context, _option, text: _selector(text),
    help="Only workloads whose pods have these labels, such as app=web or 'app in (web,api)'.",
)


def _selector(text: str | None) -> Selector:
    """Return the selector of a flag. Raises UsageError if it is not valid."""
    if text is None:
        return EVERYTHING
    try:
        return Selector.parse(text)
    except ManifestError as error:
        raise UsageError(error.what, where=SELECTOR_FLAG, hint=error.hint) from error


def read_files(files: WorkloadFiles) -> FileReader:
    """Read the objects of the files on the command line. A pod template of a kind that is not known is a warning."""
    from injector.fleet.files import read_objects  # noqa: PLC0415 -- as below

    namespace = files.namespace or DEFAULT_NAMESPACE
    return read_objects(
        files.filenames, recursive=files.recursive, namespace=namespace, others=files.others, warn=print_warning
    )


def read_workloads(files: WorkloadFiles, reader: FileReader | None = None) -> tuple[Created, ...]:
    """Read the workloads of the files on the command line, or of a ``reader`` of them. A long reading is shown.

    Raises:
        DataError: a workload cannot be read, or the files have none.
    """
    # Imported here, because it loads the client's libraries and the injection, which other commands for manifests do not need.
    from injector.fleet.workloads import file_workloads  # noqa: PLC0415

    reader = reader or read_files(files)
    workloads = file_workloads(reader, files.others, with_progress)
    selected = tuple(workload for workload in workloads if is_selected(files.selector, workload))
    if workloads and not selected:
        what = f"none of {len(workloads)} workloads has pods that match"
        raise ManifestError(what, where=SELECTOR_FLAG, hint="check the labels of their pods")
    if not workloads:
        hint = "give a manifest with a Pod, a Deployment or another kind that creates pods"
        raise ManifestError("the files have no workload", where=", ".join(files.filenames), hint=hint)
    return selected


def workload_options(namespace: str) -> Callable[[F], F]:
    """Return the options for files of workloads, as the parameter ``files``. ``namespace`` is the help of ``--namespace``."""
    return option_group(
        "files", WorkloadFiles, FILENAME, RECURSIVE, namespace_option(namespace), SELECTOR, OTHER_KINDS_OPTION
    )


def manifest_text(
    documents: Iterable[ChangedDocument], output_format: str, *, fold: bool = True, escape: bool = False
) -> Iterator[str]:
    """Yield the text of the documents in one of ``FORMATS``, piece by piece.

    YAML ends every document with ``---``, as istioctl does. JSON is the object itself, or a List of several, as kubectl prints them.
    A patch is one JSON patch per line and document, from the input to the result. With ``fold``, long lines of YAML are wrapped, as
    istioctl of most minors does. With ``escape``, control characters in YAML are escaped (see ``dump_yaml``), as always in JSON.
    """
    match output_format:
        case "json":
            yield from _json_pieces(document.content for document in documents if document.content is not None)
        case "patch":
            for document in documents:
                yield f"{json.dumps([] if document.after is None else create_patch(document.before, document.after))}\n"
        case _:
            for document in documents:
                yield f"{_document_yaml(document, fold=fold, escape=escape)}{SEPARATOR}"


def _json_pieces(objects: Iterator[Any]) -> Iterator[str]:
    first = list(islice(objects, 2))
    if len(first) == 1:
        yield json_text(first[0], indent=4)
        return
    head, tail = json_text({"apiVersion": "v1", "kind": "List", "items": []}, indent=4).split("[]")
    comma = f"{head}[\n"
    for document in chain(first, objects):
        yield comma + indent(json_text(document, indent=4).removesuffix("\n"), " " * 8)
        comma = ",\n"
    yield f"\n    ]{tail}" if first else f"{head}[]{tail}"


def _document_yaml(document: ChangedDocument, *, fold: bool, escape: bool) -> str:
    if document.after is not None:
        return dump_yaml(document.after, fold=fold, escape=escape)
    return document.text if document.text.endswith("\n") else f"{document.text}\n"


def write_manifests(
    documents: Iterable[ChangedDocument], output_format: str, path: Path | None, *, fold: bool = True
) -> None:
    """Write documents to stdout, or to a file, which is replaced as a whole or not at all.

    Nothing is written if ``documents`` raises an error: the text is kept until the last document, on disk if it is long. Control
    characters are escaped on a terminal: documents that pass through can have some in comments.

    Raises:
        InjectorError: the file cannot be written.
    """
    escape = path is None and is_terminal()
    with SpooledTemporaryFile(_IN_MEMORY, "w+", encoding="utf-8", newline="\n") as text:
        text.writelines(manifest_text(documents, output_format, fold=fold, escape=escape))
        text.seek(0)
        pieces = iter(partial(text.read, _PIECE), "")
        if path is None:
            write_verbatim(pieces)
            return
        write_file(path, pieces)
    echo(f"wrote {path}", err=True)


def write_file(path: Path, text: Iterable[str]) -> None:
    """Write a file, which is replaced as a whole or not at all. Raises InjectorError if it cannot be written."""
    try:
        # Only a plain file is replaced: a device, a pipe or a link must stay one.
        if path.exists() and (path.is_symlink() or not path.is_file()):
            with path.open("w", encoding="utf-8") as file:
                file.writelines(text)
        else:
            replace_file(path, text)
    except OSError as error:
        hint = "give a file in a folder that you can write to"
        raise InjectorError(f"cannot be written: {error.strerror}", where=str(path), hint=hint) from error

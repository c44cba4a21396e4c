"""Manifests: read files, folders and stdin, change their documents or find their workloads, and print the result."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from tempfile import SpooledTemporaryFile
from textwrap import indent
from typing import Any, Final, TypeAlias, TypeVar

import click

from injector.cli.options import FILENAME, RECURSIVE, option_group
from injector.cli.output import echo, is_terminal, json_text, with_progress, write_verbatim
from injector.cli.sources import namespace_option
from injector.cluster.kubeconfig import DEFAULT_NAMESPACE
from injector.errors import DataError, InjectorError, ManifestError, UsageError, for_each
from injector.kube.jsonpatch import create_patch
from injector.kube.pods import OTHER_KINDS, Created, OtherKinds, add_place, created_pods, unread_templates
from injector.kube.selectors import EVERYTHING, Selector
from injector.kube.typed import kind_type, normalise
from injector.kube.yaml import Document, dump_yaml, load_yaml, split_documents
from injector.revisions.files import replace_file

F = TypeVar("F", bound="Callable[..., Any]")
ManifestChange: TypeAlias = Callable[[dict[str, Any]], dict[str, Any] | None]

STDIN: Final = "-"
# The file names that kubectl reads in a folder (k8s.io/cli-runtime, resource.FileExtensions).
SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
FORMATS: Final = ("yaml", "json", "patch")
SEPARATOR: Final = "---\n"
_IN_MEMORY: Final = 16 * 1024 * 1024
_PIECE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Manifest:
    """The text of one file, and the file's name for messages."""

    name: str
    text: str


def read_manifests(names: Sequence[str], *, recursive: bool) -> list[Manifest]:
    """Read every file, in order. A name is a file, a folder, or ``-`` for stdin.

    Raises:
        UsageError: no name is given, or stdin is given more than once.
        ManifestError: a file is missing, unreadable or not UTF-8, or a folder has no manifest.
    """
    if not names:
        raise UsageError("no file is given", hint="give -f FILE, -f FOLDER, or -f - for stdin")
    if "" in names:
        raise UsageError("the name of a file is empty", where="-f", hint="check the variable that it comes from")
    if names.count(STDIN) > 1:
        raise UsageError("stdin can be read only once", where=f"-f {STDIN}", hint="give it once")
    return [_read(path) for name in names for path in _paths(name, recursive=recursive)]


def _paths(name: str, *, recursive: bool) -> list[str]:
    if name == STDIN or not os.path.isdir(name):  # noqa: PTH112 -- messages have the name as it was written
        return [name]
    try:
        os.listdir(name)  # noqa: PTH208 -- glob takes a folder that cannot be read for an empty one
    except OSError as error:
        raise ManifestError(f"cannot be read: {error.strerror}", where=name, hint="check its permissions") from error
    files = Path(name).glob("**/*" if recursive else "*")
    paths = sorted(str(path) for path in files if path.suffix in SUFFIXES and path.is_file())
    if not paths:
        hint = "add a manifest to it" if recursive else "give -R to read subdirectories"
        raise ManifestError("the folder has no .yaml, .yml or .json file", where=name, hint=hint)
    return paths


def _read(name: str) -> Manifest:
    where = "stdin" if name == STDIN else name
    try:
        raw = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except OSError as error:
        is_url = name.startswith(("http://", "https://"))
        hint = f"download it: curl -fsSL {name} | injector ... -f -" if is_url else "check the path"
        raise ManifestError(f"cannot be read: {error.strerror}", where=where, hint=hint) from error
    try:
        return Manifest(where, raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ManifestError("not valid UTF-8", where=f"{where}:{line}", hint="save the file as UTF-8") from error


@dataclass(frozen=True, slots=True)
class ChangedDocument:
    """One document of a manifest, before and after a command.

    ``text`` is the document byte for byte, and ``before`` its content. ``after`` is None if the command does not change documents of this
    kind. ``file`` is the name of the manifest.
    """

    text: str
    before: Any
    after: Any | None
    file: str = ""
    document: Document | None = None

    @property
    def content(self) -> Any:
        """The content to print."""
        return self.before if self.after is None else self.after


def changed_documents(
    manifests: Iterable[Manifest], change: ManifestChange, others: OtherKinds = OTHER_KINDS
) -> Iterator[ChangedDocument]:
    """Call ``change`` on each document that is an object, and yield all documents with the results.

    A pod template of a kind that is neither Istio's nor one of ``others`` is a warning on stderr. A terminal shows the progress.

    Raises:
        DataError: a document is not valid YAML, or ``change`` raises it. The errors name the file, the line and the object. They are raised
            after the last document, see ``for_each``.
    """
    documents = [
        (document, manifest.name)
        for manifest in manifests
        for document in split_documents(manifest.text, where=manifest.name)
    ]
    return for_each(
        with_progress(documents, "documents", length=len(documents)), lambda each: _changed(*each, change, others)
    )


def _changed(document: Document, name: str, change: ManifestChange, others: OtherKinds) -> ChangedDocument:
    content = load_yaml(document.text, where=name, line=document.line)
    _check_lone(document, name)
    if not isinstance(content, dict):
        return ChangedDocument(document.text, content, None)
    try:
        for message in unread_templates(content, others):
            echo(f"warning: {name}:{document.first_line}: {message}", err=True)
        return ChangedDocument(document.text, content, change(content), name, document)
    except DataError as error:
        add_place(error, content, f"{name}:{document.first_line}")
        raise


def _check_lone(document: Document, name: str) -> None:
    """Refuse an object in JSON that another one follows: Istio reads the first one only, and drops the others without a word."""
    text = document.text.lstrip()
    if not text.startswith("{"):
        return
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return  # YAML in flow style
    if text[end:].lstrip().startswith("{"):
        what = "an object follows another without a separator"
        raise ManifestError(
            what, where=f"{name}:{document.first_line}", hint="put a line `---` between them, or use a List"
        )


@dataclass(frozen=True, slots=True)
class Workloads:
    """The workloads of files in order, and the labels of each Namespace among the documents."""

    created: tuple[Created, ...]
    namespace_labels: Mapping[str, Mapping[str, str]]


def _other_kinds(_context: click.Context, option: click.Parameter, rules: tuple[str, ...]) -> OtherKinds:
    """Return the known kinds with those of the rules. Raises UsageError if a rule is not valid, or repeats a kind."""
    flag, named = option.opts[0], dict[tuple[str, str], tuple[str, ...]]()
    for rule in rules:
        name, _, path = rule.partition("=")
        kind, _, group = name.partition(".")
        keys = tuple(path.split("."))
        if not kind or not all(keys):
            hint = "write KIND.GROUP=PATH, such as Foo.example.com=spec.template"
            raise UsageError(f"{rule[:80]!r} is not a pod template path", where=flag, hint=hint)
        if kind_type(kind) is not None or (kind, group) in named:
            what = f"the pod template of {name[:80]} is already known"
            raise UsageError(what, where=flag, hint="leave the rule out")
        named[kind, group] = keys
    return {**OTHER_KINDS, **named}


OTHER_KINDS_OPTION: Final = click.option(
    "--pod-template-path",
    "others",
    multiple=True,
    metavar="KIND.GROUP=PATH",
    callback=_other_kinds,
    help="Pod template of another kind of workload, such as Foo.example.com=spec.template. Repeatable.",
)


SELECTOR_FLAG: Final = "--selector"
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


def is_selected(selector: Selector, workload: Created) -> bool:
    """Return whether a selector matches the pods of a workload."""
    return selector.is_empty or selector.matches(workload.pod["metadata"].get("labels") or {})


@dataclass(frozen=True, slots=True)
class WorkloadFiles:
    """The files of workloads on the command line. ``namespace`` is for workloads that have none, ``selector`` is that of pods."""

    filenames: tuple[str, ...]
    recursive: bool = False
    namespace: str | None = None
    others: OtherKinds = field(default_factory=lambda: OTHER_KINDS)
    selector: Selector = EVERYTHING

    def read(self) -> Workloads:
        """Read every workload of the files.

        Raises:
            UsageError: no file is given.
            DataError: a file or a workload cannot be read, or the files have no workload.
        """
        created: list[Created] = []
        labels: dict[str, Mapping[str, str]] = {}

        def collect(obj: dict[str, Any]) -> None:
            created.extend(created_pods(obj, self.namespace or DEFAULT_NAMESPACE, self.others))
            if obj.get("kind") == "Namespace":
                meta = normalise(obj, "v1.Namespace", coerce=True).get("metadata") or {}
                labels[meta.get("name", "")] = meta.get("labels") or {}

        placed: list[Created] = []
        manifests = read_manifests(self.filenames, recursive=self.recursive)
        for each in changed_documents(manifests, collect, self.others):
            if each.document is not None and created:
                line = each.document.first_line
                placed += [replace(workload, file=each.file, line=line) for workload in created]
                created.clear()
        selected = [each for each in placed if is_selected(self.selector, each)]
        if placed and not selected:
            what = f"none of {len(placed)} workloads has pods that match"
            raise ManifestError(what, where=SELECTOR_FLAG, hint="check the labels of their pods")
        if not placed:
            hint = "give a manifest with a Pod, a Deployment or another kind that creates pods"
            raise ManifestError("the files have no workload", where=", ".join(self.filenames), hint=hint)
        return Workloads(tuple(selected), labels)


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
            yield from _json_pieces(each.content for each in documents if each.content is not None)
        case "patch":
            for each in documents:
                yield f"{json.dumps([] if each.after is None else create_patch(each.before, each.after))}\n"
        case _:
            for each in documents:
                yield f"{_document_yaml(each, fold=fold, escape=escape)}{SEPARATOR}"


def _json_pieces(objects: Iterator[Any]) -> Iterator[str]:
    first = list(islice(objects, 2))
    if len(first) == 1:
        yield json_text(first[0], indent=4)
        return
    head, tail = json_text({"apiVersion": "v1", "kind": "List", "items": []}, indent=4).split("[]")
    comma = f"{head}[\n"
    for each in chain(first, objects):
        yield comma + indent(json_text(each, indent=4).removesuffix("\n"), " " * 8)
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

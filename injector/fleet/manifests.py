"""Manifests as texts: read files, folders and stdin, change their documents, or find their workloads."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from injector.errors import DataError, ManifestError, UsageError, for_each
from injector.fleet.progress import Progress, Report, no_progress
from injector.kube.objects import add_place
from injector.kube.podtemplates import OTHER_KINDS, Created, OtherKinds, unread_templates
from injector.kube.selectors import EVERYTHING, Selector
from injector.kube.yaml import Document, load_yaml, split_documents

ManifestChange: TypeAlias = Callable[[dict[str, Any]], dict[str, Any] | None]
STDIN: Final = "-"
SEPARATOR: Final = "---\n"
"""The line between two documents."""
# The file names that kubectl reads in a folder (k8s.io/cli-runtime, resource.FileExtensions).
SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
SELECTOR_FLAG: Final = "--selector"


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


def change_documents(
    manifests: Iterable[Manifest],
    change: ManifestChange,
    others: OtherKinds = OTHER_KINDS,
    *,
    warn: Report,
    progress: Progress = no_progress,
) -> Iterator[ChangedDocument]:
    """Call ``change`` on each document that is an object, and yield all documents with the results.

    A pod template of a kind that is neither Istio's nor one of ``others`` is a warning.

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
        progress(documents, "documents", length=len(documents)), lambda named: _change(*named, change, others, warn)
    )


def _change(document: Document, name: str, change: ManifestChange, others: OtherKinds, warn: Report) -> ChangedDocument:
    content = load_yaml(document.text, where=name, line=document.line)
    check_lone(document, name)
    if not isinstance(content, dict):
        return ChangedDocument(document.text, content, None)
    try:
        for message in unread_templates(content, others):
            warn(f"{name}:{document.first_line}: {message}")
        return ChangedDocument(document.text, content, change(content), name, document)
    except DataError as error:
        add_place(error, content, f"{name}:{document.first_line}")
        raise


def check_lone(document: Document, name: str) -> None:
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

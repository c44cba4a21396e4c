"""Manifests in: files, folders and stdin as texts, their documents one by one, and their workloads."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from injector.cli.output import Processed
from injector.errors import DataError, ManifestError, UsageError
from injector.kube.pods import created_pods
from injector.kube.typed import normalise
from injector.kube.yaml import load_yaml, split_documents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from injector.kube.yaml import Document

    Change = Callable[[dict[str, Any]], dict[str, Any] | None]
    from collections.abc import Mapping

    from injector.kube.pods import Created

STDIN: Final = "-"
# The file names that kubectl reads in a folder (k8s.io/cli-runtime, resource.FileExtensions).
SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


@dataclass(frozen=True, slots=True)
class Manifest:
    """The text of one file."""

    name: str
    text: str


def read_manifests(names: Sequence[str], *, recursive: bool) -> list[Manifest]:
    """Read every file that ``names`` mean, in order: a file, a folder, or ``-`` for stdin.

    Raises:
        UsageError: nothing was named, or stdin more than once.
        ManifestError: a file is missing, unreadable or not UTF-8, or a folder has no manifest.
    """
    if not names:
        raise UsageError("no file was named", hint="give -f FILE, -f FOLDER, or -f - for stdin")
    if names.count(STDIN) > 1:
        raise UsageError("stdin can be read only once", where=f"-f {STDIN}", hint="name it once")
    return [_read(path) for name in names for path in _paths(name, recursive=recursive)]


def _paths(name: str, *, recursive: bool) -> Iterator[str]:
    if name == STDIN or not os.path.isdir(name):  # noqa: PTH112 -- a name stays as it was written, for messages
        yield name
        return
    found = sorted(str(path) for path in Path(name).glob("**/*" if recursive else "*") if _is_manifest(path))
    if not found:
        hint = "add -R to look into its folders too" if not recursive else "put a manifest there"
        raise ManifestError("the folder has no .yaml, .yml or .json file", where=name, hint=hint)
    yield from found


def _is_manifest(path: Path) -> bool:
    return path.suffix in SUFFIXES and path.is_file()


def _read(name: str) -> Manifest:
    shown = "stdin" if name == STDIN else name
    try:
        raw = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except OSError as error:
        raise ManifestError(f"cannot be read: {error.strerror}", where=shown, hint="check the path") from error
    try:
        return Manifest(shown, raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ManifestError("this is not UTF-8", where=f"{shown}:{line}", hint="save the file as UTF-8") from error


NEW_OBJECTS: Final = 100_000
"""Objects after which the collector looks for cycles, instead of 700. All documents are kept to the end and have none: looking at them
again and again takes a sixth of the time of a thousand workloads."""


def changed_documents(manifests: Iterable[Manifest], change: Change) -> list[Processed]:
    """Return every document with what ``change`` made of it; what is no object passes through.

    Raises:
        DataError: a document is no YAML, or cannot be changed.
    """
    with _seldom_collected():
        return [
            _processed(document, manifest.name, change)
            for manifest in manifests
            for document in split_documents(manifest.text)
        ]


@contextmanager
def _seldom_collected() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _processed(document: Document, name: str, change: Change) -> Processed:
    content = load_yaml(document.text, where=name, line=document.line)
    if not isinstance(content, dict):
        return Processed(document.text, content, None)
    try:
        return Processed(document.text, content, change(content))
    except DataError as error:
        place = f"{name}:{_first_line(document)}: {_described(content)}".rstrip(": ")
        error.where = f"{place}: {error.where}" if error.where else place
        raise


def _first_line(document: Document) -> int:
    """The line where the document says something: blank lines and comments before it do not count."""
    for number, line in enumerate(document.text.split("\n")):
        if line.strip() and not line.lstrip().startswith("#"):
            return document.line + number
    return document.line


def _described(content: dict[str, Any]) -> str:
    metadata = content.get("metadata")
    name = metadata.get("name") or metadata.get("generateName") if isinstance(metadata, dict) else None
    words = [word for word in (content.get("kind"), name) if isinstance(word, str)]
    return " ".join(words)


NAMESPACE: Final = "default"
"""Where a workload is created that names no namespace, as kubectl has it."""


@dataclass(frozen=True, slots=True)
class Workloads:
    """What was read: the workloads in order, and the labels of each Namespace among the documents."""

    created: tuple[Created, ...]
    namespace_labels: Mapping[str, Mapping[str, str]]

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces of the workloads."""
        return tuple(dict.fromkeys(each.namespace for each in self.created))


def read_workloads(names: Sequence[str], *, recursive: bool, namespace: str | None) -> Workloads:
    """Read every workload of the files that ``names`` mean; ``namespace`` is that of workloads that name none.

    Raises:
        UsageError: no file was named.
        DataError: a file or a workload cannot be read, or there is no workload at all.
    """
    created: list[Created] = []
    labels: dict[str, Mapping[str, str]] = {}

    def take(obj: dict[str, Any]) -> None:
        created.extend(created_pods(obj, namespace or NAMESPACE))
        if obj.get("kind") == "Namespace":
            meta = normalise(obj, "v1.Namespace", coerce=True).get("metadata") or {}
            labels[meta.get("name", "")] = meta.get("labels") or {}

    changed_documents(read_manifests(names, recursive=recursive), take)
    if not created:
        raise ManifestError(
            "there is no workload in the files",
            where=", ".join(names),
            hint="name a manifest with a Pod, a Deployment or another kind that has pods",
        )
    return Workloads(tuple(created), labels)

"""The documents of manifests, one by one through a change; its errors name the file, the line and the object."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from injector.cli.output import Processed
from injector.errors import DataError
from injector.kube.serial import load_yaml, split_documents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from injector.cli.inputs import Manifest
    from injector.kube.serial import Document

    Change = Callable[[dict[str, Any]], dict[str, Any] | None]


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

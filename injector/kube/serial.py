"""JSON and YAML in and out: the one door through which text becomes data here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson

from injector.errors import DataError, ManifestError
from injector.golang.json import go_json
from injector.golang.strconv import go_float
from injector.kube.yamlread import load_yaml
from injector.kube.yamlwrite import dump_yaml

__all__ = [
    "Document",
    "dump_json",
    "dump_yaml",
    "go_float",
    "go_json",
    "load_json",
    "load_yaml",
    "split_documents",
]

_SEPARATOR: Final = "---"


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a manifest: its text, byte for byte, and the line of the file that it begins on (from 1)."""

    text: str
    line: int


def split_documents(text: str, *, where: str = "") -> list[Document]:
    """Split a manifest where k8s.io/apimachinery's yaml.NewYAMLReader (v0.35) does: at lines that begin with ``---``.

    The separators belong to no document, and there are no documents without a line. ``where`` names the source in
    errors.

    Raises:
        ManifestError: a separator with more on its line than a comment.
    """
    documents: list[Document] = []
    lines: list[str] = []
    start = 1
    for number, line in enumerate(_lines(text), 1):
        if not line.startswith(_SEPARATOR):
            lines.append(line)
            continue
        rest = line.removeprefix(_SEPARATOR).strip()
        if rest and not rest.startswith("#"):
            what = f"yaml: line {number}: invalid Yaml document separator: {rest}"
            raise ManifestError(what, where=where, hint="begin the document on the line after ---")
        if lines:
            documents.append(Document("".join(lines), start))
        lines, start = [], number + 1
    if lines:
        documents.append(Document("".join(lines), start))
    return documents


def _lines(text: str) -> list[str]:
    """Split at line feeds alone: Unicode has more line ends, which are text here."""
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, last] if last else lines


def load_json(text: str | bytes, *, where: str = "") -> Any:
    """Return JSON data; integers beyond 64 bits are floats, as encoding/json has them.

    Raises:
        ManifestError: it is no JSON (NaN, lone surrogates and nesting beyond 1,024 levels are none).
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        what = f"json: line {error.lineno}: {error.msg}"
        raise ManifestError(what, where=where, hint="correct the JSON") from error


def dump_json(value: Any) -> bytes:
    """Return compact JSON in UTF-8, keys in the order they have.

    Raises:
        DataError: it is no JSON data, or nested beyond 254 levels, which orjson stops at.
    """
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise DataError(f"json: {error}", hint="give JSON data") from error

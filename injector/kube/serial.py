"""JSON and YAML in and out: the one door through which text becomes data here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson

from injector.errors import ManifestError
from injector.kube.gojson import go_float, go_json
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


def split_documents(text: str) -> list[Document]:
    """Split a manifest as k8s.io/apimachinery's yaml.NewYAMLReader does: at lines that begin with ``---``.

    What stands on the separator's line after it is dropped with it; documents without any text are left out.
    """
    documents: list[Document] = []
    lines: list[str] = []
    start = 1
    for number, line in enumerate(_lines(text), 1):
        if line.startswith(_SEPARATOR) and not line[len(_SEPARATOR) :].strip():
            if lines:
                documents.append(Document("".join(lines), start))
            lines, start = [], number + 1
        else:
            lines.append(line)
    if lines:
        documents.append(Document("".join(lines), start))
    return documents


def _lines(text: str) -> list[str]:
    parts = text.split("\n")
    return [*(part + "\n" for part in parts[:-1]), *([parts[-1]] if parts[-1] else [])]


def load_json(text: str | bytes, *, where: str = "") -> Any:
    """Return JSON data; integers beyond 64 bits are floats, as encoding/json has them.

    Raises:
        ManifestError: it is no JSON (NaN, lone surrogates and nesting beyond 1,024 are not).
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ManifestError(f"json: {error.msg} at line {error.lineno}", where=where, hint="correct the JSON") from error


def dump_json(value: Any) -> bytes:
    """Return compact JSON in UTF-8, keys in the order they have."""
    return orjson.dumps(value)


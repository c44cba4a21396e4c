"""Comparing with a golden: exactly what the corpus's README lets differ, and nothing more."""

from __future__ import annotations

import difflib
import re
from typing import Any

import yaml

STATUS_ANNOTATION = "sidecar.istio.io/status"
STATUS_VERSION = re.compile(r'("version":")[^"]*(")')
NO_VERSION = '{"version":"",'
EMPTY_STRUCTS = frozenset({"strategy", "updateStrategy", "resources"})
MAX_DIFF_LINES = 60
"""A failing case shows this much: enough for the first fault, short enough to read."""


def normalised(document: Any) -> Any:
    """``document`` without Go's own zero structs and without the status annotation's version."""
    if isinstance(document, list):
        return [normalised(item) for item in document]
    if not isinstance(document, dict):
        return document
    is_deployment_config = document.get("kind") == "DeploymentConfig"
    kept = {}
    for key, value in document.items():
        plain = normalised(value)
        if key == "spec" and is_deployment_config and isinstance(plain, dict) and plain.get("test") is False:
            del plain["test"]
        if key == STATUS_ANNOTATION and isinstance(plain, str):
            plain = STATUS_VERSION.sub(r"\1\2", plain)
        if not _is_zero_struct(key, plain):
            kept[key] = plain
    return kept


def difference(got: list[Any], want: list[Any]) -> str:
    """A short unified diff of two streams of documents; empty where they are the same."""
    left, right = [normalised(document) for document in want], [normalised(document) for document in got]
    if left == right and _typed(left) == _typed(right):
        return ""
    lines = list(difflib.unified_diff(_lines(left), _lines(right), "expected", "actual", n=2, lineterm=""))
    if not lines:
        lines = ["the same text, other types:", *(f"  expected {left!r}\n  actual   {right!r}",)]
    if len(lines) > MAX_DIFF_LINES:
        lines = [*lines[:MAX_DIFF_LINES], f"... and {len(lines) - MAX_DIFF_LINES} lines more"]
    return "\n".join(lines)


def same_text(got: str, want: str) -> bool:
    """Whether two texts are the same to the byte; a golden may have its status annotation's version taken out."""
    return want == (STATUS_VERSION.sub(r"\1\2", got) if NO_VERSION in want else got)


def _is_zero_struct(key: str, value: Any) -> bool:
    if key == "creationTimestamp":
        return value is None
    if key in EMPTY_STRUCTS:
        return isinstance(value, dict) and not value
    return key == "status" and isinstance(value, dict) and _is_zero(value)


def _is_zero(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_zero(item) for item in value.values())
    return not value


def _typed(value: Any) -> Any:
    """``value`` with each leaf beside its type: Python holds True == 1 == 1.0, Kubernetes does not."""
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    return type(value).__name__, value


def _lines(documents: list[Any]) -> list[str]:
    return yaml.safe_dump_all(documents, width=200).splitlines()

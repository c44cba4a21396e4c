"""Comparing with a golden: exactly what the corpus's README lets differ, and nothing more."""

from __future__ import annotations

import difflib
import json
import re
from typing import Any

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
    relevant = {}
    for key, value in document.items():
        plain = normalised(value)
        if key == "spec" and is_deployment_config and isinstance(plain, dict) and plain.get("test") is False:
            del plain["test"]
        if key == STATUS_ANNOTATION and isinstance(plain, str):
            plain = STATUS_VERSION.sub(r"\1\2", plain)
        if not _is_zero_struct(key, plain):
            relevant[key] = plain
    return relevant


def difference(got: list[Any], want: list[Any]) -> str:
    """A short unified diff of two streams of documents; empty where they are the same."""
    left, right = (_lines([normalised(document) for document in documents]) for documents in (want, got))
    lines = list(difflib.unified_diff(left, right, "expected", "actual", n=2, lineterm=""))
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


def _lines(documents: list[Any]) -> list[str]:
    """Documents as JSON, which tells apart what Python holds equal and Kubernetes does not: true, 1 and 1.0."""
    return json.dumps(documents, indent=1, sort_keys=True, ensure_ascii=False).splitlines()

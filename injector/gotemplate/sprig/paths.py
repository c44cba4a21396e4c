"""Slash-separated paths (Go's packages path and path/filepath on Unix)."""

from __future__ import annotations


def clean(path: str) -> str:
    """Return the shortest path that means the same."""
    if not path:
        return "."
    rooted = path.startswith("/")
    parts: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part != "..":
            parts.append(part)
        elif parts and parts[-1] != "..":
            parts.pop()
        elif not rooted:
            parts.append(part)
    return ("/" if rooted else "") + "/".join(parts) or "."


def base(path: str) -> str:
    """Return the last element of a path."""
    if not path:
        return "."
    return path.rstrip("/").rpartition("/")[2] or "/"


def dir_(path: str) -> str:
    """Return a path without its last element."""
    return clean(path[: path.rfind("/") + 1])


def ext(path: str) -> str:
    """Return the suffix of a path from its last dot on."""
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    return name[dot:] if dot >= 0 else ""


def is_abs(path: str) -> bool:
    """Return whether a path begins at the root."""
    return path.startswith("/")

"""Write down which minors of istio.io/api have each field and enum value of ``injector/istio/meshschema.json``.

    python tests/istio/recorder/meshminors.py DIR

DIR is a clone of https://github.com/istio/api with its branches ``release-1.0`` to ``release-1.31`` and ``master``. A field or value gets
``first`` and ``last`` if it is not in all of them; messages that a minor does not have cannot be reached in it. Prints the fields whose
type another minor has otherwise; ``injector/istio/proto.py`` says which of them matter.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

SCHEMA = Path(__file__).parents[3] / "injector" / "istio" / "meshschema.json"
MINORS = range(33)
MASTER = 32
FOLDERS = ("mesh", "networking", "type", "analysis", "security")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
OPTIONS = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]")
TOKEN = re.compile(r"(?P<open>(?:message|enum|oneof)\s+\w+\s*\{)|(?P<other>\{)|(?P<close>\})|(?P<statement>[^;{}]*;)")
FIELD = re.compile(
    r"\s*(?:(?P<repeated>repeated)\s+|optional\s+)?(?P<type>map\s*<[^>]*>|[\w.]+)\s+(?P<name>\w+)\s*=\s*\d+\s*;"
)
VALUE = re.compile(r"\s*(?P<name>\w+)\s*=\s*(?P<number>-?\d+)\s*;")
Names = dict[str, dict[str, str]]


def parsed(text: str) -> Names:
    """Return the fields of the messages and the values of the enums of a .proto file, with their types or numbers."""
    text = OPTIONS.sub("", re.sub(r'"(?:\\.|[^"\\])*"', '""', COMMENT.sub("", text)))
    package = re.search(r"\bpackage\s+([\w.]+)\s*;", text)
    found: Names = {}
    path: list[tuple[str, str]] = []
    for token in TOKEN.finditer(text):
        if token["open"]:
            kind, name = token["open"].rstrip("{").split()
            path.append((kind, name))
        elif token["other"]:
            path.append(("", ""))
        elif token["close"]:
            if path:
                path.pop()
        elif path and all(kind for kind, _ in path):
            kind = path[-1][0]
            match = (VALUE if kind == "enum" else FIELD).fullmatch(token["statement"])
            if match is None or re.match(r"\s*(reserved|option|package|import)\b", token["statement"]):
                continue
            full = ".".join([package[1] if package else "", *(name for kind, name in path if kind != "oneof")])
            kind = match["number"] if kind == "enum" else ("repeated " if match["repeated"] else "") + match["type"]
            found.setdefault(full, {})[match["name"]] = re.sub(r"\s", "", kind)
    return found


def at(clone: str, minor: int) -> Names:
    """Return the names of a minor."""
    revision = "master" if minor == MASTER else f"release-1.{minor}"
    found: Names = {}
    for path in _git(clone, "ls-tree", "-r", "--name-only", revision, "--", *FOLDERS).split():
        if path.endswith(".proto"):
            for name, fields in parsed(_git(clone, "show", f"{revision}:{path}")).items():
                found.setdefault(name, {}).update(fields)
    return found


def _git(clone: str, *command: str) -> str:
    return subprocess.run(["git", "-C", clone, *command], check=True, capture_output=True, text=True).stdout


def span(name: str, having: dict[int, dict[str, str]]) -> dict[str, str]:
    """Return the first and the last minor with a name, as far as other minors have its message or enum without it."""
    minors = [minor for minor, names in having.items() if name in names]
    limits = {}
    if minors and minors[0] > min(having):
        limits["first"] = f"1.{minors[0]}"
    if minors and minors[-1] < max(having):
        limits["last"] = f"1.{minors[-1]}"
    return limits


def main() -> int:
    """Write the limits into the schema."""
    (clone,) = sys.argv[1:]
    by_minor = {minor: at(clone, minor) for minor in MINORS}
    schema: dict[str, Any] = json.loads(SCHEMA.read_text())
    for table, part in (("messages", "fields"), ("enums", "values")):
        for name, raw in schema[table].items():
            having = {minor: names[name] for minor, names in by_minor.items() if name in names}
            if table == "messages":
                for field in raw[part]:
                    _limit(field, name, having)
            else:
                limits = {value: span(value, having) for value in raw[part]}
                raw["limits"] = {value: each for value, each in limits.items() if each}
    SCHEMA.write_text(json.dumps(schema, separators=(",", ":")))
    return 0


def _limit(field: dict[str, Any], message: str, having: dict[int, dict[str, str]]) -> None:
    proto = field.get("proto", field["json"])
    types = {names[proto].rpartition(".")[2] for names in having.values() if proto in names}
    if len(types) > 1:
        sys.stdout.write(f"{message}.{proto}: {', '.join(sorted(types))}\n")
        if field.get("first") or field.get("last"):
            return  # each form of a field was limited by hand
    field.update(span(proto, having))


if __name__ == "__main__":
    sys.exit(main())

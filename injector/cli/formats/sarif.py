"""SARIF 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0/), which code hosts show beside the lines of a manifest.

There is one result for each workload that differs or that the new revision refuses. The identifiers of the rules, and the fingerprint of a
result, which names its workload, stay the same between releases.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from injector.cli.commands import DISTRIBUTION, own_version
from injector.cli.output import json_text

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
VERSION: Final = "2.1.0"
REFUSED_RULE: Final = "injection-refused"
DECISION_RULE: Final = "injection-decision"
CHANGED_RULE: Final = "sidecar-changed"
RULES: Final[Mapping[str, tuple[str, str]]] = {
    REFUSED_RULE: ("error", "The new revision refuses the pod."),
    DECISION_RULE: ("warning", "One of the two revisions injects the pod, and the other one does not."),
    CHANGED_RULE: ("note", "The new revision changes the injected pod."),
}
"""The level and the description of each rule."""
_STDIN: Final = "stdin"
_LONGEST: Final = 4_000
"""The most characters of a message. Code hosts show about 1,000 of them."""


def diff_as_sarif(data: Mapping[str, Any], texts: Sequence[str]) -> str:
    """Return a log with one run, from the data of ``injector diff -o json`` and the text of each of its workloads."""
    found = zip(data["workloads"], texts, strict=True)
    sides = f"{data['old']['name']} and {data['new']['name']}"
    results = [_result(each, text, sides) for each, text in found if each["changes"] or "refused" in each]
    rules = [
        {"id": rule, "shortDescription": {"text": text}, "defaultConfiguration": {"level": level}}
        for rule, (level, text) in RULES.items()
    ]
    driver = {"name": DISTRIBUTION, "version": own_version(), "rules": rules}
    return json_text(
        {"$schema": SCHEMA, "version": VERSION, "runs": [{"tool": {"driver": driver}, "results": results}]}
    )


def _result(workload: Mapping[str, Any], text: str, sides: str) -> dict[str, Any]:
    kinds = {change["kind"] for change in workload["changes"]}
    rule = REFUSED_RULE if "refused" in workload else DECISION_RULE if "decision" in kinds else CHANGED_RULE
    name = f"{workload['kind']} {workload['namespace']}/{workload['name']}"
    _, _, changes = text.partition("\n")
    said = f"{name} differs between {sides}:\n{changes}" if kinds else f"{name}: refused by both: {workload['refused']}"
    return {
        "ruleId": rule,
        "ruleIndex": list(RULES).index(rule),
        "level": RULES[rule][0],
        "message": {"text": _message(said)},
        "locations": [_location(workload, name)],
        "partialFingerprints": {"workload/v1": name},
    }


def _message(text: str) -> str:
    """Return a message, in which ``[text](target)`` would be a link."""
    shown = text.rstrip().replace("](", "\\](")
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 3]}..."


def _location(workload: Mapping[str, Any], name: str) -> dict[str, Any]:
    location: dict[str, Any] = {
        "logicalLocations": [{"name": workload["name"], "fullyQualifiedName": name, "kind": "resource"}]
    }
    file = workload.get("file", _STDIN)
    if file != _STDIN:
        artifact, region = {"uri": _uri(file)}, {"startLine": workload["line"]}
        location["physicalLocation"] = {"artifactLocation": artifact, "region": region}
    return location


def _uri(file: str) -> str:
    """Return the URI of a file, relative to the current folder if it is in it."""
    if Path(file).is_absolute() and not Path(file).is_relative_to(Path.cwd()):
        return Path(file).as_uri()
    relative = Path(file).relative_to(Path.cwd()) if Path(file).is_absolute() else Path(file)
    return quote(posixpath.normpath(relative.as_posix()))

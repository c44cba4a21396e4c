"""Reports for reviews of a change: what ``injector diff`` found, as a comment in Markdown and as SARIF.

A report is made of the data of ``-o json`` and of the text of each workload, whose lines have their control characters escaped.

Names and values come from manifests. Outside of blocks of code they are in ``<code>``, with every character that means something to
Markdown or HTML as an entity, so that they can neither format the comment nor mention users and issues.

Code hosts show SARIF 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0/) beside the lines of a manifest. There is one result for each
workload that differs or that the new revision refuses. The identifiers of the rules, and the fingerprint of a result, which names its
workload, stay the same between releases.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from injector.cli.commands import DISTRIBUTION, own_version
from injector.cli.output import json_text
from injector.hints import EXAMPLES, first_of
from injector.kube.escaping import escape_line

LIMIT: Final = 60_000
"""The most characters of a comment. GitHub accepts 65,536."""
MARK: Final = "<!-- revision-injector diff -->"
"""The first line, by which a script finds the comment to replace."""
_LONGEST_CODE: Final = 200
_PLAIN: Final = re.compile(r"[^A-Za-z0-9 /,-]")
_TEXT: Final = re.compile(r"(?!.*(?:www\.|://))[A-Za-z0-9 /,.:;()%+-]*")
_BACKTICKS: Final = re.compile("`+")


def code(text: str) -> str:
    """Return text as code within a line, cut if it is long."""
    line = escape_line(text)
    shortened = _shorten(line, _LONGEST_CODE)
    return f"<code>{_PLAIN.sub(lambda match: f'&#{ord(match[0])};', shortened)}</code>"


def cell(text: str) -> str:
    """Return the text of a cell of a table, as code if Markdown or GitHub could take a part of it for more than text."""
    return text if _TEXT.fullmatch(text) else code(text)


def block(text: str) -> str:
    """Return lines as a block of code, whose fence is longer than any row of backticks in it."""
    fence = "`" * max([3, *(len(backticks) + 1 for backticks in _BACKTICKS.findall(text))])
    return f"{fence}text\n{text.rstrip()}\n{fence}\n"


def _side(side: Mapping[str, str]) -> str:
    """Return the name of a revision with its version, or with the address of a running istiod."""
    about = code(side["webhook"]) if "webhook" in side else f"Istio {code(side['istioVersion'])}"
    return f"{code(side['name'])} ({about})"


def diff_as_markdown(data: Mapping[str, Any], texts: Sequence[str]) -> str:
    """Return a comment: the totals, a table of the groups of changes, and the changes of each workload, folded.

    It has at most ``LIMIT`` characters. Rows and workloads that do not fit are counted. ``data`` is that of ``injector diff -o json``, and
    ``texts`` has the text of each of its workloads.
    """
    workloads = data["workloads"]
    differing = [(workload, text) for workload, text in zip(workloads, texts, strict=True) if workload["changes"]]
    refused = sum("refused" in workload for workload in workloads)
    old, new = map(_side, (data["old"], data["new"]))
    totals = f"Workloads that differ: **{len(differing)} of {len(workloads)}**. Refused: **{refused}**."
    text = f"{MARK}\n### Sidecars: {old} to {new}\n\n{totals}\n"
    if data["groups"]:
        text += "\n| changes | workloads | examples |\n|---|---|---|\n"
        text += _fitting([_row(group) for group in data["groups"]], LIMIT // 2, "rows")
        text += _fitting([_details(*pair) for pair in differing], LIMIT - len(text) - _LONGEST_CODE, "workloads")
    return text


def _row(group: Mapping[str, Any]) -> str:
    examples = first_of([code(_name(workload)) for workload in group["workloads"]], EXAMPLES)
    return f"| {code(', '.join(group['changes']))} | {group['count']} | {examples} |\n"


def _details(workload: Mapping[str, Any], text: str) -> str:
    kinds = ", ".join(dict.fromkeys(change["kind"] for change in workload["changes"]))
    return f"\n<details><summary>{code(_name(workload))}: {kinds}</summary>\n\n{block(text)}\n</details>\n"


def _name(workload: Mapping[str, Any]) -> str:
    return f"{workload['kind']} {workload['namespace']}/{workload['name']}"


def _fitting(parts: Sequence[str], room: int, what: str) -> str:
    """Join the parts that have room, and say how many do not."""
    fitting = []
    for part in parts:
        if len(part) <= room:
            fitting.append(part)
            room -= len(part)
    omitted = len(parts) - len(fitting)
    return "".join([*fitting, f"\nThe comment has no room for {omitted} more {what}.\n"] if omitted else fitting)


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
_LONGEST_MESSAGE: Final = 4_000
"""The most characters of a message. Code hosts show about 1,000 of them."""


def diff_as_sarif(data: Mapping[str, Any], texts: Sequence[str]) -> str:
    """Return a log with one run, from the data of ``injector diff -o json`` and the text of each of its workloads."""
    workloads = zip(data["workloads"], texts, strict=True)
    sides = f"{data['old']['name']} and {data['new']['name']}"
    results = [
        _result(workload, text, sides) for workload, text in workloads if workload["changes"] or "refused" in workload
    ]
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
    name = _name(workload)
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
    escaped = text.rstrip().replace("](", "\\](")
    return _shorten(escaped, _LONGEST_MESSAGE)


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


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
    return quote(os.fsencode(posixpath.normpath(relative.as_posix())))


Report: TypeAlias = Callable[[Mapping[str, Any], Sequence[str]], str]

REPORTS: Final[Mapping[str, Report]] = {"markdown": diff_as_markdown, "sarif": diff_as_sarif}
"""The reports by the name of their format."""

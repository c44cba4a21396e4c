"""Markdown for a comment of a pull request.

Names and values come from manifests. Outside of blocks of code they are in ``<code>``, with every character that means something to
Markdown or HTML as an entity, so that they can neither format the comment nor mention users and issues.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from injector.kube.escaping import escape_line

LIMIT: Final = 60_000
"""The most characters of a comment. GitHub accepts 65,536."""
MARK: Final = "<!-- revision-injector diff -->"
"""The first line, by which a script finds the comment to replace."""
_EXAMPLES: Final = 3
_LONGEST: Final = 200
_PLAIN: Final = re.compile(r"[^A-Za-z0-9 /,-]")
_TEXT: Final = re.compile(r"(?!.*(?:www\.|://))[A-Za-z0-9 /,.:;()%+-]*")
_BACKTICKS: Final = re.compile("`+")


def code(text: str) -> str:
    """Return text as code within a line, cut if it is long."""
    line = escape_line(text)
    shown = line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
    return f"<code>{_PLAIN.sub(lambda found: f'&#{ord(found[0])};', shown)}</code>"


def cell(text: str) -> str:
    """Return the text of a cell of a table, as code if Markdown or GitHub could take a part of it for more than text."""
    return text if _TEXT.fullmatch(text) else code(text)


def block(text: str) -> str:
    """Return lines as a block of code, whose fence is longer than any row of backticks in it."""
    fence = "`" * max([3, *(len(found) + 1 for found in _BACKTICKS.findall(text))])
    return f"{fence}text\n{text.rstrip()}\n{fence}\n"


def diff_as_markdown(data: Mapping[str, Any], texts: Sequence[str]) -> str:
    """Return a comment: the totals, a table of the groups of changes, and the changes of each workload, folded.

    It has at most ``LIMIT`` characters. Rows and workloads that do not fit are counted. ``data`` is that of ``injector diff -o json``, and
    ``texts`` has the text of each of its workloads.
    """
    workloads = data["workloads"]
    differing = [(each, text) for each, text in zip(workloads, texts, strict=True) if each["changes"]]
    refused = sum("refused" in each for each in workloads)
    old, new = (f"{code(side['name'])} (Istio {code(side['istioVersion'])})" for side in (data["old"], data["new"]))
    totals = f"Workloads that differ: **{len(differing)} of {len(workloads)}**. Refused: **{refused}**."
    text = f"{MARK}\n### Sidecars: {old} to {new}\n\n{totals}\n"
    if data["groups"]:
        text += "\n| changes | workloads | examples |\n|---|---|---|\n"
        text += _fitting([_row(group) for group in data["groups"]], LIMIT // 2, "rows")
        text += _fitting([_details(*each) for each in differing], LIMIT - len(text) - _LONGEST, "workloads")
    return text


def _row(group: Mapping[str, Any]) -> str:
    examples = ", ".join(code(_name(each)) for each in group["workloads"][:_EXAMPLES])
    more = f" and {group['count'] - _EXAMPLES} more" if group["count"] > _EXAMPLES else ""
    return f"| {code(', '.join(group['changes']))} | {group['count']} | {examples}{more} |\n"


def _details(workload: Mapping[str, Any], text: str) -> str:
    kinds = ", ".join(dict.fromkeys(change["kind"] for change in workload["changes"]))
    return f"\n<details><summary>{code(_name(workload))}: {kinds}</summary>\n\n{block(text)}\n</details>\n"


def _name(workload: Mapping[str, Any]) -> str:
    return f"{workload['kind']} {workload['namespace']}/{workload['name']}"


def _fitting(parts: Sequence[str], room: int, what: str) -> str:
    """Join the parts that have room, and say how many do not."""
    kept = []
    for part in parts:
        if len(part) <= room:
            kept.append(part)
            room -= len(part)
    left = len(parts) - len(kept)
    return "".join([*kept, f"\nThe comment has no room for {left} more {what}.\n"] if left else kept)

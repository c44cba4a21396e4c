"""The page docs/istioctl.md: what is seen after each pair of operations of ``istioctl`` and ``injector`` on one tag."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

NOTES: Final = {
    "leads to istiod": (
        "istioctl copies the address of the revision's webhooks, which lead to istiod. If the injector wrote the tag before, `tag list`,\n"
        "   the status page and `injector_webhook_faults` name it, with the command that takes it back."
    ),
    "ValidatingWebhookConfiguration stays": ("Below 1.31, neither tool deletes the validator of the tag `default`."),
}
"""Observations that are allowed, with their reasons."""


@dataclass(frozen=True)
class Cell:
    """What is seen after the first operation of one tool and the second of the other.

    Args:
        version: the version of istioctl.
        tool: the tool of the first operation.
        first: the first operation.
        second: the second operation, of the other tool.
        tag: the tag.
        leads: where the webhooks of its revisions lead.
        found: what is not as one expects.
    """

    version: str
    tool: str
    first: str
    second: str
    tag: str
    leads: str
    found: tuple[str, ...]


HEAD: Final = """# istioctl and injector on the same tags

Written by `scripts/reliability istioctl --binaries DIR --write` on {date}; do not edit. On a real API server, one tool does the first
operation on a tag, and the other one does the second. There are {count} pairs: for each version of istioctl in the table, for the tags
{tags}, and with revisions whose webhooks lead to: {leads}. `move` is `tag set --overwrite` to another revision. After a first
`generate`, the output is applied with kubectl.

"Yes" means: both tools list the same tags, every object of the tag names the revision that was asked for, an operation that only reads
changes nothing, `set` without `--overwrite` is refused if the tag exists, and both tools generate the same objects, apart from addresses
and API server defaults. After a `set` or `move` as the second operation, the webhooks of the tag lead to the injector.

"""


def page(cells: Sequence[Cell]) -> str:
    """Return the page."""
    versions = sorted({each.version for each in cells}, key=lambda text: tuple(map(int, text.split("-")[0].split("."))))
    notes = {
        found: str(number) for number, found in enumerate(sorted({text for each in cells for text in each.found}), 1)
    }
    tools = ("istioctl", "injector")
    rows = []
    for tool, first, second in product(
        tools, dict.fromkeys(each.first for each in cells), dict.fromkeys(each.second for each in cells)
    ):
        other = next(each for each in tools if each != tool)
        columns = []
        for version in versions:
            found = [
                each
                for each in cells
                if (each.version, each.tool, each.first, each.second) == (version, tool, first, second)
            ]
            numbers = sorted({notes[text] for each in found for text in each.found}, key=int)
            columns.append(f"see {', '.join(numbers)}" if numbers else "yes" if found else "-")
        rows.append(f"| {tool} {first} | {other} {second} | {' | '.join(columns)} |")
    head = f"| first | second | {' | '.join(versions)} |\n|---|---|{'---|' * len(versions)}\n"
    tags = " and ".join(f"`{tag}`" for tag in dict.fromkeys(each.tag for each in cells))
    return "".join(
        [
            HEAD.format(
                date=time.strftime("%Y-%m-%d", time.gmtime()),
                tags=tags,
                count=len(cells),
                leads=", ".join(dict.fromkeys(each.leads for each in cells)),
            ),
            head,
            *(f"{row}\n" for row in rows),
            "\n## Notes\n\n",
            *(f"{number}. {NOTES.get(found, found)} ({_where(found, cells)})\n" for found, number in notes.items()),
        ]
    )


def _where(found: str, cells: Sequence[Cell]) -> str:
    """Return the tags and the places where something is seen."""
    seen = [each for each in cells if found in each.found]
    tags = " and ".join(f"`{tag}`" for tag in dict.fromkeys(each.tag for each in seen))
    leads = ", ".join(dict.fromkeys(each.leads for each in seen))
    return f"tag {tags}; revisions at: {leads}"

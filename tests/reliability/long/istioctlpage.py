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
        observations: what is not as one expects.
    """

    version: str
    tool: str
    first: str
    second: str
    tag: str
    leads: str
    observations: tuple[str, ...]


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
    versions = sorted({cell.version for cell in cells}, key=lambda text: tuple(map(int, text.split("-")[0].split("."))))
    notes = {
        note: str(number)
        for number, note in enumerate(sorted({text for cell in cells for text in cell.observations}), 1)
    }
    tools = ("istioctl", "injector")
    rows = []
    for tool, first, second in product(
        tools, dict.fromkeys(cell.first for cell in cells), dict.fromkeys(cell.second for cell in cells)
    ):
        other = next(other for other in tools if other != tool)
        columns = []
        for version in versions:
            lines = [
                cell
                for cell in cells
                if (cell.version, cell.tool, cell.first, cell.second) == (version, tool, first, second)
            ]
            numbers = sorted({notes[text] for cell in lines for text in cell.observations}, key=int)
            columns.append(f"see {', '.join(numbers)}" if numbers else "yes" if lines else "-")
        rows.append(f"| {tool} {first} | {other} {second} | {' | '.join(columns)} |")
    head = f"| first | second | {' | '.join(versions)} |\n|---|---|{'---|' * len(versions)}\n"
    tags = " and ".join(f"`{tag}`" for tag in dict.fromkeys(cell.tag for cell in cells))
    return "".join(
        [
            HEAD.format(
                date=time.strftime("%Y-%m-%d", time.gmtime()),
                tags=tags,
                count=len(cells),
                leads=", ".join(dict.fromkeys(cell.leads for cell in cells)),
            ),
            head,
            *(f"{row}\n" for row in rows),
            "\n## Notes\n\n",
            *(f"{number}. {NOTES.get(text, text)} ({_where(text, cells)})\n" for text, number in notes.items()),
        ]
    )


def _where(text: str, cells: Sequence[Cell]) -> str:
    """Return the tags and the places where something is seen."""
    matches = [cell for cell in cells if text in cell.observations]
    tags = " and ".join(f"`{tag}`" for tag in dict.fromkeys(cell.tag for cell in matches))
    leads = ", ".join(dict.fromkeys(cell.leads for cell in matches))
    return f"tag {tags}; revisions at: {leads}"

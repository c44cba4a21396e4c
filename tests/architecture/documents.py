"""The project's pages as tests read them: their fenced blocks, each with what is to be done about it, their links and headings.

What a block is stands behind its language on the fence, where a reader of the page does not see it:

- ``sh``: is run, the blocks of a page one after the other in one folder that holds what the project holds.
- ``sh exit=N``: the same, and ends with that exit status.
- ``sh cluster``: is run by ``tests/e2e/test_docs.py``, against an API server.
- ``sh waits``, ``sh cluster waits``: the same, again until it prints what the page says.
- ``sh not-run: REASON``: is not run.
- ``text``: what the block before it prints, line for line; a line ``...`` stands for any number of lines.
- ``yaml KIND``, ``json KIND``: is read as what ``tests/architecture/test_docs.py`` has for that kind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[2]
GUIDES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
"""The pages that are followed here; ``tests/deploy`` has its own."""
PAGES: Final = (
    *GUIDES,
    ROOT / "CHANGELOG.md",
    *(path for folder in ("bench", "deploy", "tests") for path in sorted((ROOT / folder).rglob("*.md"))),
)
"""The pages whose links are followed."""
CLUSTER: Final = "cluster"
WAITS: Final = "waits"
NOT_RUN: Final = "not-run: "
_FENCE: Final = re.compile(r"^( *)```([a-z0-9]+)(?: ([^\n]+))?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_EXIT: Final = re.compile(r"exit=(\d+)")
_ANY: Final = "..."


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, the line that it begins on, its language, what stands behind that, and its text."""

    page: Path
    line: int
    language: str
    mark: str
    text: str
    printed: str | None = None
    """What it says that it prints, where a block of that follows."""

    @property
    def runs(self) -> bool:
        """Whether it is run where there is no cluster."""
        return self.language == "sh" and (self.mark in ("", WAITS) or _EXIT.fullmatch(self.mark) is not None)

    @property
    def runs_on_a_cluster(self) -> bool:
        """Whether it is run where there is one."""
        return self.language == "sh" and self.mark in (CLUSTER, f"{CLUSTER} {WAITS}")

    @property
    def waits(self) -> bool:
        """Whether others have to act before it prints what the page says."""
        return self.mark.endswith(WAITS)

    @property
    def why_not_run(self) -> str:
        """Why it is never run; empty where it is."""
        return self.mark.removeprefix(NOT_RUN) if self.language == "sh" and self.mark.startswith(NOT_RUN) else ""

    @property
    def exit_status(self) -> int:
        """What it ends with."""
        found = _EXIT.fullmatch(self.mark)
        return 0 if found is None else int(found.group(1))

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order; a ``text`` block right behind another belongs to that one."""
    text = page.read_text()
    found: list[Block] = []
    end = 0
    for fence in _FENCE.finditer(text):
        language, mark = fence.group(2), fence.group(3) or ""
        body = re.sub(f"^{fence.group(1)}", "", fence.group(4), flags=re.MULTILINE)
        follows = found and found[-1].language == "sh" and not text[end : fence.start()].strip()
        end = fence.end()
        if language == "text" and follows:
            found[-1] = Block(**{**vars(found[-1]), "printed": body})
        else:
            found.append(Block(page, text[: fence.start()].count("\n") + 1, language, mark, body))
    return found


def all_blocks() -> list[Block]:
    """The blocks of all guides."""
    return [block for page in GUIDES for block in blocks(page)]


def prints(expected: str, printed: str) -> bool:
    """Whether ``printed`` is what a page says, which leaves out what ``...`` stands for."""
    parts = [re.escape(part) for part in re.split(rf"^{re.escape(_ANY)}\n", expected, flags=re.MULTILINE)]
    return re.fullmatch(r"(?:.*\n)*?".join(parts), printed) is not None


def prose(page: Path) -> str:
    """A page without its blocks."""
    return _FENCE.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """Yield where each link of a page leads: a path, and a heading of it, empty where none is named."""
    for target in re.findall(r"\]\(([^):]+)\)", prose(page)):
        path, _, anchor = target.partition("#")
        yield (page.parent / path if path else page), anchor

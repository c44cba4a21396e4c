"""The pages of the project as tests read them: fenced blocks, links and headings.

The words after the language of a fence, which readers of the page do not see, tell how a block is tested:

- ``sh``: is run. The blocks of a page run in order, in one folder with a copy of the project's files.
- ``python``: is run as a program of its own.
- ``sh exit=N``: is run, and must end with this exit status.
- ``sh cluster``: is run by ``tests/e2e/test_docs.py`` with an API server.
- ``sh waits``, ``sh cluster waits``: is repeated until it prints the expected output.
- ``sh not-run: REASON``: is not run.
- ``text``: the expected output of the block before it, line by line. A line ``...`` stands for any number of lines.
- ``yaml KIND``, ``json KIND``: is checked by the reader of this kind in ``tests/architecture/test_docs.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
GUIDES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
"""The pages whose commands are run; ``tests/deploy`` runs those of ``deploy/README.md``."""
PAGES: Final = (
    *GUIDES,
    *(ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY")),
    *(path for folder in ("bench", "deploy", "tests/reliability") for path in sorted((ROOT / folder).rglob("*.md"))),
)
"""The pages whose links are checked."""
CLUSTER: Final = "cluster"
WAITS: Final = "waits"
NOT_RUN: Final = "not-run: "
_FENCE: Final = re.compile(r"^( *)```([a-z0-9]+)(?: ([^\n]+))?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_EXIT: Final = re.compile(r"exit=(\d+)")
_ANY: Final = "..."


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, its first line, its language, the words after the language, and its text."""

    page: Path
    line: int
    language: str
    mark: str
    text: str
    printed: str | None = None
    """The expected output, if a ``text`` block follows."""

    @property
    def runs(self) -> bool:
        """Whether it is run without a cluster."""
        return self.language == "python" or (
            self.language == "sh" and (self.mark in ("", WAITS) or _EXIT.fullmatch(self.mark) is not None)
        )

    @property
    def runs_on_a_cluster(self) -> bool:
        """Whether it is run with a cluster."""
        return self.language == "sh" and self.mark in (CLUSTER, f"{CLUSTER} {WAITS}")

    @property
    def waits(self) -> bool:
        """Whether it is repeated until it prints the expected output."""
        return self.mark.endswith(WAITS)

    @property
    def why_not_run(self) -> str:
        """The reason why it is never run; empty if it is run."""
        return self.mark.removeprefix(NOT_RUN) if self.language == "sh" and self.mark.startswith(NOT_RUN) else ""

    @property
    def exit_status(self) -> int:
        """The expected exit status."""
        match = _EXIT.fullmatch(self.mark)
        return 0 if match is None else int(match.group(1))

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in order. A ``text`` block directly after a command becomes its expected output."""
    text = page.read_text()
    fences: list[Block] = []
    end = 0
    for fence in _FENCE.finditer(text):
        language, mark = fence.group(2), fence.group(3) or ""
        body = re.sub(f"^{fence.group(1)}", "", fence.group(4), flags=re.MULTILINE)
        follows = fences and fences[-1].language in ("sh", "python") and not text[end : fence.start()].strip()
        end = fence.end()
        if language == "text" and follows:
            fences[-1] = Block(**{**vars(fences[-1]), "printed": body})
        else:
            fences.append(Block(page, text[: fence.start()].count("\n") + 1, language, mark, body))
    return fences


def all_blocks() -> list[Block]:
    """Return the blocks of all guides."""
    return [block for page in GUIDES for block in blocks(page)]


def prints(expected: str, printed: str) -> bool:
    """Tell whether ``printed`` is the expected output, in which ``...`` stands for any number of lines."""
    parts = [re.escape(part) for part in re.split(rf"^{re.escape(_ANY)}\n", expected, flags=re.MULTILINE)]
    return re.fullmatch(r"(?:.*\n)*?".join(parts), printed) is not None


def prose(page: Path) -> str:
    """Return a page without its blocks."""
    return _FENCE.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """Yield the target of each link of a page: a path and an anchor, which can be empty."""
    for target in re.findall(r"\]\(([^):]+)\)", prose(page)):
        path, _, anchor = target.partition("#")
        yield (page.parent / path if path else page), anchor

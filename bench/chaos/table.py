"""What the tests share: the replicas that they start, and the rows that they come to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.reliability.replicas import Replica

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


WIDTH = 110
"""A figure with many kinds of error is cut."""


@dataclass(frozen=True)
class Row:
    """One target and what came of it."""

    test: str
    target: str
    figure: str
    met: bool


@dataclass
class Stage:
    """A folder, a certificate, and every replica that was started."""

    folder: Path
    certificate: Path
    key: Path
    restarts: int
    started: list[Replica] = field(default_factory=list)

    async def replica(self, *flags: str, tls: bool = False) -> Replica:
        """A replica that is ready."""
        pair = ("--tlsCertFile", str(self.certificate), "--tlsKeyFile", str(self.key))
        given = (*(pair if tls else ("--insecure-http",)), "--log-decisions", "none", *flags)
        replica = Replica(self.folder / f"{len(self.started)}.log", given)
        self.started.append(replica)
        replica.start()
        await replica.until_ready()
        return replica

    def end(self) -> None:
        """End all that still runs."""
        for replica in self.started:
            replica.kill()


def show(rows: Iterable[Row]) -> None:
    """Print the table."""
    lines = [
        ("test", "target", "figure", ""),
        *((r.test, r.target, r.figure, "ok" if r.met else "MISSED") for r in rows),
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    for line in lines:
        print(
            "  ".join(f"{text[:WIDTH]:{min(width, WIDTH)}}" for text, width in zip(line, widths, strict=True)).rstrip()
        )

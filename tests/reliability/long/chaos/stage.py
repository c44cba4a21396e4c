"""What the tests share: a folder, a certificate, and the replicas that they start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.reliability.replicas import Replica

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class Stage:
    """A folder, a certificate, and every replica that was started."""

    folder: Path
    certificate: Path
    key: Path
    restarts: int
    seconds: float | None = None
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

    def lasts(self, seconds: float) -> float:
        """How long a load lasts: what was asked for, else the test's own time."""
        return self.seconds or seconds

    def end(self) -> None:
        """End all that still runs."""
        for replica in self.started:
            replica.kill()

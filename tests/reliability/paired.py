"""A load on revisions that change, each of whose answers has to be of one version, and what the injector says meanwhile."""

from __future__ import annotations

import base64
import html
import json
import ssl
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from tests.reliability.apiserver import ApiServer, Load, Reply
from tests.reliability.replicas import Replica
from tests.reliability.versions import SAID, Fault, InPlace, Mount, Texts
from tests.tasks import until

AFTER: Final = 5
"""Answers that are looked at once a fault is told."""


@dataclass
class Paired(Load):
    """Admissions by one revision; ``seen`` are the times and the versions of the answers."""

    answers: list[tuple[float, int]] = field(default_factory=list)

    def check(self, uid: str, reply: Reply) -> None:
        """Hold an answer: admitted with a sidecar, and its template, values and mesh config are of one version."""
        before = len(self.failures)
        super().check(uid, reply)
        if len(self.failures) > before:
            return
        said = SAID.search(base64.b64decode(reply.response["patch"]))
        if said is None or len(set(said.groups())) != 1:
            self.failures.append(f"{uid}: mixed {said and said[0]!r}")
            return
        self.answers.append((time.monotonic(), int(said[1])))

    def since(self, moment: float) -> list[int]:
        """The versions of the answers after a moment."""
        return [version for at, version in self.answers if at > moment]


@dataclass
class Served:
    """A replica under load, of which one revision is changed."""

    replica: Replica
    name: str
    load: Paired

    async def until_valid(self, *, valid: bool) -> float:
        """Wait until the gauge has this value; return the seconds that it took."""
        name = f'injector_revision_config_valid{{revision="{self.name}"}}'

        async def is_valid() -> bool:
            return (await self.replica.metrics()).get(name) == valid

        return await until(is_valid)

    async def until_reason(self, says: str) -> float:
        """Wait for a reason with this text; return the seconds that it took.

        There may be another one before: a file that is written in place is empty for a moment.
        """

        async def has_reason() -> bool:
            return says in await self.reason()

        return await until(has_reason)

    async def reason(self) -> str:
        """Why what its folder holds is not served; empty where the status page does not say it."""
        status = (await self.replica.ask_operations("/status.json")).partition(b"\r\n\r\n")[2]
        rows: list[dict[str, Any]] = json.loads(status)["revisions"]
        error = next((str(row["error"] or "") for row in rows if row["name"] == self.name), "")
        page = html.unescape((await self.replica.ask_operations("/status")).decode())
        return error if error in page else ""

    async def serves(self, version: int) -> float:
        """Wait until answers are of a version; return the seconds that it took."""
        return await until(lambda: bool(self.load.answers) and self.load.answers[-1][1] == version)


@dataclass(frozen=True)
class Broken:
    """What came of one fault: how soon it was told and mended, the reason given, and the versions served meanwhile."""

    seconds: float
    reason: str
    meanwhile: frozenset[int]
    mended: float


async def broken(served: Served, folder: Mount | InPlace, fault: Fault, old: Texts, new: Texts, version: int) -> Broken:
    """Break one key of ``old``, see that the last good version is served, and write ``new``, which is ``version``."""
    begun = time.monotonic()
    folder.write({**old, fault.key: fault.change(old[fault.key])})
    seconds = await served.until_valid(valid=False) + await served.until_reason(fault.says)
    reason = await served.reason()
    answered = len(served.load.answers)
    await until(lambda: len(served.load.answers) >= answered + AFTER)
    meanwhile = frozenset(served.load.since(begun))
    folder.write(new)
    return Broken(seconds, reason, meanwhile, await served.serves(version) + await served.until_valid(valid=True))


@dataclass(frozen=True)
class Loads:
    """A load for each of several revisions, from one client."""

    client: ApiServer
    by_name: Mapping[str, Paired]

    @property
    def failures(self) -> list[str]:
        """What went wrong, of all."""
        return [text for load in self.by_name.values() for text in load.failures]

    @property
    def calls(self) -> int:
        """How many were answered."""
        return sum(len(load.answers) for load in self.by_name.values())


@asynccontextmanager
async def loaded(
    replica: Replica, names: Sequence[str], *, rate: float, callers: int = 3, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Loads]:
    """Call at a rate in all, by so many callers for each revision, as long as the block runs; each has answered by then."""
    client = replica.client(tls)
    loads = Loads(client, {name: Paired(client, path=f"/inject/{name}") for name in names})
    async with AsyncExitStack() as stack:
        stack.push_async_callback(client.close)
        for name, load in loads.by_name.items():
            await stack.enter_async_context(load.calls(callers, callers * len(names) / rate, name))
        for load in loads.by_name.values():
            await until(lambda load=load: bool(load.answers or load.failures))  # type: ignore[misc]
        yield loads

"""A revision that is bad on purpose, and the callers that ask it: pods of ever other kinds, so that nothing of it is remembered."""

from __future__ import annotations

import asyncio
import itertools
import json
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from injector.revisions.build import build
from injector.revisions.directory import read_folder
from tests.factories import make_review
from tests.reliability.apiserver import ApiServer, Reply
from tests.reliability.long.rows import Row
from tests.reliability.profile import NAMESPACE, RATE, Came, Profile, Question, pod_of, question, questions, written
from tests.reliability.replicas import Stage
from tests.revisions.fakes import CONFIG, VALUES

BAD: Final = "bad"
# None of the pods that a revision is tried on has this annotation, so what is below it is met by the first pod that has it.
_MET: Final = '    {{- if ne (index .ObjectMeta.Annotations "checksum/config") "" }}%s{{ end }}\n    spec:\n'
_LOOPS: Final = '{{ range until %d }}{{ range until %d }}{{ $text := printf "%%d" . }}{{ end }}{{ end }}'
GOOD: Final = CONFIG
BOMB: Final = CONFIG.replace("    spec:\n", _MET % (_LOOPS % (100_000, 100_000)))
"""Each rendering runs into its budget."""
SLOW: Final = CONFIG.replace("    spec:\n", _MET % (_LOOPS % (120, 120)))
"""Each rendering takes nearly all the steps of its budget."""
INVALID: Final = (
    CONFIG.replace("{{ .Values.global.tag }}", "{{ .Values.global.tag"),
    CONFIG.replace("policy: enabled", "policy: ["),
    CONFIG.replace("image: proxy", "image: [proxy"),
    CONFIG.replace(".Values.global.tag", ".Values.global.tag.of.nothing | fail"),
)
"""What no revision can be built of, or none can inject with."""


def write_bad(folder: Path, config: str) -> None:
    """Write the bad revision."""
    revision = folder / BAD
    revision.mkdir(exist_ok=True)
    (revision / "values").write_text(VALUES)
    (revision / "config").write_text(config)


def quick_questions(folder: Path) -> list[Question]:
    """Pods that the slow revision injects quickly: of other namespaces than those of ``Callers``, and each of a workload of its own."""
    revision = build(read_folder(folder / BAD))
    found = []
    for number in range(400):
        pod = pod_of(number)
        pod["metadata"]["annotations"] = {"checksum/config": ""}
        pod["metadata"]["namespace"] = f"good-{number % 4}"
        found.append(question(revision, pod))
    return [each for each in found if each is not None]


@dataclass
class Callers:
    """They ask the bad revision ``rate`` times a second until they are told to end, and count what they are told."""

    client: ApiServer
    rate: float
    namespace: str = NAMESPACE
    told: Counter[str] = field(default_factory=Counter)
    _ended: bool = False

    async def call(self) -> None:
        """Call, and wait for the last answers."""
        tasks: set[asyncio.Task[Reply | None]] = set()
        loop = asyncio.get_running_loop()
        begun, number = loop.time(), 0
        while not self._ended:
            number += 1
            await asyncio.sleep(max(0.0, begun + number / self.rate - loop.time()))
            task = asyncio.create_task(self.ask(number))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)

    async def ask(self, number: int) -> Reply | None:
        """Ask once, for a pod like no other; None where there was no answer."""
        pod, uid = pod_of(number), str(uuid.uuid4())
        pod["metadata"]["annotations"] = {"checksum/config": uid}
        pod["metadata"]["namespace"] = self.namespace
        body = json.dumps(make_review(pod, namespace=self.namespace, uid=uid)).encode()
        try:
            reply = await self.client.post(f"/inject/{BAD}", body)
        except OSError as error:
            self.told[type(error).__name__] += 1
            return None
        self.told[_said(reply, uid)] += 1
        return reply

    def end(self) -> None:
        """Let every call get its answer, and end."""
        self._ended = True


def _said(reply: Reply, uid: str) -> str:
    if reply.status != 200:
        return str(reply.status)
    response = reply.response
    assert response["uid"] == uid
    if response["allowed"]:
        return "injected" if "patch" in response else "let in without a sidecar"
    return "paused" if "times in a row" in response["status"]["message"] else "denied"


SECONDS: Final = 40.0
TARGET: Final = 1.5
RELOAD_EVERY: Final = 2.0
TENANT: Final = 5.0
TENANT_TARGET: Final = 3.0
OTHERS: Final = 40.0


async def hostile_revision(stage: Stage) -> Sequence[Row]:
    """Three good revisions under three quarters of P, and a fourth under the rest: good, invalid, slow, a bomb."""
    folder = stage.folder / "hostile"
    folder.mkdir()
    names = written(folder)[:3]
    asked = questions(folder, names)
    rows: list[Row] = []
    for kind, config in {"bomb": BOMB, "slow": SLOW, "invalid": GOOD}.items():
        before, _ = await _played(stage, folder, asked, GOOD)
        during, told = await _played(stage, folder, asked, config, breaks=kind == "invalid")
        rows.append(_row(kind, before, during, told))
    return [*rows, await _bad_tenant(stage, folder)]


async def _bad_tenant(stage: Stage, folder: Path) -> Row:
    """Slow pods in one namespace of a revision, and quick ones in another."""
    write_bad(folder, SLOW)
    replica = await stage.replica("--revisions-dir", str(folder))
    others = Profile(ApiServer(lambda: [replica.port]), quick_questions(folder), OTHERS)
    bad = Callers(ApiServer(lambda: [replica.port]), TENANT, namespace="bad-tenant")
    await others.warm()
    before = await others.run(stage.lasts(SECONDS))
    calling = asyncio.create_task(bad.call())
    during = await others.run(stage.lasts(SECONDS))
    bad.end()
    await calling
    await others.client.close()
    await bad.client.close()
    replica.kill()
    figure = f"{during.failures} failures of {during.calls}, p99 {during.p99:.1f} ms, {before.p99:.1f} without"
    figure += f"; the tenant: {', '.join(f'{count} {word}' for word, count in bad.told.most_common())}"
    met = during.failures == before.failures == 0 and during.p99 < TENANT_TARGET * before.p99
    return Row(
        f"T33 one tenant sends {TENANT:g} slow pods a second",
        f"other namespaces of the revision: 0 failures, p99 < {TENANT_TARGET:g} x",
        figure,
        met,
    )


def _row(kind: str, before: Came, during: Came, told: Counter[str]) -> Row:
    figure = f"{during.failures} failures of {during.calls}, p99 {during.p99:.1f} ms, {before.p99:.1f} without"
    figure += f"; the fourth: {', '.join(f'{count} {word}' for word, count in told.most_common())}"
    met = during.failures == before.failures == 0 and during.p99 < TARGET * before.p99
    if kind == "invalid":
        met = met and set(told) == {"injected"}
    met = met and "let in without a sidecar" not in told
    return Row(f"T33 one of four is {kind}", f"others: 0 failures, p99 < {TARGET} x", figure, met)


async def _played(
    stage: Stage, folder: Path, asked: Sequence[Question], config: str, *, breaks: bool = False
) -> tuple[Came, Counter[str]]:
    """One replica, warm, with both loads; what came of the three, and what callers of the fourth were told."""
    write_bad(folder, config)
    replica = await stage.replica("--revisions-dir", str(folder))
    profile = Profile(ApiServer(lambda: [replica.port]), asked, RATE * 3 / 4)
    bad = Callers(ApiServer(lambda: [replica.port]), RATE / 4)
    await profile.warm()
    calling = asyncio.create_task(bad.call())
    async with _breaking(folder) if breaks else nullcontext():
        came = await profile.run(stage.lasts(SECONDS))
    bad.end()
    await calling
    await profile.client.close()
    await bad.client.close()
    replica.kill()
    return came, bad.told


@asynccontextmanager
async def _breaking(folder: Path) -> AsyncIterator[None]:
    """Write another invalid configuration every few seconds until the block ends."""

    async def breaks() -> None:
        for config in itertools.cycle(INVALID):
            write_bad(folder, config)
            await asyncio.sleep(RELOAD_EVERY)

    task = asyncio.create_task(breaks())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

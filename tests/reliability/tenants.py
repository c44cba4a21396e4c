"""A revision that is bad on purpose, and tenants whose pods take long.

Every pod is different, so that no cached answer hides what the others wait for.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from injector.revisions.directory import read_folder
from injector.revisions.source import build
from tests.factories import make_review
from tests.reliability.apiserver import ApiServer, Reply
from tests.reliability.long.rows import Row
from tests.reliability.profile import NAMESPACE, RATE, Came, Profile, Question, pod_of, question, questions, written
from tests.reliability.replicas import Stage
from tests.revisions.fakes import CONFIG, VALUES
from tests.tasks import running

BAD: Final = "bad"
UNINJECTED: Final = "let in without a sidecar"
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
    pods = (tenant_pod(number, f"good-{number % 4}", {"checksum/config": ""}) for number in range(200))
    return [one for pod in pods if (one := question(revision, pod)) is not None]


LISTS: Final = ("traffic.sidecar.istio.io/includeOutboundIPRanges", "traffic.sidecar.istio.io/excludeOutboundIPRanges")
SIZE: Final = 215_000
"""Characters of a pod's lists together. Kubernetes permits 256 KiB of annotations, and a list may have 128 KiB."""
_DICE: Final = random.Random(5)  # noqa: S311 -- inputs


def tenant_pod(number: int, namespace: str, annotations: dict[str, str]) -> dict[str, Any]:
    """A pod of a namespace with these annotations alone."""
    pod = pod_of(number)
    pod["metadata"] |= {"namespace": namespace, "annotations": annotations}
    return pod


def unlike_pod(number: int, namespace: str = NAMESPACE) -> dict[str, Any]:
    """A pod like no other."""
    return tenant_pod(number, namespace, {"checksum/config": str(uuid.uuid4())})


def bad_tenant_pod(number: int) -> dict[str, Any]:
    """A pod like no other, of a namespace of its own."""
    return unlike_pod(number, "bad-tenant")


def listing_pod(number: int) -> dict[str, Any]:
    """A pod with long lists of valid CIDR ranges, which take long to check."""
    return tenant_pod(number, "tenant", {name: _ranges(SIZE // len(LISTS)) for name in LISTS})


def _ranges(size: int) -> str:
    ranges, length = [], 0
    while length < size:
        ranges.append(f"{_DICE.randint(1, 223)}.{_DICE.randint(0, 255)}.{_DICE.randint(0, 255)}.0/24")
        length += len(ranges[-1]) + 1
    return ",".join(ranges)[:size].rpartition(",")[0]


@dataclass
class Callers:
    """They ask a revision about pods, ``rate`` times a second, and count what they are told."""

    client: ApiServer
    rate: float
    pod: Callable[[int], dict[str, Any]] = unlike_pod
    revision: str = BAD
    outcomes: Counter[str] = field(default_factory=Counter)
    _is_over: bool = False

    @asynccontextmanager
    async def calling(self) -> AsyncIterator[None]:
        """Call as long as the block runs, and wait for the last answers."""
        task = asyncio.create_task(self._call())
        try:
            yield
        finally:
            self._is_over = True
            await task
            await self.client.close()

    async def _call(self) -> None:
        loop = asyncio.get_running_loop()
        begun, number = loop.time(), 0
        async with asyncio.TaskGroup() as group:
            while not self._is_over:
                number += 1
                await asyncio.sleep(max(0.0, begun + number / self.rate - loop.time()))
                group.create_task(self.ask(number))

    async def ask(self, number: int) -> None:
        """Ask once."""
        pod, uid = self.pod(number), str(uuid.uuid4())
        body = json.dumps(make_review(pod, namespace=pod["metadata"]["namespace"], uid=uid)).encode()
        try:
            reply = await self.client.post(f"/inject/{self.revision}", body)
        except OSError as error:
            self.outcomes[type(error).__name__] += 1
        else:
            self.outcomes[_said(reply, uid)] += 1

    def __str__(self) -> str:
        return ", ".join(f"{count} {word}" for word, count in self.outcomes.most_common())


def _said(reply: Reply, uid: str) -> str:
    if reply.status != 200:
        return str(reply.status)
    response = reply.response
    assert response["uid"] == uid
    if response["allowed"]:
        return "injected" if "patch" in response else UNINJECTED
    return "denied"


@dataclass
class OncePerPod(Profile):
    """A load that asks for each pod once."""

    next: int = 0

    def choose(self, number: int) -> int:
        """The next pod."""
        del number
        self.next += 1
        return self.next - 1


def others(folder: Path, name: str, count: int) -> list[Question]:
    """Pods of another namespace, answered offline; no two are alike."""
    revision, chosen_pods = build(read_folder(folder / name)), []
    for number in range(count):
        pod = pod_of(number % 160)
        pod["metadata"]["labels"]["number"] = str(number)
        chosen_pods.append(question(revision, pod))
    return [one for one in chosen_pods if one is not None]


SECONDS: Final = 40.0
TARGET: Final = 1.5
RELOAD_EVERY: Final = 2.0
TENANT: Final = 5.0
TENANT_TARGET: Final = 3.0
OTHERS: Final = 40.0
LIST_RATE: Final = 30.0


LIST_SECONDS: Final = 30.0


async def hostile_revision(stage: Stage) -> Sequence[Row]:
    """Three good revisions under three quarters of P, and a fourth under the rest: good, invalid, slow, a bomb."""
    folder = stage.folder / "hostile"
    folder.mkdir()
    pods = questions(folder, written(folder)[:3])
    rows: list[Row] = []
    for kind, config in {"bomb": BOMB, "slow": SLOW, "invalid": GOOD}.items():
        before, _ = await _played(stage, folder, pods, GOOD)
        during, callers = await _played(stage, folder, pods, config, breaks=kind == "invalid")
        met = not callers.outcomes[UNINJECTED] and (kind != "invalid" or set(callers.outcomes) == {"injected"})
        rows.append(_row(f"one of four is {kind}", before, during, f"the fourth: {callers}", TARGET, met=met))
    return [*rows, await _bad_tenant(stage, folder)]


async def _bad_tenant(stage: Stage, folder: Path) -> Row:
    """Slow pods in one namespace of a revision, and quick ones in another."""
    write_bad(folder, SLOW)
    replica = await stage.replica("--revisions-dir", str(folder))
    load = Profile(replica.client(), quick_questions(folder), OTHERS)
    bad = Callers(replica.client(), TENANT, bad_tenant_pod)
    await load.warm()
    before, during = await _beside(load, bad, stage.lasts(SECONDS))
    replica.kill()
    return _row(f"one tenant sends {TENANT:g} slow pods a second", before, during, f"the tenant: {bad}", TENANT_TARGET)


async def long_lists(stage: Stage) -> Sequence[Row]:
    """Pods that are all different, without a tenant that lists many ranges and beside it."""
    folder, seconds = stage.folder / "tenant", stage.lasts(LIST_SECONDS)
    folder.mkdir()
    name = written(folder)[-1]
    replica = await stage.replica("--revisions-dir", str(folder))
    load = OncePerPod(replica.client(), others(folder, name, int(2.2 * seconds * LIST_RATE)), LIST_RATE)
    # Made before anything is measured: making one takes 20 ms of this process, which also takes the times.
    pods = [listing_pod(number) for number in range(int(2 * seconds * TENANT))]
    tenant = Callers(replica.client(), TENANT, lambda number: pods[number % len(pods)], name)
    await load.run(seconds / 10)
    before, during = await _beside(load, tenant, seconds)
    replica.kill()
    what = f"one tenant sends {TENANT:g} pods a second with {SIZE // 1000} KB of ranges"
    met = not tenant.outcomes.keys() & {UNINJECTED, "denied"}
    return [_row(what, before, during, f"the tenant: {tenant}", TENANT_TARGET, met=met)]


async def _beside(load: Profile, callers: Callers, seconds: float) -> tuple[Came, Came]:
    """What came of a load without the callers, and beside them."""
    before = await load.run(seconds)
    async with callers.calling():
        during = await load.run(seconds)
    await load.client.close()
    return before, during


def _row(what: str, before: Came, during: Came, note: str, target: float, *, met: bool = True) -> Row:
    figure = f"{during.failures} failures of {during.calls}, p99 {during.p99:.1f} ms, {before.p99:.1f} without; {note}"
    met = met and during.failures == before.failures == 0 and during.p99 < target * before.p99
    return Row(f"T33 {what}", f"the others: 0 failures, p99 < {target:g} x", figure, met)


async def _played(
    stage: Stage, folder: Path, pods: Sequence[Question], config: str, *, breaks: bool = False
) -> tuple[Came, Callers]:
    """One replica, warm, with both loads; what came of the three, and the callers of the fourth."""
    write_bad(folder, config)
    replica = await stage.replica("--revisions-dir", str(folder))
    profile = Profile(replica.client(), pods, RATE * 3 / 4)
    bad = Callers(replica.client(), RATE / 4)
    await profile.warm()
    async with bad.calling(), running(_break(folder)) if breaks else nullcontext():
        came = await profile.run(stage.lasts(SECONDS))
    await profile.client.close()
    replica.kill()
    return came, bad


async def _break(folder: Path) -> None:
    """Write another invalid configuration every few seconds."""
    for config in itertools.cycle(INVALID):
        write_bad(folder, config)
        await asyncio.sleep(RELOAD_EVERY)

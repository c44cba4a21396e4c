"""One tenant of a revision whose pods take long, valid as they are, beside the pods of other namespaces of the same revision.

Every pod is different, so that no cached answer hides what the others wait for.
"""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from injector.revisions.build import build
from injector.revisions.directory import read_folder
from tests.factories import make_review
from tests.reliability.apiserver import ApiServer
from tests.reliability.long.rows import Row
from tests.reliability.profile import Came, Profile, Question, pod_of, question, written
from tests.reliability.replicas import Stage

LISTS: Final = ("traffic.sidecar.istio.io/includeOutboundIPRanges", "traffic.sidecar.istio.io/excludeOutboundIPRanges")
SIZE: Final = 215_000
"""Characters of the tenant's lists together. Kubernetes permits 256 KiB of annotations, and a list may have 128 KiB."""
NAMESPACE: Final = "tenant"
REFUSED: Final = "refused"


def ranges(dice: random.Random, size: int) -> str:
    """Return a list of valid CIDR ranges of about that many characters."""
    found, length = [], 0
    while length < size:
        found.append(f"{dice.randint(1, 223)}.{dice.randint(0, 255)}.{dice.randint(0, 255)}.0/24")
        length += len(found[-1]) + 1
    return ",".join(found)[:size].rpartition(",")[0]


@dataclass
class Tenant:
    """Creates pods with long lists of ranges, so many a second, until it is told to end."""

    client: ApiServer
    path: str
    rate: float
    answers: Counter[str] = field(default_factory=Counter)
    _ended: bool = False

    async def run(self) -> None:
        """Create pods, and wait for the last answers."""
        dice, loop = random.Random(5), asyncio.get_running_loop()  # noqa: S311 -- inputs
        begun, number = loop.time(), 0
        async with asyncio.TaskGroup() as group:
            while not self._ended:
                number += 1
                await asyncio.sleep(max(0.0, begun + number / self.rate - loop.time()))
                lists = {name: ranges(dice, SIZE // len(LISTS)) for name in LISTS}
                group.create_task(self._create(number, lists))

    async def _create(self, number: int, annotations: dict[str, str]) -> None:
        pod = pod_of(number)
        pod["metadata"] |= {"namespace": NAMESPACE, "annotations": annotations}
        body = json.dumps(make_review(pod, namespace=NAMESPACE, uid=str(uuid.uuid4()))).encode()
        try:
            reply = await self.client.post(self.path, body)
        except OSError as error:
            self.answers[type(error).__name__] += 1
            return
        if reply.status != 200:
            self.answers[str(reply.status)] += 1
        else:
            self.answers["injected" if "patch" in reply.response else REFUSED] += 1

    def end(self) -> None:
        """Create no more."""
        self._ended = True


def others(folder: Path, name: str, count: int) -> list[Question]:
    """Return pods of another namespace, answered offline; no two are alike."""
    revision, found = build(read_folder(folder / name)), []
    for number in range(count):
        pod = pod_of(number % 160)
        pod["metadata"]["labels"]["number"] = str(number)
        one = question(revision, pod)
        if one is not None:
            found.append(one)
    return found


@dataclass
class OncePerPod(Profile):
    """A load that asks for each pod once."""

    next: int = 0

    async def run(self, seconds: float) -> Came:
        """Ask for the next pods for so long; return what came of it, compared with the answers offline."""
        found, loop = Came(), asyncio.get_running_loop()
        begun, first = loop.time(), self.next
        async with asyncio.TaskGroup() as group:
            for number in range(first, min(first + int(seconds * self.rate), len(self.asked))):
                await asyncio.sleep(max(0.0, begun + (number - first) / self.rate - loop.time()))
                group.create_task(self._ask(number, found))
                self.next = number + 1
        self._hold(found)
        return found


SECONDS: Final = 30.0
RATE: Final = 30.0
PODS_A_SECOND: Final = 5.0
SLOWER: Final = 3.0


async def long_lists(stage: Stage) -> Sequence[Row]:
    """Pods that are all different, without the tenant and beside it."""
    folder, seconds = stage.folder / "tenant", stage.lasts(SECONDS)
    folder.mkdir()
    name = written(folder)[-1]
    replica = await stage.replica("--revisions-dir", str(folder))
    load = OncePerPod(ApiServer(lambda: [replica.port]), others(folder, name, int(2.2 * seconds * RATE)), RATE)
    await load.run(seconds / 10)
    before = await load.run(seconds)
    tenant = Tenant(ApiServer(lambda: [replica.port]), f"/inject/{name}", PODS_A_SECOND)
    creating = asyncio.create_task(tenant.run())
    during = await load.run(seconds)
    tenant.end()
    await creating
    await load.client.close()
    await tenant.client.close()
    replica.kill()
    told = ", ".join(f"{count} {word}" for word, count in tenant.answers.most_common())
    figure = f"{during}, {before.p99:.1f} ms without; the tenant: {told}"
    met = during.failures == before.failures == 0 and during.p99 < SLOWER * before.p99 and not tenant.answers[REFUSED]
    test = f"T33 one tenant sends {PODS_A_SECOND:g} pods a second with {SIZE // 1000} KB of ranges"
    return [Row(test, f"other namespaces of the revision: 0 failures, p99 < {SLOWER:g} x", figure, met)]

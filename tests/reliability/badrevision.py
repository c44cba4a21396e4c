"""A revision that is bad on purpose, and the callers that ask it: pods of ever other kinds, so that nothing of it is remembered."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from injector.revisions.build import build
from injector.revisions.directory import read_folder
from tests.factories import make_review
from tests.reliability.profile import NAMESPACE, pod_of, question
from tests.revisions.fakes import CONFIG, VALUES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.reliability.apiserver import ApiServer, Reply
    from tests.reliability.profile import Question

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

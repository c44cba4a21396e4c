"""The load that others are measured beside: mixed pods of four revisions, as an API server sends them, and every answer held.

The revisions are Istio's own if ``../shared/corpus`` is beside the project, else the project's own for the same minors. Half of the
calls are for pods of few workloads, half for pods of many. What is answered is compared with what the same revision makes of the
pod offline: an answer is right where both patches lead to the same pod.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import jsonpatch

from injector.errors import DataError
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts, Skipped
from injector.istio.revision import Revision
from injector.revisions.directory import read_folder
from injector.revisions.source import build
from tests import controlplanes
from tests.conformance import corpus
from tests.factories import make_container
from tests.reliability.apiserver import ApiServer, Reply
from tests.reliability.long.rows import Row
from tests.reliability.replicas import Stage, resident, trusting

RATE: Final = 150.0
CALLERS: Final = 200
MINORS: Final = ("1.20", "1.24", "1.28", "1.30")
WORKLOADS: Final = 160
HOT: Final = 10
NAMESPACE: Final = "shop"
_SPLIT: Final = "00000000-0000-4000-8000-000000000000"
# What else differs between the pods of the mix: each is taken by some of the workloads.
ANNOTATIONS: Final[tuple[dict[str, str], ...]] = (
    {},
    {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
    {"sidecar.istio.io/proxyCPU": "150m", "sidecar.istio.io/proxyMemory": "96Mi"},
    {"traffic.sidecar.istio.io/excludeOutboundPorts": "3306,6379"},
    {"proxy.istio.io/config": "holdApplicationUntilProxyStarts: true\n"},
    {"sidecar.istio.io/logLevel": "warning", "traffic.sidecar.istio.io/includeInboundPorts": "*"},
    {"sidecar.istio.io/rewriteAppHTTPProbers": "false"},
)
_PROBE: Final = {"httpGet": {"path": "/ready", "port": "http", "scheme": "HTTP"}, "timeoutSeconds": 1}


def written(folder: Path) -> list[str]:
    """Write four revisions into a folder, and return their names."""
    for minor in MINORS:
        plane, revision = controlplanes.plane_of(controlplanes.best(minor)), folder / minor.replace(".", "-")
        revision.mkdir(parents=True)
        for key, text in (("config", plane.config), ("values", plane.values), ("mesh", plane.mesh)):
            (revision / key).write_text(text)
        stated = {"istioVersion": minor, "env": dict(plane.env), "nodeVersions": list(plane.nodes)}
        (revision / "revision.yaml").write_text(json.dumps(stated))
    return [minor.replace(".", "-") for minor in MINORS]


def mixed_pods() -> list[dict[str, Any]]:
    """Pods of many workloads as an API server sends them, and where there is a corpus, its pods too."""
    known = [case.pod for case in corpus.webhook_cases("1.30") if not case.namespace]
    return [*(pod_of(number) for number in range(WORKLOADS)), *known]


def pod_of(number: int) -> dict[str, Any]:
    """The pod of one workload; by its number it has annotations, probes, init containers or a security context."""
    app, digest, token = f"app-{number}", f"{number * 7919 + 4096:010x}", f"kube-api-access-{'bcdfg'[number % 5]}2456"
    mounts = [{"name": token, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]
    container = make_container(
        "app",
        ports=[{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        env=[{"name": f"SETTING_{index}", "value": f"{app}-{index}"} for index in range(number % 13)],
        resources={"requests": {"cpu": "100m", "memory": "128Mi"}},
        volumeMounts=mounts,
        **({"readinessProbe": _PROBE, "livenessProbe": _PROBE} if number % 3 == 0 else {}),
    )
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-{digest}", "uid": "u", "controller": True}
    init = [make_container("prepare", volumeMounts=mounts)] if number % 6 == 0 else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{app}-{digest}-",
            "namespace": NAMESPACE,
            "labels": {"app": app, "version": f"v{number % 7}", "pod-template-hash": digest},
            "annotations": {"checksum/config": f"{number:064x}", **ANNOTATIONS[number % len(ANNOTATIONS)]},
            "ownerReferences": [owner],
        },
        "spec": {
            "volumes": [{"name": token, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
            **({"initContainers": init} if init else {}),
            "containers": [container],
            "serviceAccountName": app,
            "securityContext": {"fsGroup": 2000} if number % 4 == 0 else {},
        },
        "status": {},
    }


@dataclass(frozen=True)
class Question:
    """One pod for one revision: the body but for its uid, and the pod that has to come of it."""

    revision: str
    head: bytes
    tail: bytes
    pod: dict[str, Any] = field(repr=False)
    wanted: dict[str, Any] = field(repr=False)

    def body(self, uid: str) -> bytes:
        """The review under a uid."""
        return self.head + uid.encode() + self.tail

    def fault(self, patch: bytes) -> str:
        """What is wrong with a patch; nothing where it leads to the same pod."""
        injected = jsonpatch.apply_patch(self.pod, json.loads(patch or b"[]"))
        return "" if injected == self.wanted else "another pod than offline"


def question(revision: Revision, pod: dict[str, Any]) -> Question | None:
    """A question, answered offline; None for a pod that this revision refuses."""
    namespace = pod["metadata"].get("namespace", NAMESPACE)
    try:
        result = inject_pod(revision, pod, RequestFacts(namespace))
    except DataError:
        return None
    assert isinstance(result, Injected | Skipped)
    wanted = jsonpatch.apply_patch(pod, result.patch) if isinstance(result, Injected) else pod
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    request = {"uid": _SPLIT, "kind": kind, "namespace": namespace, "operation": "CREATE", "object": pod}
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    head, _, tail = json.dumps(review, separators=(",", ":")).partition(_SPLIT)
    return Question(revision.name, head.encode(), tail.encode(), pod, wanted)


def questions(folder: Path, names: Sequence[str], every: int = 1) -> list[Question]:
    """Each so many-th pod of the mix for each of the revisions that were written."""
    pods = mixed_pods()[::every]
    built = [build(read_folder(folder / name)) for name in names]
    all_questions = [question(revision, pod) for revision in built for pod in pods]
    return [one for one in all_questions if one is not None]


@dataclass
class Came:
    """What came of a load."""

    calls: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    @property
    def failures(self) -> int:
        """How many calls were not answered as they have to be."""
        return self.wrong.total()

    def quantile_ms(self, part: float) -> float:
        """How long that part of the calls took at most."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))] * 1e3 if ordered else 0.0

    def add(self, more: Came) -> None:
        """Count more of the same load."""
        self.calls += more.calls
        self.wrong += more.wrong
        self.seconds += more.seconds

    @property
    def p99(self) -> float:
        """In milliseconds."""
        return self.quantile_ms(0.99)

    def __str__(self) -> str:
        said = f"{self.failures} failures of {self.calls}, p99 {self.p99:.1f} ms"
        return f"{said} {dict(self.wrong)}" if self.wrong else said


@dataclass
class Profile:
    """The load: ``rate`` calls a second whether or not the last ones are answered, up to ``CALLERS`` at once."""

    client: ApiServer
    questions: Sequence[Question]
    rate: float = RATE
    _held: dict[tuple[int, bytes], int] = field(default_factory=dict)
    _random: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311 -- which pod comes next

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(CALLERS)
        self._hot = self._random.sample(range(len(self.questions)), min(4 * HOT, len(self.questions)))

    async def warm(self) -> None:
        """Ask everything twice, so that what is remembered is."""
        for _ in range(2):
            for number in range(0, len(self.questions), 8):
                some = range(number, min(number + 8, len(self.questions)))
                await asyncio.gather(*(self._ask(index, Came()) for index in some))

    async def run(self, seconds: float) -> Came:
        """Call for so long; return what came of it once all is answered and held against what it has to be."""
        outcome, loop = Came(), asyncio.get_running_loop()
        begun = loop.time()
        async with asyncio.TaskGroup() as group:
            for number in range(int(seconds * self.rate)):
                await asyncio.sleep(max(0.0, begun + number / self.rate - loop.time()))
                group.create_task(self._ask(self.choose(number), outcome))
        self._hold(outcome)
        return outcome

    def choose(self, number: int) -> int:
        """Which pod the next call is about: by turns one of few, or one of all."""
        return self._random.choice(self._hot) if number % 2 else self._random.randrange(len(self.questions))

    async def _ask(self, number: int, outcome: Came) -> None:
        begun, uid = asyncio.get_running_loop().time(), str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        question = self.questions[number]
        outcome.calls += 1
        try:
            async with self._slots:
                reply = await self.client.post(f"/inject/{question.revision}", question.body(uid))
        except OSError as error:
            outcome.wrong[str(error) or type(error).__name__] += 1
            return
        outcome.seconds.append(asyncio.get_running_loop().time() - begun)
        self._look(number, uid, reply, outcome)

    def _look(self, number: int, uid: str, reply: Reply, outcome: Came) -> None:
        if reply.status != 200:
            outcome.wrong[f"status {reply.status}"] += 1
            return
        response = reply.response
        if (response["uid"], response["allowed"]) != (uid, True):
            outcome.wrong[f"denied: {response.get('status', {}).get('message', '')[:80]}"] += 1
            return
        patch = base64.b64decode(response.get("patch", ""))
        self._held[number, patch] = self._held.get((number, patch), 0) + 1

    def _hold(self, outcome: Came) -> None:
        """Hold each distinct answer against the pod that has to come of it."""
        for (number, patch), count in self._held.items():
            if fault := self.questions[number].fault(patch):
                outcome.wrong[fault] += count
        self._held.clear()


SECONDS: Final = 600.0
WARM: Final = 120.0
GROWTH: Final = 5.0
P99: Final = 100.0


async def steady_load(stage: Stage) -> Sequence[Row]:
    """P, every answer held, and the memory from the third minute on."""
    folder = stage.folder / "steady"
    folder.mkdir()
    pods = await asyncio.to_thread(lambda: questions(folder, written(folder)))
    replica = await stage.replica("--revisions-dir", str(folder), tls=True)
    profile = Profile(replica.client(trusting(stage.certificate)), pods)
    seconds = stage.lasts(SECONDS)
    warm = min(WARM, seconds / 5)
    first = await profile.run(warm)
    before = resident(replica.pid)
    rest = await profile.run(seconds - warm)
    grown = resident(replica.pid) - before
    await profile.client.close()
    first.add(rest)
    figure = f"{first}; RSS +{grown:.1f} MiB to {before + grown:.0f} MiB"
    met = first.failures == 0 and first.calls > 0 and first.p99 < P99 and grown < GROWTH
    target = f"0 failures, p99 < {P99:g} ms, RSS < +{GROWTH:g} MiB"
    return [Row(f"T1 P at {RATE:g} rps for {seconds:g} s", target, figure, met)]

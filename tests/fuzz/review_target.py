"""Requests to the webhook, from the bytes on the connection to those that come back, in process and without a socket.

An answer is any HTTP status below 500. A bug is a status of 500 and more, an answer that says "internal error", a line of the log at
ERROR, a readable review that is not answered under its own uid, a patch that does not apply, a request without an answer, and a task that
is left of one. Time passes between two inputs and stands still in each, so that no answer depends on how fast the machine is.
"""

from __future__ import annotations

import asyncio
import json
import logging
import selectors
import time
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any

from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client import CollectorRegistry

from injector.injection.result import WARN
from injector.metrics import Metrics
from injector.revisions.directory import EMBEDDED, read_directory
from injector.revisions.registry import Registry, snapshot_of
from injector.revisions.source import build
from injector.revisions.tags import parse_tags
from injector.revisions.verify import RecentPods
from injector.webhook.decisions import DecisionNotes
from injector.webhook.handler import InjectHandler
from injector.webhook.lifecycle import Lifecycle, Phase
from injector.webhook.listener import Connection, Listener
from injector.webhook.queue import AdmissionQueue
from injector.webhook.server import webhook_requests
from tests.factories import make_pod, make_review
from tests.fuzz.draws import Draws
from tests.fuzz.reviewing import PATHS, PODS, body_of, fault_of, mutated_review
from tests.fuzz.target import Target
from tests.revisions.fakes import make_raw

TOO_LARGE = 8 * 2**20 + 1
CONFIG = """\
policy: enabled
defaultTemplates: [sidecar]
templates:
  sidecar: |
    metadata:
      labels:
        service.istio.io/canonical-name: {{ index .ObjectMeta.Labels `app` | default .DeploymentMeta.Name | trunc 63 | quote }}
      annotations:
        a: {{ annotation .ObjectMeta `sidecar.istio.io/logLevel` "info" | quote }}
    spec:
      {{- range $index, $each := .Spec.Containers }}
      {{- if eq $each.Name "setup" }}
      hostAliases: []
      {{- end }}
      {{- end }}
      containers:
      - name: istio-proxy
        image: proxy:{{ .Values.global.tag }}
        env:
        - name: ISTIO_META_CLUSTER_ID
          value: {{ valueOrDefault (index .ProxyConfig.ProxyMetadata `A`) "x" | quote }}
        {{- range $key, $value := .ProxyConfig.ProxyMetadata }}
        - name: {{ $key }}
          value: "{{ $value }}"
        {{- end }}
      volumes:
      - name: istio-data
        emptyDir: {}
"""
HEAD_END = b"\r\n\r\n"
# A request takes a dozen rounds of the loop. One that is torn gets no answer, however long one waits.
ROUNDS = 50
MOST_ROUNDS = 5_000
PAUSE = 0.001


class Selector(selectors.DefaultSelector):
    """Asks the system only to wait: there are no sockets, and where there is work at hand a look takes as long as the work."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return [] if timeout is not None and timeout <= 0 else super().select(timeout)


class Loop(asyncio.SelectorEventLoop):
    """A loop whose clock stands still."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(Selector())

    def time(self) -> float:
        return self.now


class Transport(asyncio.Transport):
    """A connection that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def ignore(self, *_: Any, **__: Any) -> None:
        """Everything that is written is taken, and nothing more is read anyway."""

    set_write_buffer_limits = pause_reading = resume_reading = ignore

    def answers(self) -> bool:
        """Whether a whole response is there."""
        head, end, body = bytes(self.written).partition(HEAD_END)
        if not end:
            return False
        lengths = [
            line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
        ]
        return len(body) >= int(lengths[0]) if lengths else self.closed


class Log(logging.Handler):
    """Keeps the lines that say that something went wrong."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        # What is no HTTP is answered 400, and told of in a line.
        if record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError):
            self.lines.append(self.format(record))


class Injector:
    """The webhook's application, and the loop that it runs on."""

    def __init__(self, **tells: Any) -> None:
        self.loop = Loop()
        self.log = Log()
        logging.getLogger().addHandler(self.log)
        lifecycle = Lifecycle()
        lifecycle.phase = Phase.SERVING
        openshift = {"istioVersion": "1.24", "env": {"PLATFORM": "openshift"}}
        raw = make_raw("plain", config=CONFIG), make_raw("old", config=CONFIG, settings=openshift)
        revisions = [*map(build, read_directory(EMBEDDED).revisions), *map(build, raw)]
        tags = parse_tags("prod: {weights: {stable: 50, plain: 50}, shadow: {revision: canary}}\n")
        registry = Registry(snapshot_of(revisions, tags, default="stable"))
        self.handler = InjectHandler(
            registry,
            Metrics(CollectorRegistry()),
            lifecycle,
            AdmissionQueue(clock=self.loop.time),
            recent=RecentPods(),
            **tells,
        )
        self.listener = self.loop.run_until_complete(self._listener())

    async def _listener(self) -> Listener:
        return Listener(webhook_requests(self.handler))

    def answered(self, request: bytes, *, whole: bool) -> bytes:
        """What comes back for the bytes of a connection; empty where nothing does."""
        return self.loop.run_until_complete(self._answered(request, whole=whole))

    async def _answered(self, request: bytes, *, whole: bool) -> bytes:
        protocol = Connection(self.listener, None)
        transport = Transport()
        protocol.connection_made(transport)
        protocol.data_received(request)
        await _until(lambda: transport.answers() or transport.closed, MOST_ROUNDS if whole else ROUNDS)
        protocol.connection_lost(None)
        await _until(lambda: len(asyncio.all_tasks()) == 1, MOST_ROUNDS)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task is left"
        return bytes(transport.written)


async def _until(done: Callable[[], bool], most: int) -> None:
    """Let the loop go round until something is so, or so many times."""
    for rounds in range(most):
        if done():
            return
        if rounds >= ROUNDS:
            # Pods are injected by threads beside the loop.
            time.sleep(PAUSE)  # noqa: ASYNC251 -- the loop's own clock stands still
        await asyncio.sleep(0)


@cache
def injector(*, tells: bool) -> Injector:
    """One for all inputs, as one serves all pods; and one that says more in its answers."""
    return Injector(notes=DecisionNotes(warns=True, audits=True), guard=WARN) if tells else Injector()


def run(data: bytes) -> None:
    """Try a request, once or, so that the answer cache answers it, several times."""
    draws = Draws(data)
    path = (
        draws.choice(PATHS)
        if draws.randrange(8)
        else f"/inject/{draws.randbytes(draws.randrange(24)).decode('latin-1')}"
    )
    path = "".join(char if "!" <= char <= "~" else f"%{ord(char):02x}" for char in path)
    kind, choice = draws.randrange(len(SENT)), draws.getrandbits(2)
    body = mutated_review(draws) if choice & 1 else draws.rest()
    sent, whole = SENT[kind](body)
    sent = f"POST {path} HTTP/1.1\r\nHost: x\r\n".encode("ascii") + sent
    webhook = injector(tells=bool(choice & 2))
    replies = [webhook.answered(sent, whole=whole) for _ in range(AGAIN if kind == 1 else 1)]
    assert not webhook.log.lines, webhook.log.lines
    read = body if kind != TEXT and path.startswith("/inject") and "?" not in path else b""
    for reply in set(replies) if whole else ():
        head, _, answer = reply.partition(HEAD_END)
        assert head, "no answer"
        fault = fault_of(int(head.split()[1]), answer, read)
        assert not fault, fault


JSON = b"Content-Type: application/json\r\n"
AGAIN = 4


LENGTH = b"Content-Length: %d\r\n\r\n"
CHUNKS = b"Transfer-Encoding: chunked\r\n\r\n"
SENT: tuple[Callable[[bytes], tuple[bytes, bool]], ...] = (
    *[lambda body: (JSON + LENGTH % len(body) + body, True)] * 3,
    lambda body: (JSON + CHUNKS + body, False),  # torn
    lambda body: (JSON + LENGTH % TOO_LARGE + body, False),  # too large
    lambda body: (JSON + LENGTH % (len(body) + 1) + body, False),  # short
    lambda body: (JSON + CHUNKS + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body), bool(body)),
    lambda body: (b"Content-Type: text/plain\r\n" + LENGTH % len(body) + body, True),
)
"""How a request comes: its bytes after the first headers, and whether there has to be an answer."""
TEXT = len(SENT) - 1


def seeds() -> Iterator[bytes]:
    """Valid reviews on every path, and mutated ones."""
    for place in range(len(PATHS)):
        for pod in PODS:
            yield bytes([1, place, 1, 0]) + body_of(make_review(pod))
    for body in (
        b"",
        b"{",
        b"[]",
        b'{"kind":"AdmissionReview"}',
        json.dumps(make_review(make_pod(), version="v2")).encode(),
    ):
        for kind in range(8):
            yield bytes([1, 1, kind, 0]) + body
    random = Random(0)  # noqa: S311 -- bytes to begin with
    for number in range(512):
        yield bytes([1, number % len(PATHS), number % 8, 1 + 2 * (number % 3 == 0)]) + random.randbytes(
            random.randrange(400)
        )


TARGET = Target(
    run=run,
    modules=(
        *(f"webhook/{name}.py" for name in ("handler", "reading", "cache")),
        *(f"kube/{name}.py" for name in ("admission", "jsonpatch")),
    ),
    guides=("injection", "revisions/registry.py"),  # the registry parses the path
    seeds=seeds,
    words=(
        *('"metadata":', '"annotations":{', '"labels":{', '"sidecar.istio.io/inject":"true"', '"spec":{'),
        *('"containers":[{', '"name":', '"env":[', '"readinessProbe":{', '"httpGet":{', '"port":"http"', '"ports":['),
        *('"uid":"x"', '"dryRun":true', '"request":{', "null", "true", "1e3", "{}", "[]"),
    ),
    longest=4096,
)

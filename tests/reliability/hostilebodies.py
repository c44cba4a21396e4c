"""Requests that are made to hurt: by their size, their framing, their headers, or the JSON that they hold."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import re
import string
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.factories import UID, make_container, make_pod, make_review
from tests.reliability.apiserver import reply_of
from tests.reliability.long.rows import Row
from tests.reliability.replicas import Stage, resident

LIMIT: Final = 30.0
MAX_BODY: Final = 8 * 1024 * 1024
START: Final = "POST /inject/stable?timeout=10s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
SMUGGLED: Final = b"POST /inject/smuggled HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True)
class Attack:
    """What is sent, and what may be answered; ``endless`` is sent again and again until there is an answer."""

    sent: bytes
    statuses: frozenset[int]
    endless: bytes = b""


@dataclass(frozen=True)
class AttackReply:
    """What came of it: the statuses of all answers on the connection, the body of the first, and how long that took."""

    statuses: list[int]
    body: bytes
    seconds: float


def posted(body: bytes, *headers: str, length: int | None = None) -> bytes:
    """A request; ``length`` is what it says of its body."""
    lines = "".join(f"{header}\r\n" for header in headers)
    return f"{START}Content-Length: {len(body) if length is None else length}\r\n{lines}\r\n".encode() + body


def review_of(size: int) -> bytes:
    """A review of so many bytes."""
    review = json.dumps(make_review(make_pod(containers=[make_container(env=[{"name": "PAD", "value": "SPLIT"}])])))
    return review.replace("SPLIT", "x" * (size - len(review) + len("SPLIT"))).encode()


def bodies() -> dict[str, Attack]:
    """T16."""
    review = json.dumps(make_review()).encode()
    chunked = f"{START}Transfer-Encoding: chunked\r\n\r\n".encode()
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    both = f"{START}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".encode() + SMUGGLED
    bad = frozenset({400})
    return {
        "8 MiB - 1": Attack(posted(review_of(MAX_BODY - 1)), frozenset({200})),
        "8 MiB + 1": Attack(posted(b"", length=MAX_BODY + 1), frozenset({413})),
        "endless chunks": Attack(chunked, frozenset({413}), chunk),
        "gzip bomb": Attack(posted(gzip.compress(bytes(MAX_BODY)), "Content-Encoding: gzip"), frozenset({415})),
        "length too short": Attack(posted(review + SMUGGLED, length=len(review) - 1), bad),
        "length of no number": Attack(f"{START}Content-Length: 5x\r\n\r\n".encode() + SMUGGLED, bad),
        "length below zero": Attack(posted(SMUGGLED, length=-1), bad),
        "two lengths": Attack(posted(SMUGGLED, "Content-Length: 7"), bad),
        "length and chunks": Attack(both, bad),
        "129 headers": Attack(posted(review, *(f"X-{number}: 1" for number in range(126))), bad),
        "header of 20 KB": Attack(posted(review, f"X-Long: {'x' * 20_000}"), bad),
    }


def hostile_json() -> dict[str, Attack]:
    """T17: each as a part of a review of a pod, and on its own."""
    deep, many = "[" * 10**5 + "]" * 10**5, "[" + ",".join(['{"a":0}'] * 10**6) + "]"
    values: dict[str, str] = {
        "depth 10^5": deep,
        "10^6 keys": many,
        "number of 5,000 digits": "9" * 5_000,
        "lone surrogate": '"\\ud800"',
        "NaN": "NaN",
        "the same key twice": '{"a":1,"a":2}',
        "NUL": '"\x00"',
        "escaped NUL": '"\\u0000"',
        "200,000 lists": "[" + ",".join(["[]"] * 120_000) + "]",
    }
    review = json.dumps(make_review(make_pod(annotations={"pad": "SPLIT"})))
    head, _, tail = review.partition('"SPLIT"')
    either = frozenset({200, 400, 413})
    alone = {f"{name}, alone": Attack(posted(text.encode()), either) for name, text in values.items()}
    return {**{name: Attack(posted(f"{head}{text}{tail}".encode()), either) for name, text in values.items()}, **alone}


async def attack_with(port: int, attack: Attack) -> AttackReply:
    """Send it all, and read until the connection ends or nothing more comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2 * MAX_BODY)
    sending = asyncio.create_task(_send(writer, attack))
    try:
        async with asyncio.timeout(LIMIT):
            if not attack.endless:
                await sending
            begun = time.monotonic()
            reply = await reply_of(reader)
            seconds = time.monotonic() - begun
            rest = await _rest(reader)
    finally:
        sending.cancel()
        writer.close()
    return AttackReply([reply.status, *map(int, re.findall(rb"HTTP/1\.[01] (\d{3}) ", rest))], reply.body, seconds)


async def _send(writer: asyncio.StreamWriter, attack: Attack) -> None:
    try:
        writer.write(attack.sent)
        await writer.drain()
        while attack.endless:
            writer.write(attack.endless)
            await writer.drain()
    except ConnectionError:
        pass


async def _rest(reader: asyncio.StreamReader) -> bytes:
    """What comes after the first answer within a moment, in which anything smuggled would be answered."""
    try:
        async with asyncio.timeout(0.3):
            return await reader.read()
    except (TimeoutError, ConnectionError):
        return b""


def fault(attack: Attack, reply: AttackReply) -> str:
    """What is wrong with what was told; nothing where it is clean: one of the statuses, one answer, and a uid where it is a review's."""
    allowed: Callable[[int], bool] = attack.statuses.__contains__
    if not reply.statuses or not allowed(reply.statuses[0]):
        return f"statuses {reply.statuses}"
    if any(status < 400 for status in reply.statuses[1:]):
        return "something smuggled was answered"
    if reply.statuses[0] == 200:
        answer: dict[str, Any] = json.loads(reply.body)["response"]
        if answer["uid"] != UID:
            return "another uid"
    return ""


ROUNDS: Final = 5
ANSWER: Final = 0.05
GROWTH: Final = 16.0
HELD: Final = 0.1
TICK: Final = 0.005


async def hostile_bodies(stage: Stage) -> Sequence[Row]:
    """T16: each is refused at once, and the memory stays; the largest review that may be sent is answered."""
    outcome = await _played(stage, bodies())
    slowest = max(
        (seconds, name) for name, seconds in outcome.seconds.items() if name not in ("8 MiB - 1", "endless chunks")
    )
    figure = f"{outcome.said}; slowest refusal {slowest[0] * 1e3:.0f} ms ({slowest[1]}); RSS +{outcome.grown:.0f} MiB"
    met = not outcome.faults and slowest[0] < ANSWER and outcome.grown < GROWTH
    return [Row(f"T16 {len(outcome.seconds)} bodies x {ROUNDS}", "413, 415, 400, < 50 ms, RSS < +16 MiB", figure, met)]


async def hostile_values(stage: Stage) -> Sequence[Row]:
    """T17: what the event loop stands still for each, as a probe beside it sees."""
    outcome = await _played(stage, hostile_json())
    slowest = max((seconds, name) for name, seconds in outcome.held.items())
    figure = f"{outcome.said}; loop held {slowest[0] * 1e3:.0f} ms at most ({slowest[1]})"
    met = not outcome.faults and slowest[0] < HELD
    return [Row(f"T17 {len(outcome.seconds)} reviews x {ROUNDS}", "4xx or the uid, loop held < 100 ms", figure, met)]


class _Outcomes:
    """What came of all: faults by name, the median of how long each took, how long probes waited, and the memory that stayed."""

    def __init__(self) -> None:
        self.faults: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self.held: dict[str, float] = {}
        self.grown = 0.0

    @property
    def said(self) -> str:
        return f"{len(self.faults)} wrong {self.faults or ''}".strip()


async def _played(stage: Stage, attacks: Mapping[str, Attack]) -> _Outcomes:
    outcome = _Outcomes()
    replica = await stage.replica()
    before = resident(replica.pid)
    for name, attack in attacks.items():
        seconds, held = [], []
        for _ in range(ROUNDS):
            probe = asyncio.create_task(_probe(replica.ops_port))
            answer = await attack_with(replica.port, attack)
            probe.cancel()
            seconds.append(answer.seconds)
            held.append(max((await asyncio.gather(probe))[0], 0.0))
            if wrong := fault(attack, answer):
                outcome.faults[name] = wrong
        outcome.seconds[name] = sorted(seconds)[ROUNDS // 2]
        outcome.held[name] = sorted(held)[ROUNDS // 2]
    outcome.grown = resident(replica.pid) - before
    return outcome


async def _probe(port: int) -> float:
    """Ask whether the injector lives, again and again until cancelled; return the longest that it took."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    loop, longest = asyncio.get_running_loop(), 0.0
    begun = loop.time()
    try:
        while True:
            begun = loop.time()
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            await reply_of(reader)
            longest = max(longest, loop.time() - begun)
            await asyncio.sleep(TICK)
    except asyncio.CancelledError:
        return max(longest, loop.time() - begun)
    finally:
        writer.close()


NAMES = 100_000
CALLERS = 8
PARTS = (*string.ascii_letters, *string.digits, *"-_.~", "%2f", "%00", "%0a", "%ff", "%c3%a9")


async def hostile_names(stage: Stage) -> Sequence[Row]:
    """T22 and T23: every name is denied with the uid, and none of them makes a series."""
    replica = await stage.replica()
    review = json.dumps(make_review()).encode()
    client = replica.client()
    names = random_names()
    wrong = 0

    async def ask(names: Iterator[str]) -> None:
        nonlocal wrong
        for name in names:
            reply = await client.post(f"/inject/{name}", review)
            if reply.status != 200 or (reply.response["uid"], reply.response["allowed"]) != (UID, False):
                wrong += 1

    # A name of each kind: unknown, with a control character, no UTF-8.
    await ask(iter(["nope", "x%00", "x%ff"]))
    before, begun = len(await replica.metrics()), time.monotonic()
    await asyncio.gather(*(ask(names) for _ in range(CALLERS)))
    each_ms = (time.monotonic() - begun) / NAMES * 1e3
    more = len(await replica.metrics()) - before
    await client.close()
    return [
        Row(
            f"T22 {NAMES} names",
            "denied with the uid, < 1 ms",
            f"{wrong} wrong, {each_ms:.2f} ms",
            wrong == 0 and each_ms < 1,
        ),
        Row(f"T23 {NAMES} names", "0 series more", f"{more} more", more == 0),
    ]


def random_names() -> Iterator[str]:
    """Names that nobody serves."""
    for number in range(NAMES):
        yield f"x{number}" + "".join(random.choices(PARTS, k=8))  # noqa: S311 -- names for a test

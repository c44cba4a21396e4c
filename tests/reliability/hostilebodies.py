"""Requests that are made to hurt: by their size, their framing, their headers, or the JSON that they hold."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.factories import UID, make_container, make_pod, make_review

if TYPE_CHECKING:
    from collections.abc import Callable

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
class Told:
    """What came of it: the statuses of all answers on the connection, the body of the first, and how long that took."""

    statuses: list[int]
    body: bytes
    seconds: float


def posted(body: bytes, *headers: str, length: int | None = None) -> bytes:
    """A request; ``length`` is what it says of its body."""
    lines = "".join(f"{each}\r\n" for each in headers)
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
        "129 headers": Attack(posted(review, *(f"X-{each}: 1" for each in range(126))), bad),
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


async def told(port: int, attack: Attack) -> Told:
    """Send it all, and read until the connection ends or nothing more comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2 * MAX_BODY)
    sending = asyncio.create_task(_send(writer, attack))
    try:
        async with asyncio.timeout(LIMIT):
            if not attack.endless:
                await sending
            begun = time.monotonic()
            head = await reader.readuntil(b"\r\n\r\n")
            seconds = time.monotonic() - begun
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            body = await reader.readexactly(length)
            rest = await _rest(reader)
    finally:
        sending.cancel()
        writer.close()
    statuses = [int(each) for each in re.findall(rb"HTTP/1\.[01] (\d{3}) ", head + rest)]
    return Told(statuses, body, seconds)


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


def fault(attack: Attack, found: Told) -> str:
    """What is wrong with what was told; nothing where it is clean: one of the statuses, one answer, and a uid where it is a review's."""
    allowed: Callable[[int], bool] = attack.statuses.__contains__
    if not found.statuses or not allowed(found.statuses[0]):
        return f"statuses {found.statuses}"
    if any(status < 400 for status in found.statuses[1:]):
        return "something smuggled was answered"
    if found.statuses[0] == 200:
        answer: dict[str, Any] = json.loads(found.body)["response"]
        if answer["uid"] != UID:
            return "another uid"
    return ""

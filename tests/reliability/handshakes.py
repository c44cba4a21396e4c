"""Clients that open TLS connections as fast as they can and never ask: junk, half a hello, handshakes that end in a reset, and those that
announce a long message, as the first hello or as the one after a HelloRetryRequest, and do not send it.

They run in a process of their own, ``python -m tests.reliability.handshakes PORT KIND COUNT SECONDS``, which prints how many connections
they opened.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from tests.factories import make_pod, make_review
from tests.reliability.apiserver import HEAD_END, request_of
from tests.reliability.long.rows import Row
from tests.reliability.replicas import ROOT, Stage, resident
from tests.reliability.slowpeers import HALF_HELLO, Peak, trusting_anybody
from tests.tasks import running
from tests.webhook.certificates import authority, issue

KINDS: Final = ("junk", "hello", "reset", "long hello", "long retry")
COUNT: Final = 1500
SECONDS: Final = 10.0
WARM: Final = 2.0
GROWTH: Final = 50.0
SLOWER: Final = 3.0
PATIENCE: Final = 15.0
PAUSE: Final = 0.05


def record(message: bytes) -> bytes:
    """Return a message of a handshake as one record of TLS (RFC 8446, 5.1)."""
    return b"\x16\x03\x03" + len(message).to_bytes(2, "big") + message


def message(kind: int, body: bytes) -> bytes:
    """Return a message of a handshake (RFC 8446, 4)."""
    return bytes([kind]) + len(body).to_bytes(3, "big") + body


LONGEST: Final = 131_396
"""The longest hello that OpenSSL accepts (CLIENT_HELLO_MAX_LENGTH)."""
LONG_HELLO: Final = record(message(1, bytes(LONGEST))[:100])


def hello_without_key() -> bytes:
    """Return a record with a hello of TLS 1.3 that has no key, so that the server asks for another hello (RFC 8446, 4.1.4)."""
    groups, algorithms, versions, keys = "000a00040002001d", "000d0006000404030804", "002b0003020304", "003300020000"
    extensions = bytes.fromhex(groups + algorithms + versions + keys)
    session, ciphers, compression = bytes([32, *bytes(32)]), bytes.fromhex("00021301"), bytes([1, 0])
    head = bytes.fromhex("0303") + os.urandom(32) + session + ciphers + compression
    return record(message(1, head + len(extensions).to_bytes(2, "big") + extensions))


FIRST_BYTES: Final[Mapping[str, Callable[[], bytes]]] = {
    "junk": lambda: os.urandom(50),
    "hello": lambda: HALF_HELLO,
    "long hello": lambda: LONG_HELLO,
    "long retry": hello_without_key,
}


async def flood(port: int, kind: str, count: int, seconds: float) -> int:
    """Let ``count`` clients connect again and again for a while. Return the number of connections."""
    connections = 0

    async def client() -> None:
        nonlocal connections
        while True:
            try:
                connections += 1
                tls = trusting_anybody() if kind == "reset" else None
                async with asyncio.timeout(PATIENCE):
                    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
                    if kind != "reset":
                        writer.write(FIRST_BYTES[kind]())
                        answer = await reader.read(2**12)
                        if answer and kind == "long retry":
                            writer.write(LONG_HELLO)
                            await reader.read()
                writer.transport.abort()
            except OSError:
                await asyncio.sleep(PAUSE)

    clients = [asyncio.create_task(client()) for _ in range(count)]
    await asyncio.sleep(seconds)
    for task in clients:
        task.cancel()
    return connections


Connection: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connected(port: int, tls: ssl.SSLContext) -> AsyncIterator[Connection]:
    """Connect until the block ends."""
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def _ask(connection: Connection, request: bytes) -> None:
    reader, writer = connection
    async with asyncio.timeout(PATIENCE):
        writer.write(request)
        head = await reader.readuntil(HEAD_END)
        length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
        await reader.readexactly(int(length.split(b":")[1]))


async def _ask_anew(port: int, tls: ssl.SSLContext, request: bytes) -> None:
    async with connected(port, tls) as connection:
        await _ask(connection, request)


async def _seconds_of(work: Awaitable[None]) -> float:
    began = asyncio.get_running_loop().time()
    await work
    return asyncio.get_running_loop().time() - began


class Failure(NamedTuple):
    """How a call failed: on which connection, by which error, after how many seconds."""

    connection: str
    error: str
    seconds: float


@dataclass
class GoodClients:
    """API servers: one keeps its connection, and one connects for each review. The lists have the times of their answers."""

    port: int
    reused: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    async def run(self, tls_files: tuple[str, str] | None) -> None:
        """Ask until cancelled."""
        tls = trusting_anybody.__wrapped__()
        if tls_files is not None:
            tls.load_cert_chain(*tls_files)
        request = request_of("/inject/stable?timeout=10s", json.dumps(make_review(make_pod("a"))).encode())
        async with AsyncExitStack() as contexts:
            connection: Connection | None = None
            while True:
                with self._failing("new"):
                    self.new.append(await _seconds_of(_ask_anew(self.port, tls, request)))
                with self._failing("reused"):
                    held, connection = connection, None
                    if held is None:
                        held = await contexts.enter_async_context(connected(self.port, tls))
                    self.reused.append(await _seconds_of(_ask(held, request)))
                    connection = held
                await asyncio.sleep(PAUSE)

    @contextmanager
    def _failing(self, connection: str) -> Iterator[None]:
        began = asyncio.get_running_loop().time()
        try:
            yield
        except (OSError, EOFError) as error:
            self.failures.append(Failure(connection, repr(error), asyncio.get_running_loop().time() - began))

    def medians(self) -> tuple[float, float]:
        """Return the median times in milliseconds, and forget all times."""
        medians = [
            1e3 * sorted(times)[len(times) // 2] if times else PATIENCE * 1e3 for times in (self.reused, self.new)
        ]
        self.reused.clear()
        self.new.clear()
        return medians[0], medians[1]


@asynccontextmanager
async def flooding(port: int, kind: str, count: int, seconds: float) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the clients in a process of their own until the block ends. It prints the number of connections after ``seconds``."""
    arguments = ("-m", "tests.reliability.handshakes", str(port), kind, str(count), str(seconds))
    process = await asyncio.create_subprocess_exec(
        "nice", sys.executable, *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def failed_handshakes(stage: Stage) -> Sequence[Row]:
    """Each kind in turn, on a replica of its own, with and without client certificates."""
    rows = []
    for name in ("without", "with"):
        files = None
        flags: tuple[str, ...] = ()
        if name == "with":
            ca = authority("clients")
            ca.write(stage.folder, "clients")
            chain, key = issue(issuer=ca).write(stage.folder, "client")
            files, flags = (str(chain), str(key)), ("--client-ca-file", str(stage.folder / "clients.crt"))
        rows += [await _beside(stage, kind, name, files, flags) for kind in KINDS]
    return rows


async def _beside(
    stage: Stage, kind: str, name: str, files: tuple[str, str] | None, flags: tuple[str, ...], count: int = COUNT
) -> Row:
    replica = await stage.replica("--embedded", *flags, tls=True)
    good, seconds = GoodClients(replica.port), stage.lasts(SECONDS)
    async with running(good.run(files)):
        await asyncio.sleep(WARM)
        good.medians()
        await asyncio.sleep(seconds)
        before, base, peak = good.medians(), resident(replica.pid), Peak(replica.pid)
        async with running(peak.watch()), flooding(replica.port, kind, count, seconds + WARM) as clients:
            await asyncio.sleep(WARM)
            good.medians()
            await asyncio.sleep(seconds)
            during = good.medians()
            output, _ = await clients.communicate()
    replica.kill()
    grown = peak.mib - base
    slower = [after / earlier for earlier, after in zip(before, during, strict=True)]
    figure = (
        f"{int(output)} connections; p50 {during[0]:.1f} ms ({slower[0]:.1f} x), with a new connection "
        f"{during[1]:.1f} ms ({slower[1]:.1f} x), {len(good.failures)} failures; +{grown:.0f} MiB"
    )
    target = f"others: p50 < {SLOWER:g} x, 0 failures, RSS < +{GROWTH:.0f} MiB"
    for failure in good.failures:
        print(f"{kind}, {name} client certificates: {failure}", file=sys.stderr)
    met = max(slower) < SLOWER and not good.failures and grown < GROWTH
    return Row(f"T15 {count} clients x {kind}, {name} client certificates", target, figure, met)


if __name__ == "__main__":
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    _, port, kind, count, seconds = sys.argv
    print(asyncio.run(flood(int(port), kind, int(count), float(seconds))))

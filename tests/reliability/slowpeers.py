"""Peers that take their time on purpose: each kind opens connections and notes when they are cut.

A process of its own runs them for a long run, ``python -m tests.reliability.slowpeers PORT KIND PATH COUNT``, so that whoever measures
does not wait for them. It prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from tests.factories import make_pod, make_review
from tests.reliability.apiserver import HEAD_END, request_of
from tests.reliability.long.rows import Row
from tests.reliability.profile import Profile, questions, written
from tests.reliability.replicas import ROOT, Replica, Stage, resident, trusting, waits
from tests.tasks import running

# The beginning of a TLS record that holds a ClientHello of 512 bytes, and some of it (RFC 8446, 5.1).
HALF_HELLO: Final = bytes.fromhex("1603010200010001fc0303") + bytes(64)
DRIP: Final = 0.9
READS: Final = 12.0
LIMIT: Final = 20.0
TOGETHER: Final = 50
# As little as the kernel allows, so that an answer does not fit.
WINDOW: Final = 2048


@dataclass
class Peer(asyncio.Protocol):
    """One connection that sends what its kind does, bit by bit, and reads nothing unless it is asked to.

    It speaks TLS by itself: what asyncio would decrypt it would also take from the kernel, read or not.
    """

    first: bytes
    drip: bytes = b""
    deaf: bool = False
    tls: ssl.SSLContext | None = None
    seconds: float = -1.0
    begun: float = 0.0
    _sent: int = 0
    _transport: asyncio.Transport | None = None
    _heard: ssl.MemoryBIO = field(default_factory=ssl.MemoryBIO)
    _said: ssl.MemoryBIO = field(default_factory=ssl.MemoryBIO)
    _spoken: ssl.SSLObject | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport, self.begun = transport, time.monotonic()
        if self.tls is None:
            self._begin()
        else:
            self._spoken = self.tls.wrap_bio(self._heard, self._said)
            self._shake()

    def data_received(self, data: bytes) -> None:
        """Go on, whatever is said once the handshake is done."""
        if self._spoken is not None and not self.ready.is_set():
            self._heard.write(data)
            self._shake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note when that was."""
        del exc
        self.seconds = time.monotonic() - self.begun
        self.ready.set()
        self.gone.set()

    def _shake(self) -> None:
        assert self._spoken is not None
        assert self._transport is not None
        try:
            self._spoken.do_handshake()
        except ssl.SSLWantReadError:
            self._transport.write(self._said.read())
        except ssl.SSLError:
            self._transport.abort()
        else:
            self._begin()

    def _begin(self) -> None:
        assert self._transport is not None
        self.ready.set()
        if self.deaf:
            self._transport.pause_reading()
            # A peer that does not read is not told of the end of its connection. It asks for it by reading.
            asyncio.get_running_loop().call_later(READS, self._read)
        self._say(self.first)
        if self.drip:
            self._drip()

    def _say(self, data: bytes) -> None:
        assert self._transport is not None
        if self._spoken is not None:
            if data:
                self._spoken.write(data)
            data = self._said.read()
        self._transport.write(data)

    def _drip(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._say(self.drip[self._sent : self._sent + 1])
        self._sent += 1
        asyncio.get_running_loop().call_later(DRIP, self._drip)

    def _read(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()


KINDS: Final[dict[str, Callable[[bytes, bytes], Peer]]] = {
    "no hello": lambda _head, _body: Peer(b""),
    "half a hello": lambda _head, _body: Peer(HALF_HELLO),
    "headers drip": lambda head, _body: Peer(head[:40], head[40:]),
    "body drips": lambda head, body: Peer(head + body[:1], body[1:]),
    "answer not read": lambda head, body: Peer(head + body, deaf=True),
}
"""How each is made of the head and the body of a request."""
WITHOUT_TLS: Final = ("no hello", "half a hello")


async def open_peer(port: int, kind: str, path: str) -> Peer | None:
    """One more peer; None where it was not let in."""
    loop = asyncio.get_running_loop()
    sock = socket.socket()
    sock.setblocking(False)
    if kind == "answer not read":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WINDOW)
    body = json.dumps(make_review()).encode()
    head = request_of(path, body)[: -len(body)]
    peer = KINDS[kind](head, body)
    peer.tls = None if kind in WITHOUT_TLS else trusting_anybody()
    try:
        await loop.sock_connect(sock, ("127.0.0.1", port))
        await loop.create_connection(lambda: peer, sock=sock)
    except OSError:
        sock.close()
        return None
    await peer.ready.wait()
    return peer


@cache
def trusting_anybody() -> ssl.SSLContext:
    """A client that does not look whom it talks to."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@dataclass
class Held:
    """Peers, and how they fared."""

    peers: list[Peer]
    refused: int

    def longest(self, now: float) -> float:
        """How long the one that lasted longest was held; those that still are count until now."""
        return max((peer.seconds if peer.seconds >= 0 else now - peer.begun for peer in self.peers), default=0.0)

    @property
    def open(self) -> int:
        """How many still are."""
        return sum(peer.seconds < 0 for peer in self.peers)


async def crowd(port: int, kind: str, path: str, count: int) -> Held:
    """Open so many, some at once."""
    peers: list[Peer] = []
    refused = 0
    for begun in range(0, count, TOGETHER):
        some = await asyncio.gather(*(open_peer(port, kind, path) for _ in range(min(TOGETHER, count - begun))))
        peers += [peer for peer in some if peer is not None]
        refused += sum(peer is None for peer in some)
    return Held(peers, refused)


async def main(port: int, kind: str, path: str, count: int) -> None:
    """Open them, wait, and say what came of them."""
    held = await crowd(port, kind, path, count)
    try:
        async with asyncio.timeout(LIMIT):
            await asyncio.gather(*(peer.gone.wait() for peer in held.peers))
    except TimeoutError:
        pass
    report = {"opened": len(held.peers), "refused": held.refused, "open": held.open}
    sys.stdout.write(json.dumps({**report, "longest": held.longest(time.monotonic())}) + "\n")


PEERS: Final = 500
IDLE: Final = 1_000
BURSTS: Final = (10, 50, 200)
CUT: Final = 15.0
GROWTH: Final = 60.0
SLOWER: Final = 3.0
WAITED: Final = 15.0
QUIET: Final = 20.0
WAKES: Final = 3.0


@dataclass
class Peak:
    """The most memory that a process had while it was looked at."""

    pid: int
    mib: float = 0.0

    async def watch(self) -> None:
        """Look for ever."""
        while True:
            self.mib = max(self.mib, resident(self.pid))
            await asyncio.sleep(0.2)


async def slow_peers(stage: Stage) -> Sequence[Row]:
    """Each kind in turn, on a replica of its own, while P goes on."""
    folder = stage.folder / "slow"
    folder.mkdir()
    pods = questions(folder, written(folder))
    rows = []
    for kind in KINDS:
        replica = await stage.replica("--revisions-dir", str(folder), tls=True)
        profile = Profile(replica.client(trusting(stage.certificate)), pods)
        await profile.warm()
        rows.append(await _beside(stage, kind, replica, profile))
        await profile.client.close()
        replica.kill()
    return [*rows, await _quiet(stage), await _idle(stage)]


async def _quiet(stage: Stage) -> Row:
    """How often a server without requests wakes: the waits of all its threads that ended."""
    replica = await stage.replica(tls=True)
    await asyncio.sleep(QUIET)  # what its start left to do
    before = waits(replica.pid)
    await asyncio.sleep(QUIET)
    often = (waits(replica.pid) - before) / QUIET
    replica.kill()
    return Row("T15 a server without requests", f"wakes <= {WAKES:g} times a second", f"{often:.1f}", often <= WAKES)


async def _idle(stage: Stage) -> Row:
    """Connections that were answered once take every place of both ports, and new ones come in bursts."""
    replica = await stage.replica(tls=True)
    tls = trusting(stage.certificate)
    base, held, lost = resident(replica.pid), [], 0
    for _ in range(0, IDLE, BURSTS[1]):
        held += await asyncio.gather(*(_answered(replica.port, _review("held"), tls) for _ in range(BURSTS[1])))
        held += await asyncio.gather(*(_answered(replica.ops_port, PROBE) for _ in range(BURSTS[1])))
    open_now = sum(peer is not None for peer in held)
    grown = resident(replica.pid) - base
    for burst in BURSTS:
        new = await asyncio.gather(
            *(_answered(replica.port, _review(f"{burst}-{number}"), tls) for number in range(burst)),
            *(_answered(replica.ops_port, PROBE) for _ in range(burst)),
        )
        lost += sum(peer is None for peer in new)
        for writer in new:
            if writer is not None:
                writer.close()
    for writer in held:
        if writer is not None:
            writer.close()
    replica.kill()
    figure = f"{open_now} held, {lost} of {2 * sum(BURSTS)} new calls and probes failed; +{grown:.0f} MiB"
    target = f"bursts of {', '.join(map(str, BURSTS))} new calls, and of probes, all succeed; RSS < +{GROWTH:.0f} MiB"
    return Row(
        f"T15 {IDLE} idle connections on each port",
        target,
        figure,
        not lost and open_now == 2 * IDLE and grown < GROWTH,
    )


PROBE: Final = b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"


def _review(app: str) -> bytes:
    return request_of("/inject/stable?timeout=10s", json.dumps(make_review(make_pod(labels={"app": app}))).encode())


async def _answered(port: int, request: bytes, tls: ssl.SSLContext | None = None) -> asyncio.StreamWriter | None:
    """Connect and ask once; return the connection, or None if the answer is not 200."""
    try:
        async with asyncio.timeout(CUT):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=tls, server_hostname="localhost" if tls else None
            )
            writer.write(request)
            return writer if b" 200 OK" in await reader.readuntil(HEAD_END) else None
    except (OSError, asyncio.IncompleteReadError):
        return None


async def _beside(stage: Stage, kind: str, replica: Replica, profile: Profile) -> Row:
    before, base = await profile.run(stage.lasts(WAITED)), resident(replica.pid)
    peak = Peak(replica.pid)
    async with running(peak.watch()):
        peers = asyncio.create_task(_peers(replica.port, kind, f"/inject/{profile.questions[0].revision}"))
        during = await profile.run(stage.lasts(WAITED))
        report = await peers
    grown = peak.mib - base
    figure = f"P {during}, {before.p99:.1f} before; longest {report['longest']:.1f} s, {report['open']} left; +{grown:.0f} MiB"
    met = (
        during.failures == before.failures == 0
        and during.p99 < SLOWER * before.p99
        and report["open"] == 0
        and report["longest"] <= CUT
        and grown < GROWTH
    )
    target = f"P: 0 failures, p99 < {SLOWER:g} x; each closed within {CUT:g} s, RSS < +{GROWTH:.0f} MiB"
    return Row(f"T15 {PEERS} x {kind}", target, figure, met)


async def _peers(port: int, kind: str, path: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        # They would be other machines, whose work costs this one nothing.
        *("nice", sys.executable, "-m", "tests.reliability.slowpeers", str(port), kind, path, str(PEERS)),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    out, _ = await process.communicate()
    report: dict[str, Any] = json.loads(out)
    return report


if __name__ == "__main__":
    # asyncio says so of each connection that is cut while something is written to it.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))

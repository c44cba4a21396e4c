"""Replicas of the injector as processes, and the Service before them."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.architecture.serving import free_ports
from tests.reliability.apiserver import ApiServer
from tests.tasks import LIMIT, until

ROOT: Final = Path(__file__).resolve().parents[2]
LOOK: Final = 0.02
START_LIMIT: Final = 600.0
"""Seconds until a replica must be ready. It takes one or two, but a machine may have much else to do."""


@dataclass
class Replica:
    """One injector; it keeps its ports when it is started again.

    ``flags`` are further flags of ``serve``; what it logs is appended to ``log``. ``program`` are Python's arguments before ``serve``.
    """

    log: Path
    flags: Sequence[str] = ("--insecure-http",)
    program: Sequence[str] = ("-m", "injector")
    port: int = 0
    ops_port: int = 0
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.port, self.ops_port = free_ports(2)

    def start(self) -> None:
        """Start it, and do not wait."""
        ports = ["--port", str(self.port), "--ops-port", str(self.ops_port), "--bind", "127.0.0.1"]
        command = [sys.executable, *self.program, "serve", *ports, *self.flags]
        if not any(flag.startswith(("--from-cluster", "--revisions-dir", "--injectConfig")) for flag in self.flags):
            command.append("--embedded")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, env=_environment(), stderr=log)

    async def ready(self) -> bool:
        """Whether it says that it is."""
        try:
            async with asyncio.timeout(2.0):
                return b"200 OK" in await self.ask_operations("/readyz")
        except OSError:
            return False

    async def ask_operations(self, path: str) -> bytes:
        """What its operations port answers, head and body.

        Raises:
            OSError: it does not.
        """
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ops_port)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            async with asyncio.timeout(LIMIT):
                return await reader.read()
        finally:
            writer.close()

    async def metrics(self) -> dict[str, float]:
        """Every sample that a scrape sees, by its name with its labels."""
        lines = (await self.ask_operations("/metrics")).partition(b"\r\n\r\n")[2].decode().splitlines()
        samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}

    def client(self, tls: ssl.SSLContext | None = None) -> ApiServer:
        """An API server that calls it alone."""
        return ApiServer(lambda: [self.port], tls)

    async def until_ready(self) -> float:
        """Wait until it is ready; return how long that took."""

        async def is_ready() -> bool:
            assert self._running().poll() is None, self.log.read_text()
            return await self.ready()

        return await until(is_ready, limit=START_LIMIT)

    @property
    def pid(self) -> int:
        """Return the process id of the running process."""
        return self._running().pid

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._running().send_signal(number)

    async def wait_for_end(self) -> int:
        """Wait until it has ended; return the exit status."""
        process = self._running()
        await until(lambda: process.poll() is not None)
        return process.returncode

    def kill(self) -> None:
        """End it, if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def _running(self) -> subprocess.Popen[bytes]:
        assert self.process is not None
        return self.process


def _environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": path}


@dataclass
class Service:
    """Knows which replicas are ready, a moment later than they say so, as a cluster does."""

    replicas: Sequence[Replica]
    known: list[int] = field(default_factory=list)

    async def follow(self, every: float = 0.1) -> None:
        """Look, again and again."""
        while True:
            self.known = [replica.port for replica in self.replicas if await replica.ready()]
            await asyncio.sleep(every)

    def ready(self) -> Sequence[int]:
        """The ports of those that are ready, as far as is known."""
        if not self.known:
            raise ConnectionRefusedError("no replica is ready")
        return self.known


async def restarted(replica: Replica, service: Service) -> None:
    """Roll one replica: ended by SIGTERM, started again, ready.

    The shutdown delay ends, by a second signal, once the Service has learned of it: so no time has to be guessed.
    """
    replica.signal(signal.SIGTERM)
    await until(lambda: replica.port not in service.known)
    # A client that chose the replica before that has connected by now.
    await asyncio.sleep(LOOK)
    replica.signal(signal.SIGTERM)
    assert await replica.wait_for_end() == 0, replica.log.read_text()
    replica.start()
    await replica.until_ready()


def resident(pid: int) -> float:
    """Return the resident memory of a process, in MiB."""
    return memory(pid, "VmRSS") / 1024


def memory(pid: int, field: str) -> int:
    """Return a field of /proc/PID/status in KiB, such as VmRSS or VmHWM."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def memory_with_children(pid: int) -> int:
    """Return the memory of a process and its children in KiB, in which shared pages count once (Linux, /proc)."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    lines = [
        line for process in (pid, *children) for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    ]
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def waits(pid: int) -> int:
    """Return how often the threads of a process have waited for something (Linux, /proc)."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    lines = (line for task in tasks for line in (task / "status").read_text().splitlines())
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches:"))


def processor_time(pid: int) -> float:
    """Return the seconds of processor time that a process has used (Linux, /proc)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def trusting(certificate: Path) -> ssl.SSLContext:
    """A client's context that trusts the certificate alone."""
    return ssl.create_default_context(cafile=str(certificate))


@dataclass
class Stage:
    """A folder, a certificate, and every replica that was started."""

    folder: Path
    certificate: Path
    key: Path
    restarts: int = 0
    seconds: float | None = None
    started: list[Replica] = field(default_factory=list)

    async def replica(self, *flags: str, tls: bool = False, program: Sequence[str] = ("-m", "injector")) -> Replica:
        """A replica that is ready."""
        pair = ("--tlsCertFile", str(self.certificate), "--tlsKeyFile", str(self.key))
        options = (*(pair if tls else ("--insecure-http",)), "--log-decisions", "none", *flags)
        replica = Replica(self.folder / f"{len(self.started)}.log", options, program)
        self.started.append(replica)
        replica.start()
        await replica.until_ready()
        return replica

    def lasts(self, seconds: float) -> float:
        """How long a load lasts: what was asked for, else the test's own time."""
        return self.seconds or seconds

    def end(self) -> None:
        """End all that still runs."""
        for replica in self.started:
            replica.kill()

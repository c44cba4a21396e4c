"""Runs the blocks of a page as a reader does: one after the other, in one folder, with a server that stays while the page goes on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.architecture.documents import ROOT, Block, prints
from tests.architecture.serving import STOP_LIMIT, check, free_ports, post, wait_until_ready
from tests.factories import make_review

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVES: Final = "injector serve"
WEBHOOK: Final = "127.0.0.1:9443"
OPERATIONS: Final = "127.0.0.1:8080"
PORTS: Final = {"INJECTOR_WEBHOOK_PORT": WEBHOOK, "INJECTOR_OPS_PORT": OPERATIONS}
"""The variables of a server's ports, and how pages write its addresses; a test has other ports."""
GIVEN: Final = ("docs", "deploy", "revisions")
"""The project's folders that pages name."""
LIMIT: Final = 60.0
"""Seconds for one block, and until what a page says is to be seen must be."""
PAUSE: Final = 0.2


@dataclass
class Reader:
    """Somebody who follows a page in ``folder``, with further ``commands`` and variables."""

    folder: Path
    commands: list[Path] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    addresses: dict[str, str] = field(init=False)
    """What stands for an address of the page: another port, of a server that this starts or of another one."""

    def __post_init__(self) -> None:
        for name in GIVEN:
            shutil.copytree(ROOT / name, self.folder / name)
        ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
        self.addresses = {address: f"127.0.0.1:{ports[name]}" for name, address in PORTS.items()}
        self._started = {**ports, "INJECTOR_SHUTDOWN_DELAY": "0"}
        path = ":".join(map(str, [Path(sys.executable).parent, *self.commands, os.environ["PATH"]]))
        self.env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **self.env}

    @contextmanager
    def follows(self, page: list[Block]) -> Iterator[None]:
        """Do what a page says; what it starts runs as long as this does."""
        servers: list[subprocess.Popen[bytes]] = []
        try:
            for block in page:
                if block.text.startswith(SERVES):
                    self._end(servers)
                    servers.append(self._serve(block))
                else:
                    self.does(block)
            yield
        finally:
            self._end(servers)

    def does(self, block: Block) -> None:
        """Run one block; it ends and prints as the page says, at once or, where others have to act first, in time."""
        deadline = time.monotonic() + LIMIT
        while True:
            done = self._run(block)
            printed = done.stdout + (done.stderr if block.exit_status else "")
            fits = done.returncode == block.exit_status and (block.printed is None or prints(block.printed, printed))
            if fits or not block.waits or time.monotonic() > deadline:
                break
            time.sleep(PAUSE)
        assert done.returncode == block.exit_status, f"{block}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert block.exit_status or block.runs_on_a_cluster or not done.stderr, f"{block}: {done.stderr}"
        assert fits, f"{block} says:\n{block.printed}\nbut this was printed:\n{printed}"

    def _run(self, block: Block) -> subprocess.CompletedProcess[str]:
        interpreter = ["python", "-c"] if block.language == "python" else ["bash", "-euo", "pipefail", "-c"]
        return subprocess.run(
            [*interpreter, self._text(block)],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
        )

    def _serve(self, block: Block) -> subprocess.Popen[bytes]:
        """Start a server, which injects a pod: the page goes on beside it."""
        log = self.folder / "log"
        with log.open("w") as written:
            env = {**self.env, **self._started}
            # exec, so that the signal reaches the server and not its shell.
            process = subprocess.Popen(
                ["bash", "-euc", f"exec {self._text(block)}"], cwd=self.folder, env=env, stdout=written, stderr=written
            )
        webhook, operations = (f"http://{self.addresses[address]}" for address in PORTS.values())
        try:
            assert wait_until_ready(f"{operations}/readyz", process), log.read_text()
            check(post(f"{webhook}/inject", make_review())["response"])
        except BaseException:
            process.kill()
            process.wait()
            raise
        return process

    def _end(self, servers: list[subprocess.Popen[bytes]]) -> None:
        """End what runs: a server that is told to ends with 0."""
        while servers:
            process = servers.pop()
            process.send_signal(signal.SIGTERM)
            try:
                assert process.wait(STOP_LIMIT) == 0, (self.folder / "log").read_text()
            finally:
                process.kill()

    def _text(self, block: Block) -> str:
        text = block.text
        for written, used in self.addresses.items():
            text = text.replace(written, used)
        return text

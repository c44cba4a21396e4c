"""Runs the blocks of a page in order, in one folder. A server keeps running while the following blocks run."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.architecture.documents import ROOT, Block, prints
from tests.architecture.serving import STOP_LIMIT, check, free_ports, post, wait_until_ready
from tests.factories import make_review

SERVES: Final = "injector serve"
WEBHOOK: Final = "127.0.0.1:9443"
OPERATIONS: Final = "127.0.0.1:8080"
PORTS: Final = {"INJECTOR_WEBHOOK_PORT": WEBHOOK, "INJECTOR_OPS_PORT": OPERATIONS}
"""The variables of the server's ports, and the addresses that stand for them in pages. Tests use other ports."""
FOLDERS: Final = ("docs", "deploy", "revisions")
"""The folders of the project that pages use."""
LIMIT: Final = 180.0
"""Maximum seconds for one block, and for waiting until it prints the expected output."""
PAUSE: Final = 0.2


@dataclass
class Reader:
    """Follows a page in ``folder``, with additional folders of ``commands``, which servers do not use, and environment variables."""

    folder: Path
    commands: list[Path] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    addresses: dict[str, str] = field(init=False)
    """The actual address for each address in the page."""

    def __post_init__(self) -> None:
        for name in FOLDERS:
            shutil.copytree(ROOT / name, self.folder / name)
        ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
        self.addresses = {address: f"127.0.0.1:{ports[name]}" for name, address in PORTS.items()}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._started = {**ports, "INJECTOR_SHUTDOWN_DELAY": "0", "PATH": path}
        path = ":".join(map(str, [*self.commands, path]))
        self.env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **self.env}

    def changed_files(self) -> list[str]:
        """Return the files of the project that the page has changed or deleted."""
        originals = (file for name in FOLDERS for file in (ROOT / name).rglob("*") if file.is_file())
        copies = ((file, self.folder / file.relative_to(ROOT)) for file in originals)
        return [
            str(file.relative_to(ROOT))
            for file, copy in copies
            if not copy.is_file() or copy.read_bytes() != file.read_bytes()
        ]

    def new_files(self) -> list[str]:
        """Return the files that the page has created."""
        files = (file.relative_to(self.folder) for file in self.folder.rglob("*") if file.is_file())
        return [str(file) for file in files if not (ROOT / file).exists() and file != Path("log")]

    @contextmanager
    def follows(self, page: list[Block]) -> Iterator[None]:
        """Run the blocks of a page. Servers that it starts run until the context ends."""
        servers: list[subprocess.Popen[bytes]] = []
        try:
            for block in page:
                if block.text.startswith(SERVES):
                    self._end(servers)
                    servers.append(self._serve(block))
                else:
                    self.run(block)
            yield
        finally:
            self._end(servers)

    def run(self, block: Block) -> None:
        """Run one block and check its exit status and output. A block that waits is repeated until both are as expected."""
        deadline = time.monotonic() + LIMIT
        while True:
            done = self._run(block)
            printed = done.stdout + (done.stderr if block.exit_status else "")
            fits = done.returncode == block.exit_status and (block.printed is None or prints(block.printed, printed))
            if fits or not block.waits or time.monotonic() > deadline:
                break
            time.sleep(PAUSE)
        assert done.returncode == block.exit_status, f"{block}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        said = re.sub(r"(?m)^wrote .*\n", "", done.stderr)
        assert block.exit_status or block.runs_on_a_cluster or not said, f"{block}: {done.stderr}"
        assert fits, f"{block}: expected output:\n{block.printed}\nactual output:\n{printed}"

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
        """Start a server and check that it injects a pod."""
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
        """Stop the servers and check that they end with exit status 0."""
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

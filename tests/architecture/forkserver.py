"""A command ``injector`` that runs in a copy of one process. A process of its own would take 0.4 s of CPU time to load its modules.

The process that is copied has loaded the modules of all commands, the client of the API server and the embedded revisions. The copies share
the compiled templates.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from injector import load_revisions
from injector.cli import main
from injector.cli.commands import COMMANDS

ROOT: Final = Path(__file__).resolve().parents[2]
_CLIENT: Final = """#!{python} -IS
import json, os, socket, sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({address!r})
    socket.send_fds(server, [json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode()], [0, 1, 2])
    sys.exit(server.recv(1)[0])
"""
"""Sends its arguments, its folder, its environment and its files, and ends with the exit status that it receives."""
_MAX_REQUEST: Final = 1 << 17


@contextmanager
def forking(folder: Path) -> Iterator[Path]:
    """Run the process, and yield a folder with the command ``injector``. Both are gone when the context ends."""
    address, command = folder / "socket", folder / "injector"
    command.write_text(_CLIENT.format(python=sys.executable, address=str(address)))
    command.chmod(0o755)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(address))
        listener.listen()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.architecture.forkserver"], cwd=ROOT, stdin=listener.fileno()
        )
    try:
        yield folder
    finally:
        process.kill()
        process.wait()


def serve(listener: socket.socket) -> None:
    """Answer each client by a copy of this process."""
    for module in ("cluster.client", *(f"cli.{module}" for module, _ in COMMANDS.values())):
        importlib.import_module(f"injector.{module}")
    revisions = load_revisions(embedded=True)  # a template stays compiled while a revision uses it
    while revisions:
        connection, _ = listener.accept()
        with connection:
            if os.fork() == 0:
                _run(connection)
        while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG):
            pass


def _run(connection: socket.socket) -> None:
    """Run one command, and end this process."""
    status = 1
    try:
        request, files, _, _ = socket.recv_fds(connection, _MAX_REQUEST, 3)
        sys.argv, folder, environment = json.loads(request)
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        main(prog_name="injector")
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:  # noqa: BLE001 -- a copy must not return into the code of the process that it is made from
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        connection.send(bytes([status]))
        os._exit(status)


if __name__ == "__main__":
    serve(socket.socket(fileno=os.dup(0)))

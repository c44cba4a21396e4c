from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from injector.cli.hangups import Hangups

if TYPE_CHECKING:
    import pytest

LIMIT = 60.0
# Signals arrive from the moment that the command line is imported until the server serves, and after that.
COMMAND = """
import os, signal, sys, threading, time

def hang_up():
    while True:
        os.kill(os.getpid(), signal.SIGHUP)
        time.sleep(0.01)

sys.argv[1:] = ["serve", "--insecure-http", "--bind", "127.0.0.1", "--port", "0", "--ops-port", "0"]
import injector.cli.hangups
threading.Thread(target=hang_up, daemon=True).start()
from injector.cli import main
main(prog_name="injector")
"""


def test_a_reload_that_was_asked_for_early_is_done_once_it_can_be() -> None:
    hangups, reloads = Hangups(), []
    hangups(signal.SIGHUP, None)
    hangups(signal.SIGHUP, None)

    hangups.reload_by(lambda: reloads.append("early"))
    hangups(signal.SIGHUP, None)

    assert reloads == ["early", "early"]


def test_without_a_signal_nothing_is_reloaded() -> None:
    reloads: list[str] = []
    Hangups().reload_by(lambda: reloads.append("never"))

    assert reloads == []


def test_the_handler_of_the_process_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = []
    monkeypatch.setattr(signal, "signal", lambda number, handler: installed.append((number, handler)))
    hangups = Hangups()

    hangups.install()

    assert installed == [(signal.SIGHUP, hangups)]


def test_signals_at_any_moment_do_not_end_a_server() -> None:
    with subprocess.Popen([sys.executable, "-c", COMMAND], stderr=subprocess.PIPE, env=dict(os.environ)) as server:
        assert server.stderr is not None
        lines = []
        deadline = time.monotonic() + LIMIT
        for line in server.stderr:
            lines.append(line)
            if b"nothing changed" in line or time.monotonic() > deadline:
                break
        status = server.poll()
        server.kill()

    assert status is None, lines
    assert any(b"serving the webhook" in line for line in lines)

"""Targets that tests hold: these are run at the length that the targets are set for, and counted."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.reliability.long.rows import Row
from tests.reliability.replicas import ROOT, Stage

SECONDS = 60


@dataclass(frozen=True)
class Tested:
    """A target, and the tests that hold it: files below tests/, or single tests of them by a part of their name."""

    test: str
    target: str
    files: tuple[str, ...]
    names: str = ""


TARGETS = (
    Tested(
        f"T5 a certificate each 2 s, 500 rps, half new connections, {SECONDS} s",
        "0 failed handshakes, >= 28 serials",
        ("webhook/test_rotation.py",),
        "under_rotations",
    ),
    Tested(
        "T6 bad rotations",
        "0 failed handshakes, old certificate served, each counted, expiry right",
        ("webhook/test_rotation.py", "webhook/test_tls.py"),
        "bad",
    ),
    Tested(
        "T7 another CA; caBundle against an external writer each 100 ms",
        "0 failures, <= 1 patch/s, converged < 2 s",
        ("webhook/test_rotation.py", "webhook/test_cabundle.py", "webhook/test_ca.py"),
        "replaced or cabundle or test_ca",
    ),
    Tested(
        "T8 clock +30 d, -1 d; stopped over the renewal",
        "renewed < 60 s after",
        ("webhook/test_rotation.py", "webhook/test_selfsigned.py"),
        "stopped or clock",
    ),
    Tested(
        "T27 own namespace, own pods, dry run",
        "never matched; a dry run gets the same answer and leaves no trace",
        ("deploy/test_own_pods.py", "deploy/test_manifests.py", "webhook/test_handler.py"),
        "own or dry or no_webhook",
    ),
    Tested("T28 API servers by certificate", "4 refused, 1 ok, hot reload", ("webhook/test_tls_clients.py",)),
    Tested("T29 secrets through everything that goes wrong", "0 canaries found", ("webhook/test_secrets.py",)),
    Tested(
        "T30 status page, in a browser too",
        "CSP default-src 'none', 0 findings, GET only",
        ("webhook/test_status.py", "webhook/test_statuspage_chromium.py", "webhook/test_health.py"),
    ),
    Tested(
        "T34 64 replicas without a CA Secret, 409 storms, no permission",
        "one CA within 10 s, clear errors",
        ("webhook/test_rotation.py", "webhook/test_selfsigned.py"),
    ),
    Tested(
        "T35 locks, SBOM, image, wheel",
        "hashes, user nobody, read-only, no shell, two equal builds",
        ("deploy/test_image.py", "deploy/test_wheel.py", "deploy/test_manifests.py", "architecture/test_repository.py"),
    ),
)


async def tested(stage: Stage) -> Sequence[Row]:
    """A row for each target: how many tests there are, and that none failed or was skipped."""
    return [await _row(stage.folder, each) for each in TARGETS]


async def _row(folder: Path, target: Tested) -> Row:
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    python = os.environ.get("PYTHON", str(ROOT / ".venv" / "bin" / "python"))
    chosen = [f"tests/{name}" for name in target.files] + (["-k", target.names] if target.names else [])
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *chosen]
    begun = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env={**os.environ, "CHAOS_SECONDS": str(SECONDS)}, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    if not report.exists():
        print(out.decode(), file=sys.stderr)
        return Row(target.test, target.target, "the tests did not run: make .venv with scripts/test", met=False)
    found = _counts(report.read_text())
    if found["failures"] or found["errors"]:
        print(out.decode(), file=sys.stderr)
    good = found["tests"] - found["failures"] - found["errors"] - found["skipped"]
    figure = f"{good} of {found['tests']} tests passed in {time.monotonic() - begun:.0f} s"
    return Row(target.test, target.target, figure, met=0 < good == found["tests"])


def _counts(report: str) -> dict[str, int]:
    """The counts of a JUnit report of one suite, whose first tag has them."""
    return {name: int(count) for name, count in re.findall(r'\b(tests|failures|errors|skipped)="(\d+)"', report)}

"""Asks whether what is locked has known vulnerabilities, with pip-audit; says so where nobody could be asked.

Exit status 0 where none is known, 1 where some are, 69 where not every package could be asked about.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from bench.recording import ROOT
from bench.reliability import Row, keep, show

LOCK = "requirements.lock"
UNAVAILABLE = 69
"""EX_UNAVAILABLE of sysexits.h."""


@dataclass(frozen=True)
class Audit:
    """What came of it: how many packages there are, the vulnerabilities that are known, and who could not be asked about."""

    packages: int
    known: tuple[str, ...]
    unasked: tuple[str, ...]

    @property
    def status(self) -> int:
        """The exit status."""
        if self.known:
            return 1
        return UNAVAILABLE if self.unasked or not self.packages else 0

    @property
    def figure(self) -> str:
        """It in words."""
        if self.known:
            return f"{len(self.known)} known in {self.packages} packages: {', '.join(self.known)}"
        if not self.packages:
            return "not asked: pip-audit reaches nobody who knows"
        if self.unasked:
            return f"not asked: of {len(self.unasked)} of {self.packages} packages nothing can be learnt from here"
        return f"0 known in {self.packages} packages"


def audit_of(report: str) -> Audit:
    """Return what a report of pip-audit (``--format json``) comes to; an empty one is that of an audit that failed."""
    found: list[dict[str, Any]] = json.loads(report)["dependencies"] if report.strip() else []
    known = [f"{each['name']} {each['version']} {fault['id']}" for each in found for fault in each.get("vulns", ())]
    return Audit(len(found), tuple(known), tuple(each["name"] for each in found if "skip_reason" in each))


def main() -> int:
    """Audit the lock file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="keep the row for docs/reliability.md")
    options = parser.parse_args()
    # Every package is locked with its hashes, so nothing needs to be resolved or installed.
    how = ["--require-hashes", "--disable-pip", "--progress-spinner", "off", "--format", "json"]
    command = [sys.executable, "-m", "pip_audit", *how, "--requirement", LOCK]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    audit = audit_of(run.stdout)
    if not audit.packages:
        print(run.stderr, file=sys.stderr)
    rows = [Row("T35 pip-audit of requirements.lock", "0 known vulnerabilities", audit.figure, audit.status == 0)]
    show(rows)
    if options.record:
        keep(rows, "scripts/audit --record")
    return audit.status


if __name__ == "__main__":
    sys.exit(main())

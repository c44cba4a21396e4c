"""Asks whether what is locked has known vulnerabilities, with pip-audit; says so where nobody could be asked.

There a file can be asked: ``--against`` takes a list of insecure versions as Safety publishes it (https://github.com/pyupio/safety-db,
data/insecure.json), which knows what was known on its day.

Exit status 0 where none is known, 1 where some are, 69 where not every package could be asked about.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests.reliability.long.rows import ROOT, Row, keep, show

LOCK = "requirements.lock"
UNAVAILABLE = 69
"""EX_UNAVAILABLE of sysexits.h."""
_LOCKED: Final = re.compile(r"(?m)^([A-Za-z0-9_.-]+)==([^ ;\\]+)")


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
    packages: list[dict[str, Any]] = json.loads(report)["dependencies"] if report.strip() else []
    known = [
        f"{package['name']} {package['version']} {fault['id']}"
        for package in packages
        for fault in package.get("vulns", ())
    ]
    return Audit(
        len(packages), tuple(known), tuple(package["name"] for package in packages if "skip_reason" in package)
    )


def listed(lock: str, insecure: dict[str, Any]) -> tuple[Audit, Row]:
    """Return what a list of insecure versions, names with their specifiers, says of a lock file."""
    day = datetime.fromtimestamp(insecure["$meta"]["timestamp"], UTC).date()
    specifiers = {canonicalize_name(name): ranges for name, ranges in insecure.items() if name != "$meta"}
    locked = [(canonicalize_name(name), version) for name, version in _LOCKED.findall(lock)]
    known = tuple(
        f"{name} {version} {specifier}"
        for name, version in locked
        for specifier in specifiers.get(name, ())
        if SpecifierSet(specifier).contains(version, prereleases=True)
    )
    audit = Audit(len(locked), known, ())
    named = sum(name in specifiers for name, _ in locked)
    figure = f"{audit.figure}, {named} of which the list names"
    return audit, Row(f"T35 {LOCK} against a list of {day}", "0 known vulnerabilities", figure, audit.status == 0)


def main() -> int:
    """Audit the lock file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="keep the row for docs/reliability.md")
    parser.add_argument("--against", type=Path, metavar="FILE", help="ask this list of insecure versions instead")
    options = parser.parse_args()
    if options.against is not None:
        try:
            audit, row = listed((ROOT / LOCK).read_text(), json.loads(options.against.read_text()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            parser.error(f"{options.against}: no list of insecure versions: {error}")
        show([row])
        if options.record:
            keep([row], f"scripts/audit --record --against {options.against.name}")
        return audit.status
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

"""What must not lose an admission, at length: restarts, shutdowns, mass starts, idle connections, hostile names.

Loopback only, under ten minutes. Where Go is installed the client is Go's own net/http, as in the API server; else the
one of tests/reliability, which keeps the same rules. ``tests/reliability`` has the short versions.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.chaos.names import hostile_names
from bench.chaos.processes import kept_connections, killed, mass_start, rolling_restart, terminated
from bench.chaos.table import Stage, show
from bench.recording import record
from tests.webhook.certificates import write_certificate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from bench.chaos.table import Row

LIMIT = 600.0
TESTS: dict[str, Callable[[Stage], Awaitable[Sequence[Row]]]] = {
    "restart": rolling_restart,
    "sigterm": terminated,
    "sigkill": killed,
    "mass": mass_start,
    "idle": kept_connections,
    "names": hostile_names,
}


def main() -> int:
    """Run the tests; the exit status tells whether all targets are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=TESTS, action="append", help="run this one; repeatable")
    parser.add_argument("--restarts", type=int, default=20, help="how many restarts the rolling one has")
    parser.add_argument("--record", action="store_true", help="append the figures to bench/results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = write_certificate(Path(folder))
        stage = Stage(Path(folder), certificate, key, options.restarts)
        rows = asyncio.run(played(stage, options.only or list(TESTS)))
    show(rows)
    if options.record:
        record("chaos", {row.test: {"figure": row.figure, "met": row.met} for row in rows})
    return 0 if all(row.met for row in rows) else 1


async def played(stage: Stage, names: list[str]) -> list[Row]:
    """The rows of the tests, one after the other; nothing is left running."""
    rows: list[Row] = []
    async with asyncio.timeout(LIMIT):
        for name in names:
            begun = time.monotonic()
            try:
                rows += await TESTS[name](stage)
            finally:
                stage.end()
            print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
    return rows


if __name__ == "__main__":
    sys.exit(main())

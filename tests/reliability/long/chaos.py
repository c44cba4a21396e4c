"""What must not lose an admission, at length: restarts, shutdowns, mass starts, idle connections, hostile input.

Loopback only, a few minutes each. ``restart`` and ``mass`` need Go, since their client is Go's own net/http, as in the API server; that of
the others keeps the same rules. ``tests/reliability`` has the short versions.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from tests.reliability.handshakes import failed_handshakes
from tests.reliability.hostilebodies import hostile_bodies, hostile_names, hostile_values
from tests.reliability.long.bombs import bombs
from tests.reliability.long.rows import Row, finish, parser
from tests.reliability.outage import crowded_cluster, faulty_api
from tests.reliability.profile import steady_load
from tests.reliability.replicas import Stage
from tests.reliability.shutdown import kept_connections, killed, mass_start, rolling_restart, terminated
from tests.reliability.slowpeers import slow_peers
from tests.reliability.soak import mutated_reviews
from tests.reliability.storm import broken_config, swapped_config
from tests.reliability.tenants import hostile_revision, long_lists
from tests.webhook.certificates import write_certificate

LIMIT = 3600.0
TESTS: dict[str, Callable[[Stage], Awaitable[Sequence[Row]]]] = {
    "restart": rolling_restart,
    "sigterm": terminated,
    "sigkill": killed,
    "mass": mass_start,
    "idle": kept_connections,
    "names": hostile_names,
    "config": broken_config,
    "swaps": swapped_config,
    "watch": faulty_api,
    "crowd": crowded_cluster,
    "hostile": hostile_revision,
    "tenant": long_lists,
    "slow": slow_peers,
    "handshakes": failed_handshakes,
    "steady": steady_load,
    "bodies": hostile_bodies,
    "json": hostile_values,
    "soak": mutated_reviews,
    "bombs": bombs,
}


def main() -> int:
    """Run the tests; the exit status tells whether all targets are met."""
    options_of = parser(__doc__)
    options_of.add_argument("--only", choices=TESTS, action="append", help="run this one; repeatable")
    options_of.add_argument("--restarts", type=int, default=20, help="how many restarts the rolling one has")
    options_of.add_argument("--seconds", type=float, help="how long a load lasts, where it is not the test's own time")
    options = options_of.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = write_certificate(Path(folder))
        stage = Stage(Path(folder), certificate, key, options.restarts, options.seconds)
        runs = asyncio.run(played(stage, options.only or list(TESTS)))
    commands = {f"scripts/reliability chaos --only {name}": run for name, run in runs.items()}
    return finish(commands, record=options.record)


async def played(stage: Stage, names: list[str]) -> dict[str, Sequence[Row]]:
    """The rows of the tests, one test after the other; nothing is left running."""
    runs: dict[str, Sequence[Row]] = {}
    for name in names:
        begun = time.monotonic()
        try:
            async with asyncio.timeout(LIMIT):
                runs[name] = await TESTS[name](stage)
        finally:
            stage.end()
        print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
    return runs


if __name__ == "__main__":
    sys.exit(main())

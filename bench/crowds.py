"""The whole request with many revisions loaded, and over TLS with many connections: what either takes of the rate.

One core serves, another one posts, as in ``load``. Loopback only, under two minutes. Needs ``wrk`` and ``../shared/bench``.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.load import SERVER_CORE, posted
from bench.recording import SHARED, record, show
from bench.serving import revisions_folder, served
from tests.webhook.certificates import write_certificate

REVISIONS = (1, 10, 100, 1)
"""The first once more at the end: what differs there is the machine's own noise."""

CONNECTIONS = 200


def main() -> int:
    """Measure each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=6, help="how long each load lasts")
    parser.add_argument("--record", action="store_true", help="append the figures to bench/results")
    options = parser.parse_args()
    if shutil.which("wrk") is None or not (SHARED / "bench").is_dir():
        print("skipped: the load needs wrk and ../shared/bench")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, SHARED / "bench" / "gen_reviews.py", "4000"], cwd=folder, check=True)
        rows = {**by_revisions(folder, options.seconds), **over_tls(folder, options.seconds)}
    show("crowds", rows)
    if options.record:
        record("crowds", {"seconds": options.seconds, **rows})
    return 0


def by_revisions(folder: Path, seconds: int) -> dict[str, dict[str, float]]:
    """The rates with so many revisions loaded; ``ratio`` is that to the better of those with one."""
    rows: dict[str, dict[str, float]] = {}
    for count in REVISIONS:
        with served(revisions_folder(folder, count), "--insecure-http", core=SERVER_CORE) as server:
            name = f"{count} revisions" if f"{count} revisions" not in rows else f"{count} revisions, again"
            rows[name] = posted(f"http://127.0.0.1:{server.port}/inject/r0", folder / "replicas.jsonl", seconds)
    one = max(row["rps"] for name, row in rows.items() if name.startswith("1 "))
    return {name: {**row, "ratio": round(row["rps"] / one, 4)} for name, row in rows.items()}


def over_tls(folder: Path, seconds: int) -> dict[str, dict[str, float]]:
    """The rates over TLS, whose handshakes are done once for each connection."""
    certificate, key = write_certificate(folder)
    flags = ["--tlsCertFile", str(certificate), "--tlsKeyFile", str(key)]
    rows: dict[str, dict[str, float]] = {}
    with served(revisions_folder(folder, 1), *flags, core=SERVER_CORE) as server:
        url = f"https://127.0.0.1:{server.port}/inject/r0"
        for load in ("replicas", "unique"):
            row = posted(url, folder / f"{load}.jsonl", seconds, connections=CONNECTIONS)
            rows[f"TLS, {CONNECTIONS} connections, {load}"] = row
    return rows


if __name__ == "__main__":
    sys.exit(main())

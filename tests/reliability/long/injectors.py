"""Istio's own webhooks 1.8, 1.12, 1.26 and 1.30 beside ours: the recorded cases are asked again.

Needs Go, git and Istio's repository. The first build of a release takes up to a quarter of an hour.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.differential.injectors import RELEASES, SOURCE, built, record


def main() -> int:
    """Run the tests; the exit status tells whether all targets are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="keep Istio's sources and the built programs here")
    parser.add_argument("--source", default=SOURCE, help="Istio's repository (default: %(default)s)")
    parser.add_argument("--record-cases", action="store_true", help="write recorded/injectors.jsonl again")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    programs = {minor: built(minor, options.work.resolve(), options.source) for minor in RELEASES}
    if options.record_cases:
        record(programs)
    return 0


if __name__ == "__main__":
    sys.exit(main())

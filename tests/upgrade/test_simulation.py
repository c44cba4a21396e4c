"""Random upgrades whose runners see an old cluster, die, and act late; ``tests/upgrade/simulation.py`` describes the rules."""

from __future__ import annotations

import os
from collections import Counter
from typing import Final

from tests.upgrade.simulation import simulate

RUNS: Final = int(os.environ.get("UPGRADE_RUNS", "150"))


def test_random_upgrades_restart_nothing_twice_and_keep_the_limits() -> None:
    counts = sum((simulate(seed) for seed in range(RUNS)), Counter[str]())

    kinds = "Completed", "RolledBack", "Incomplete", "rollback", "promote", "conflicts", "died before acting"
    for what in (
        *kinds,
        "approval",
        "skip",
        "restarts of retries",
        "restarts of gateways",
        "commands after the end",
        "owner changes",
    ):
        assert counts[what] > 0, f"no run had {what}"

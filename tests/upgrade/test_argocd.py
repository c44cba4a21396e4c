"""The health check of docs/gitops.md in Lua, as Argo CD runs it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from injector.upgrade.state import (
    ABORTED,
    BY_USER,
    COMPLETED,
    INCOMPLETE,
    PAUSED,
    ROLLED_BACK,
    ROLLING_BACK,
    RUNNING,
    WAITING_FOR_APPROVAL,
    State,
)
from injector.upgrade.status import Heartbeat, status_of
from tests.architecture.documents import blocks
from tests.upgrade.fleets import DOCUMENT, upgrade

GITOPS = Path(__file__).parents[2] / "docs" / "gitops.md"


def lua(value: Any) -> str:
    """Write JSON data as a literal of Lua."""
    match value:
        case dict():
            return "{{{}}}".format(", ".join(f"[{lua(key)}] = {lua(item)}" for key, item in value.items()))
        case list() | tuple():
            return "{{{}}}".format(", ".join(map(lua, value)))
        case bool() | None:
            return {True: "true", False: "false", None: "nil"}[value]
        case int() | float():
            return str(value)
        case _:
            return '"{}"'.format(str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))


def health(obj: dict[str, Any]) -> str:
    (page,) = (block for block in blocks(GITOPS) if block.mark == "argocd")
    (check,) = yaml.safe_load(page.text).values()
    script = f"local obj = {lua(obj)}\nlocal function check()\n{check}\nend\nprint(check().status)\n"
    done = subprocess.run(["lua", "-"], input=script, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.needs("lua")
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State(phase=RUNNING, reason='a "quoted" reason'), "Progressing"),
        (State(phase=ROLLING_BACK, back=True), "Progressing"),
        (State(phase=PAUSED, cause=BY_USER), "Suspended"),
        (State(phase=RUNNING, cause=WAITING_FOR_APPROVAL), "Suspended"),
        (State(phase=PAUSED, cause="GateFailed"), "Degraded"),
        (State(phase=COMPLETED), "Healthy"),
        (State(phase=INCOMPLETE), "Degraded"),
        (State(phase=ABORTED), "Degraded"),
        (State(phase=ROLLED_BACK, back=True), "Degraded"),
    ],
)
def test_argo_cd_shows_the_health_of_an_upgrade(state: State, expected: str) -> None:
    status = status_of(upgrade(), state, Heartbeat("runner", 1000.0), {}, now=1000.0, generation=2)

    assert health({**DOCUMENT, "metadata": {"name": "up", "generation": 2}, "status": status}) == expected
    assert health({**DOCUMENT, "metadata": {"name": "up", "generation": 3}, "status": status}) == "Progressing"


@pytest.mark.needs("lua")
@pytest.mark.parametrize("status", [None, {"observedGeneration": -1}])
def test_argo_cd_waits_for_an_upgrade_that_no_runner_has_seen(status: dict[str, Any] | None) -> None:
    assert health({**DOCUMENT, "metadata": {"name": "up", "generation": 1}, "status": status}) == "Progressing"

"""Istio's own templates, read from a clone of Istio. Nothing of them is copied here."""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = os.environ.get("ISTIO_REPOSITORY", "")
"""The .git folder of a clone of Istio, or a bare one."""
CHART = "manifests/charts/istio-control/istio-discovery"
REPAIR = "e906d00469781be17c0fb77a49a98779a018e73f"
"""Istio's pull request 61215, which quotes annotations in the templates."""
RELEASE = "release-1.31"
TEMPLATES = (
    *("injection-template", "gateway-injection-template", "grpc-agent", "grpc-simple"),
    *("kube-gateway", "waypoint", "agentgateway", "agentgateway-waypoint"),
)


@cache
def absent() -> str:
    """Return why there are no templates of Istio; empty if there are."""
    if not REPOSITORY or not Path(REPOSITORY).is_dir():
        return "ISTIO_REPOSITORY names no clone of Istio"
    known = all(_git("cat-file", "-e", f"{commit}^{{commit}}").returncode == 0 for commit in (REPAIR, RELEASE))
    return "" if known else f"the clone of Istio has no commit {REPAIR[:7]} or no branch {RELEASE}"


def _git(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "--git-dir", REPOSITORY, *args], capture_output=True, text=True, check=False)


def text(commit: str, path: str) -> str:
    """Return a file of the chart."""
    found = _git("show", f"{commit}:{CHART}/{path}")
    assert found.returncode == 0, found.stderr
    return found.stdout


def template(commit: str, name: str) -> str:
    """Return a template by the name of its file."""
    return text(commit, f"files/{name}.yaml")


def values(commit: str) -> dict[str, Any]:
    """Return the values that the chart writes into the ConfigMap of the injector."""
    tree = yaml.safe_load(text(commit, "values.yaml"))
    own = tree.get("_internal_defaults_do_not_set", tree)
    picked = {name: own[name] for name in ("global", "sidecarInjectorWebhook", "revision") if name in own}
    gateways = {name: own["gateways"].get(name) for name in ("securityContext", "seccompProfile")}
    return {**picked, "pilot": {"cni": own.get("cni") or {}, "env": own.get("env") or {}}, "gateways": gateways}


def repaired_lines() -> tuple[set[tuple[str, int]], set[tuple[str, int]]]:
    """Return the lines of the templates that the repair took away, and those that it added, by template and number."""
    diff = _git("diff", "-U0", f"{REPAIR}^", REPAIR, "--", f"{CHART}/files").stdout
    removed, added, name, old, new = set(), set(), "", 0, 0
    for line in diff.splitlines():
        if line.startswith("+++ "):
            name = Path(line).stem
        elif head := re.match(r"@@ -(\d+)(?:,\d+)? \+(\d+)", line):
            old, new = int(head[1]), int(head[2])
        elif line.startswith("-") and not line.startswith("---"):
            removed.add((name, old))
            old += 1
        elif line.startswith("+"):
            added.add((name, new))
            new += 1
    return removed, added

"""Programs that some tests need: ``@pytest.mark.needs("helm")`` skips a test, with what to install, if the program is missing.

``pytest -m needs`` runs the tests that need something. A skip for a reason that is not listed here fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROMETHEUS = os.environ.get("PROMETHEUS", "prometheus")
PROMTOOL = str(Path(PROMETHEUS).with_name("promtool"))
MODULES = Path(os.environ.get("GOMODCACHE") or Path(os.environ.get("GOPATH") or "~/go").expanduser() / "pkg" / "mod")
POD_SECURITY = "k8s.io/pod-security-admission@v0.35.4"
POD_SECURITY_FIXTURES = MODULES / POD_SECURITY / "test" / "testdata"
CORPUS = ROOT.parent / "shared" / "corpus"
NEW_CORPUS = CORPUS.with_name("corpus-new")


@dataclass(frozen=True)
class Need:
    """Something that tests need: a check, the reason of the skip, and what to do."""

    is_there: Callable[[], bool]
    reason: str


def _installed(program: str) -> Callable[[], bool]:
    return lambda: shutil.which(program) is not None


def _runs(script: str) -> Callable[[], bool]:
    """Return whether a script of the project finds its program, or builds it."""
    command = [str(ROOT / "scripts" / script), "version"]
    return cache(lambda: subprocess.run(command, capture_output=True, check=False).returncode == 0)


NEEDS = {
    "bash": Need(_installed("bash"), "bash is not installed"),
    "chromium": Need(_installed("chromium"), "Chromium is not installed; install the Debian package chromium"),
    "corpus": Need(CORPUS.is_dir, "Istio's own cases are not in ../shared/corpus"),
    "corpus-new": Need(NEW_CORPUS.is_dir, "Istio's own cases of further minors are not in ../shared/corpus-new"),
    "go": Need(_installed("go"), "Go is not installed, and its recorded answers were used; install Go 1.26 or later"),
    "helm": Need(_runs("helm"), "Helm is not installed, and its recorded renderings were used; install Helm or Go"),
    "kubectl": Need(
        _installed("kubectl"), "kubectl is not installed; install it, see https://kubernetes.io/docs/tasks/tools"
    ),
    "kustomize": Need(_runs("kustomize-cli"), "kustomize is not installed; install kustomize or Go"),
    "linux": Need(lambda: sys.platform == "linux", "the system is not Linux"),
    "lua": Need(_installed("lua"), "Lua is not installed; install the Debian package lua5.4"),
    "openssl": Need(_installed("openssl"), "openssl is not installed"),
    "pod-security-admission": Need(
        POD_SECURITY_FIXTURES.is_dir,
        f"the fixtures of Kubernetes are not in Go's module cache; run go mod download {POD_SECURITY}",
    ),
    "prometheus": Need(
        _installed(PROMETHEUS),
        "Prometheus is not installed; install the Debian package prometheus, or name its program in PROMETHEUS",
    ),
    "promtool": Need(_installed(PROMTOOL), "promtool is not installed; install the Debian package prometheus"),
}
OTHERS = (
    "kubectl is not installed: the rest of the page was followed",
    "Go's modules cannot be downloaded",
    "Helm is not the version of the recorded renderings",
    "the project is not a git checkout",
    "Prometheus is not installed",
    "../shared/corpus is not beside the project",
    # End-to-end tests.
    "the cluster of these tests needs ",
    "port 443 cannot be listened on",
    "it takes ten minutes: set E2E_LONG=1",
    "the API server takes ten seconds longer to end: set E2E_LONG=1",
)
"""The beginnings of the reasons that tests find out while they run."""


def missing(name: str) -> str:
    """Return why a need is not met; empty if it is."""
    return "" if NEEDS[name].is_there() else NEEDS[name].reason


def is_listed(reason: str) -> bool:
    """Whether a test may be skipped for this reason."""
    return reason in {need.reason for need in NEEDS.values()} or reason.startswith(OTHERS)

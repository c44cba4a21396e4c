"""A real API server for tests: kubelab, which lies beside the project, with ports, data and certificates of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.architecture.serving import free_ports

SCRIPTS = Path(__file__).resolve().parents[3] / "shared" / "kubelab"
BUILT = Path(os.environ.get("KUBELAB", "~/.cache/kubelab")).expanduser() / "bin"
BUILD = "KUBELAB_BUILD"
"""The environment variable that lets a test build what is missing, which takes ten minutes."""
BINARIES = ("etcd", "kubelab", "kubectl")


def missing() -> str:
    """Why there is no API server to test with; empty where there is one."""
    if not (SCRIPTS / "start.sh").exists():
        return "kubelab is not beside the project: ../shared/kubelab"
    if (BUILT / "version").exists() and all((BUILT / name).exists() for name in BINARIES):
        return ""
    if shutil.which("go") is None:
        return "kubelab is not built, and Go is not installed"
    if not os.environ.get(BUILD):
        return f"kubelab is not built: run {SCRIPTS / 'build.sh'}, or set {BUILD}=1"
    subprocess.run([str(SCRIPTS / "build.sh")], check=True)
    return ""


class Lab:
    """One API server; what it holds is kept while it is down."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.kubeconfig = home / "admin.kubeconfig"
        names = ("API_PORT", "ETCD_PORT", "ETCD_PEER_PORT", "KCM_PORT")
        ports = dict(zip(names, map(str, free_ports(4)), strict=True))
        self._env = {**os.environ, "KUBELAB": str(home), "NO_KCM": "1", "KEEP": "1", **ports}
        (home / "bin").mkdir(parents=True)
        for name in BINARIES:
            _same_file(BUILT / name, home / "bin" / name)

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self._run(str(SCRIPTS / "start.sh"))

    def stop(self) -> None:
        """End it."""
        self._run(str(SCRIPTS / "stop.sh"))

    def end(self) -> None:
        """End it for good; nothing of it is left, least of all its keys."""
        self.stop()
        shutil.rmtree(self.home)

    def apply(self, *manifests: dict[str, Any]) -> None:
        """Create objects, or change them."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)})
        self._kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=text)

    def tried(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """What the API server would make of an object; it keeps nothing of it."""
        arguments = ("create", "--dry-run=server", "-o", "json", "-f", "-")
        found: dict[str, Any] = json.loads(self._kubectl(*arguments, given=json.dumps(manifest)))
        return found

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        """Delete one object."""
        self._kubectl("delete", kind, name, "-n", namespace, "--wait=false")

    def apply_file(self, path: Path) -> None:
        """Create the objects of a file."""
        self._kubectl("apply", "-f", str(path))

    def kubeconfig_of(self, account: str, namespace: str) -> Path:
        """A kubeconfig with a token of a service account."""
        admin = yaml.safe_load(self.kubeconfig.read_text())
        token = self._kubectl("create", "token", account, "-n", namespace).strip()
        path = self.home / f"{account}.kubeconfig"
        path.write_text(json.dumps({**admin, "users": [{"name": "admin", "user": {"token": token}}]}))
        return path

    def _kubectl(self, *arguments: str, given: str | None = None) -> str:
        kubectl = str(self.home / "bin" / "kubectl")
        return self._run(kubectl, f"--kubeconfig={self.kubeconfig}", *arguments, given=given)

    def _run(self, *command: str, given: str | None = None) -> str:
        done = subprocess.run(
            command,
            env=self._env,
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


def _same_file(source: Path, target: Path) -> None:
    """Link rather than copy: the scripts know their processes by the path that they were started from."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)

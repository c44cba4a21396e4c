"""The injector as a process, seen through its two ports."""

from __future__ import annotations

import base64
import inspect
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from prometheus_client.parser import text_string_to_metric_families

from injector.cli import main
from tests.architecture.serving import free_ports, post, wait_until_ready
from tests.e2e.cluster import Cluster
from tests.factories import make_pod, make_review, proxy_of
from tests.handlers import patched
from tests.webhook.certificates import Order, authority, issue

ROOT = Path(__file__).resolve().parents[2]
_LAST = 600.0
"""Seconds that a drain may take on a busy machine; the injector promises ten."""
LIMIT = 1200.0
"""Seconds until something must be seen. It is seen within one or two, but a shared machine can take a hundred times as long."""


@dataclass(frozen=True)
class Certificate:
    """The files of a certificate for the loopback, and of the authority that signed it."""

    chain: Path
    key: Path
    authority: Path

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of ``serve`` that name it."""
        return ("--tls-cert-file", str(self.chain), "--tls-key-file", str(self.key))

    @property
    def bundle(self) -> str:
        """The caBundle of webhooks."""
        return base64.b64encode(self.authority.read_bytes()).decode()


def certificate(folder: Path) -> Certificate:
    """Make a certificate of the loopback."""
    signer = authority()
    (folder / "authority.crt").write_bytes(signer.chain_pem)
    return Certificate(*issue(Order(names=("127.0.0.1",)), signer).write(folder), folder / "authority.crt")


@dataclass
class Injector:
    """The injector as a process."""

    process: subprocess.Popen[bytes]
    port: int
    ops_port: int
    log: Path
    bind: str = "127.0.0.1"

    def image(self, revision: str, pod: dict[str, Any] | None = None) -> str:
        """The image that a pod of the revision gets, or why it gets none; for a server of plain HTTP."""
        pod = pod or make_pod()
        response = post(f"http://127.0.0.1:{self.port}/inject/{revision}", make_review(pod))["response"]
        if not response["allowed"]:
            return str(response["status"]["message"])
        return str(proxy_of(patched(pod, response))["image"])

    def error(self, revision: str) -> str:
        """Why what the source holds of a revision is not served; empty where it is."""
        rows = self.status()["revisions"]
        return next((row["error"] for row in rows if row["name"] == revision and row["error"]), "")

    def status(self) -> dict[str, Any]:
        """What `/status.json` says."""
        status: dict[str, Any] = self.get("/status.json", json.load)
        return status

    def tag(self, name: str) -> dict[str, Any]:
        """What `/status.json` says of a tag; empty where it has none."""
        return next((row for row in self.status()["tags"] if row["name"] == name), {})

    def metrics(self) -> str:
        return self.text("/metrics")

    def total(self, series: str, **labels: str) -> float:
        """The sum of all samples of a series that have these labels."""
        families = text_string_to_metric_families(self.metrics())
        samples = (sample for family in families for sample in family.samples)
        return sum(
            sample.value for sample in samples if sample.name == series and labels.items() <= sample.labels.items()
        )

    def get(self, path: str, read: Callable[[Any], Any]) -> Any:
        with urllib.request.urlopen(f"http://{self.bind}:{self.ops_port}{path}", timeout=LIMIT) as answer:
            return read(answer)

    def text(self, path: str) -> str:
        """What its operations port answers."""
        return str(self.get(path, lambda answer: answer.read().decode()))

    def readiness(self) -> str:
        """What `/readyz` answers; empty before it does."""
        try:
            return self.text("/readyz")
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except OSError:
            return ""

    def until(self, condition: Callable[[], object], *, within: float = LIMIT) -> float:
        """Wait until a condition is true, while the injector runs. Return the seconds that it took."""
        return until(condition, within=within, process=self.process, state=self.log.read_text)


@contextmanager
def injector(
    folder: Path, *flags: str, ready: bool = True, bind: str = "127.0.0.1", port: int = 0
) -> Iterator[Injector]:
    """The injector, as long as the block runs, with the embedded examples if no flag is a source; it must end as it should."""
    free, ops_port = free_ports(2)
    port = port or free
    command = [sys.executable, "-m", "injector", "serve", "--bind", bind]
    command += ["--port", str(port), "--ops-port", str(ops_port), "--shutdown-delay", "0", *flags]
    if not any(flag.startswith(("--from-cluster", "--revisions-dir", "--injectConfig")) for flag in flags):
        command.append("--embedded")
    log = folder / "log"
    with started(command, log, f"http://{bind}:{ops_port}/readyz" if ready else "") as process:
        yield Injector(process, port, ops_port, log, bind)


@contextmanager
def started(command: list[str], log: Path, readyz: str) -> Iterator[subprocess.Popen[bytes]]:
    """A server as long as the block runs, from when it is ready, if there is an address to ask; it must end as it should."""
    with log.open("w") as written:
        process = subprocess.Popen(command, cwd=ROOT, stdout=written, stderr=written)
        try:
            if readyz:
                assert wait_until_ready(readyz, process), log.read_text()
            yield process
        finally:
            assert terminate(process) == 0, log.read_text()


def until(
    condition: Callable[[], object],
    *,
    within: float = LIMIT,
    process: subprocess.Popen[Any] | None = None,
    state: Callable[[], str] = str,
) -> float:
    """Wait until a condition is true, while a process runs. Return the seconds that it took.

    Raises:
        AssertionError: it is not true in time, or the process ended: with the source of the condition, and the state of what it looks at.
    """
    started = time.monotonic()
    while not condition():
        assert process is None or process.poll() is None, f"the process ended before {_source_of(condition)}\n{state()}"
        assert time.monotonic() - started < within, f"not true in {within:g} s: {_source_of(condition)}\n{state()}"
        time.sleep(0.1)  # a look takes CPU time that the injector needs
    return time.monotonic() - started


def _source_of(condition: Callable[[], object]) -> str:
    """Return the source of a condition, with its values if it is a partial."""
    if isinstance(condition, partial):
        return f"{inspect.getsource(condition.func).strip()} {condition.args}"
    return inspect.getsource(condition).strip()


def terminate(process: subprocess.Popen[bytes]) -> int:
    """Tell a process to end; its exit status, once it has. Nothing of it is left, whatever it does."""
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(_LAST)
    finally:
        process.kill()
        process.wait()


def of_cluster(cluster: Cluster, istio_namespace: str, *, kubeconfig: Path | None = None) -> tuple[str, ...]:
    """The flags by which the injector follows a cluster."""
    return (
        "--from-cluster",
        "--kubeconfig",
        str(kubeconfig or cluster.kubeconfig),
        "--istio-namespace",
        istio_namespace,
    )


def run(cluster: Cluster, *arguments: str, kubeconfig: Path | None = None) -> Result:
    """Run a command of the injector on a cluster."""
    return CliRunner().invoke(main, [*arguments, "--kubeconfig", str(kubeconfig or cluster.kubeconfig)])


def command(*arguments: str | Path) -> str:
    """What a command of the injector prints."""
    done = CliRunner().invoke(main, [*map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout

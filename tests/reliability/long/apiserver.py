"""Pods per second through a real API server: with the injector, and with a webhook that answers every review with one constant patch.

Both serve TLS on the loopback, and the API server (kubelab, in ``../shared``) calls each for a namespace of its own. Eight workers create
pods, in turn with the one and the other. The constant patch is the injector's own for such a pod, so that the API server does the same
work. Every pod has to be injected.

Each webhook runs on a processor core that it has to itself while it is measured, and everything else on the other cores, so that a webhook
does not take the API server's time. With ``--shared-cores`` all run on all cores. The API server collects garbage as it does by default.

The exit status tells whether the ratio of the medians reaches the target. It is also 1 if nothing can be measured.
"""

from __future__ import annotations

import base64
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from tests.architecture.serving import free_ports
from tests.conformance import core, corpus
from tests.e2e.kubelab import BUILT, Lab, missing, running
from tests.e2e.manifests import account_of, made, namespace_of, pod_webhook
from tests.reliability.long.rows import Row, ended, parser
from tests.reliability.replicas import ROOT, processor_time
from tests.webhook.certificates import Order, issue

WORKERS = 8
TARGET = 0.8
"""Of the constant webhook's pods per second."""
LABEL = "service.istio.io/canonical-name"
"""Both patches add it; the program that creates pods counts it."""
START_LIMIT = 60.0
RUN_LIMIT = 600.0
PRINTED = re.compile(r": (\d+) pods/s  p50=(\S+) p99=(\S+) max=\S+  labelled=(\d+) failed=(\d+) (.*)")
UNITS = {"µs": 1e-3, "ms": 1.0, "s": 1e3}


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook that serves one namespace."""

    namespace: str
    port: int
    process: subprocess.Popen[bytes]


def main() -> int:
    """Measure both webhooks in turn."""
    options_of = parser(__doc__)
    options_of.add_argument("--pods", type=int, default=500, help="how many pods each run creates")
    options_of.add_argument("--rounds", type=int, default=25, help="how many runs each webhook has; the medians count")
    options_of.add_argument("--shared-cores", action="store_true", help="run everything on all processor cores")
    options = options_of.parse_args()
    if reason := unavailable():
        print(f"not measured: {reason}")
        return 1
    core = None if options.shared_cores else reserved_core()
    with tempfile.TemporaryDirectory() as folder:
        medians = measured(Path(folder), options.pods, options.rounds, core)
    ratio = medians["injector"]["pods_s"] / medians["constant patch"]["pods_s"]
    figures = ", ".join(
        f"{name} {row['pods_s']:.0f} ({row['lowest']:.0f} to {row['highest']:.0f})" for name, row in medians.items()
    )
    figure = f"{ratio:.3f} ({figures} pods/s, medians of {options.rounds})"
    for name, row in medians.items():
        print(name, " ".join(f"{key}={value:.3f}" for key, value in row.items()))
    print(f"load of the machine: {os.getloadavg()[0]:.2f}")
    where, flag = (", all on the same cores", " --shared-cores") if core is None else ("", "")
    test, target = f"{WORKERS} workers create pods on a real API server{where}", f">= {TARGET} of a constant webhook"
    rows = [Row(test, target, figure, ratio >= TARGET)]
    return ended({f"scripts/reliability apiserver{flag}": rows}, record=options.record)


def unavailable() -> str:
    """Return why nothing can be measured here; empty if it can."""
    if not corpus.present():
        return corpus.ABSENT
    if reason := missing():
        return reason
    return "" if (BUILT / "bench").exists() else f"{BUILT / 'bench'} is not built: run ../shared/kubelab/build.sh"


def reserved_core() -> int:
    """Take a core from this process and all that it will start, for the webhooks, and return its number.

    Raises:
        SystemExit: there is only one.
    """
    *others, last = sorted(os.sched_getaffinity(0))
    if not others:
        raise SystemExit("not measured: there is one processor core; --shared-cores measures on it")
    os.sched_setaffinity(0, others)
    return last


def measured(folder: Path, pods: int, rounds: int, core: int | None) -> dict[str, dict[str, float]]:
    """Return the medians of each webhook. The order of the two changes each round; a first run of each does not count.

    ``core`` is the webhooks' processor core; None lets them run on all.
    """
    issued = issue(Order(names=("127.0.0.1",)))
    certificate, key = map(str, issued.write(folder))
    found: dict[str, list[dict[str, float]]] = {"injector": [], "constant patch": []}
    with ExitStack() as stack:
        lab = stack.enter_context(running(Lab(folder / "kubelab", environment={})))
        for namespace in ("plain", "injected", "constant"):
            lab.apply(namespace_of(namespace), account_of(namespace))
        patch = folder / "patch.json"
        patch.write_bytes(patch_of(lab.tried(pod_in("plain"))))
        tls = ["--tls-cert-file", certificate, "--tls-key-file", key]
        webhooks = {
            "injector": stack.enter_context(serving("injected", injector_command(tls), core)),
            "constant patch": stack.enter_context(serving("constant", constant_command(tls, patch), core)),
        }
        lab.apply(configuration(webhooks.values(), issued.chain_pem))
        for each in webhooks.values():
            wait_until_called(lab, each)
            created(lab, each, pods)
        for number in range(rounds):
            for name in sorted(webhooks, reverse=number % 2 == 0):
                found[name].append(created(lab, webhooks[name], pods))
                print(f"round {number}, {name}: {found[name][-1]['pods_s']:.0f} pods/s", file=sys.stderr, flush=True)
    return {name: median_row(runs) for name, runs in found.items()}


def median_row(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of each figure, with the lowest and the highest rate."""
    row = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    rates = [run["pods_s"] for run in runs]
    return {**row, "lowest": min(rates), "highest": max(rates)}


def pod_in(namespace: str) -> dict[str, Any]:
    """Return a pod like those of the program that creates them."""
    container = {"name": "c", "image": "registry.invalid/x:1"}
    labels = {"app": "bench", "run": "trial"}
    return made("Pod", "trial", namespace, labels, spec={"containers": [container]})


def patch_of(pod: dict[str, Any]) -> bytes:
    """Return the injector's patch for a pod as the API server makes it."""
    revision = core.revision_of(corpus.default_settings("1.30"))
    for name in ("uid", "creationTimestamp", "managedFields"):
        pod["metadata"].pop(name, None)
    result = inject_pod(revision, pod, RequestFacts(pod["metadata"]["namespace"]))
    assert isinstance(result, Injected)
    return result.patch_json


def injector_command(tls: list[str]) -> list[str]:
    """Return the command that starts the injector with Istio 1.30's ConfigMaps of a default installation, but for the port."""
    settings = corpus.default_settings("1.30")
    files = {"--injectConfig": settings.config, "--valuesFile": settings.values, "--meshConfig": settings.mesh}
    flags = [text for flag, path in files.items() for text in (flag, str(path))]
    ports = ["--bind", "127.0.0.1", "--ops-port", str(free_ports(1)[0]), "--shutdown-delay", "0"]
    return [sys.executable, "-m", "injector", "serve", *ports, *tls, *flags]


def constant_command(tls: list[str], patch: Path) -> list[str]:
    """Return the command that starts the webhook with the constant patch, but for the port."""
    return [sys.executable, str(Path(__file__).with_name("constantwebhook.py")), "--patch", str(patch), *tls]


@contextmanager
def serving(namespace: str, command: list[str], core: int | None) -> Iterator[Webhook]:
    """Run a webhook until the block ends, on a processor core if one is named."""
    (port,) = free_ports(1)
    pinned = [] if core is None else ["taskset", "-c", str(core)]
    process = subprocess.Popen([*pinned, *command, "--port", str(port)], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        yield Webhook(namespace, port, process)
    finally:
        process.terminate()
        process.wait(timeout=60)


def configuration(webhooks: Any, authority: bytes) -> dict[str, Any]:
    """Return the configuration by which the API server calls each webhook for its namespace."""
    bundle = base64.b64encode(authority).decode()
    entries = [
        pod_webhook(
            f"{each.namespace}.bench.example.com",
            {"url": f"https://127.0.0.1:{each.port}/inject", "caBundle": bundle},
            namespace=each.namespace,
        )
        for each in webhooks
    ]
    return made("MutatingWebhookConfiguration", "bench", webhooks=entries)


def wait_until_called(lab: Lab, webhook: Webhook) -> None:
    """Return once pods of the webhook's namespace are injected.

    Raises:
        SystemExit: they are not, in time.
    """
    deadline, said = time.monotonic() + START_LIMIT, ""
    while time.monotonic() < deadline and webhook.process.poll() is None:
        try:
            if LABEL in lab.tried(pod_in(webhook.namespace))["metadata"]["labels"]:
                return
        except AssertionError as error:
            said = str(error)
        time.sleep(0.2)
    raise SystemExit(f"pods of namespace {webhook.namespace} are not injected: {said}")


def created(lab: Lab, webhook: Webhook, pods: int) -> dict[str, float]:
    """Create pods in the webhook's namespace; return the figures.

    Raises:
        SystemExit: one of the pods was not created, or not injected.
    """
    before = processor_time(webhook.process.pid)
    command = [str(BUILT / "bench"), "-kubeconfig", str(lab.kubeconfig), "-n", webhook.namespace, "-label", LABEL]
    options = ["-pods", str(pods), "-c", str(WORKERS)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, timeout=RUN_LIMIT)
    printed = PRINTED.search(done.stdout)
    if printed is None or (int(printed[4]), int(printed[5])) != (pods, 0):
        raise SystemExit(f"not every pod of {webhook.namespace} was injected: {done.stdout}{done.stderr}")
    spent = processor_time(webhook.process.pid) - before
    times = {"p50_ms": milliseconds(printed[2]), "p99_ms": milliseconds(printed[3])}
    return {"pods_s": float(printed[1]), **times, "cpu_ms_a_pod": 1e3 * spent / pods}


def milliseconds(text: str) -> float:
    """Return a duration of Go's, which has one unit here."""
    number, unit = re.fullmatch(r"([\d.]+)(\D+)", text).groups()  # type: ignore[union-attr]
    return round(float(number) * UNITS[unit], 3)


if __name__ == "__main__":
    sys.exit(main())

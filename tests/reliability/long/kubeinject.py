"""``istioctl kube-inject`` beside ``injector kube-inject``: ``scripts/reliability kubeinject --binaries DIR --checkouts DIR``.

The binaries are programs ``istioctl-VERSION``, as Istio publishes them. The checkouts are folders ``istio-VERSION``: the unpacked archives
of releases. Helm installs the chart of a checkout on a real API server. Each istioctl that is not older injects every sample of
the checkout that has a workload, with the files that the ConfigMaps of the cluster contain. The injector gets the same flags, and then
none but ``--kubeconfig``, so that it reads the ConfigMaps itself. All three must print the same bytes, or all must fail. If the versions
differ, the injector has ``--istio-version`` too.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from click.testing import CliRunner

from injector.cli import main as injector
from injector.istio.behaviours import format_minor, parse_minor
from tests.e2e.cluster import Cluster, running
from tests.e2e.controlplane import UNAVAILABLE, missing
from tests.reliability.long.rows import ROOT, Row, finish, parser

NAMESPACE = "istio-system"
CHART = Path("manifests/charts/istio-control/istio-discovery")
WORKLOAD = re.compile(r"(?m)^kind: (CronJob|DaemonSet|Deployment|Job|Pod|ReplicaSet|StatefulSet|List)\b")
FILES = {
    "--injectConfigFile": ("istio-sidecar-injector", "config"),
    "--valuesFile": ("istio-sidecar-injector", "values"),
    "--meshConfigFile": ("istio", "mesh"),
}
"""The flags that istioctl gets, each with the ConfigMap and the key of its file."""
PRINTED = 3


@dataclass
class Tally:
    """What one istioctl and the injector made of the samples of one chart."""

    same: int = 0
    failed: int = 0
    wrong: list[str] = field(default_factory=list)


def versions(folder: Path, prefix: str, only: Sequence[str] | None) -> dict[str, Path]:
    """Return what a folder has by version: ``PREFIX-VERSION``, all of it or only some versions."""
    programs = {path.name.removeprefix(prefix): path.resolve() for path in sorted(folder.glob(f"{prefix}*"))}
    return {
        version: path
        for version, path in programs.items()
        if (version in only if only else re.fullmatch(r"\d+\.\d+\.\d+\S*", version))
    }


@contextmanager
def installed(cluster: Cluster, checkout: Path, version: str) -> Iterator[None]:
    """Install the chart of a checkout as the default revision, and uninstall it at the end."""
    helm = [str(ROOT / "scripts" / "helm"), "--kubeconfig", str(cluster.kubeconfig), "--namespace", NAMESPACE]
    install = ["install", "istiod", str(checkout / CHART), "--create-namespace", "--set", f"global.tag={version}"]
    subprocess.run([*helm, *install], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run([*helm, "uninstall", "istiod", "--wait"], check=True, capture_output=True)


def flags(cluster: Cluster, folder: Path) -> list[str]:
    """Write the keys of the cluster's ConfigMaps into a folder; return the flags that name the files."""
    arguments = []
    for flag, (config_map, key) in FILES.items():
        file = folder / key
        text = cluster.kubectl(
            "get", "configmap", "-n", NAMESPACE, config_map, "-o", f"jsonpath={{.data.{key}}}"
        ).stdout
        file.write_text(text)
        arguments += [flag, str(file)]
    return arguments


def samples(checkout: Path) -> list[Path]:
    """Return the samples of a checkout that have a workload."""
    paths = sorted((checkout / "samples").rglob("*.yaml"))
    return [path for path in paths if WORKLOAD.search(path.read_text())]


def compare(
    cluster: Cluster, istioctl: Path, files: Iterable[str], more: Iterable[str], paths: Iterable[Path]
) -> Tally:
    """Inject samples with an istioctl, with the injector and the same files, and with the injector and the cluster."""
    where = ["--kubeconfig", str(cluster.kubeconfig)]
    tally = Tally()
    for path in paths:
        command = ["kube-inject", "-f", str(path), *where]
        theirs = subprocess.run([istioctl, *command, *files], capture_output=True, check=False)
        for way, arguments in {"files": [*command, *files, *more], "cluster": [*command, *more]}.items():
            ours = CliRunner().invoke(injector, arguments)
            if bool(ours.exit_code) != bool(theirs.returncode):
                said = ours.stderr.strip() or theirs.stderr.decode().strip()
                tally.wrong.append(f"{path}, {way}: exit code {ours.exit_code}, istioctl {theirs.returncode}: {said}")
            elif theirs.returncode:
                tally.failed += 1
            elif ours.stdout_bytes != theirs.stdout:
                tally.wrong.append(f"{path}, {way}: other bytes")
            else:
                tally.same += 1
    return tally


def main() -> int:
    """Run the tests; the exit status tells whether all targets are met."""
    options_of = parser(__doc__)
    options_of.add_argument("--binaries", type=Path, required=True, help="a folder with programs istioctl-VERSION")
    options_of.add_argument("--checkouts", type=Path, required=True, help="a folder with checkouts istio-VERSION")
    options_of.add_argument(
        "--istioctl", metavar="VERSION", action="append", help="run this istioctl; repeatable (default: all)"
    )
    options_of.add_argument(
        "--chart", metavar="VERSION", action="append", help="use this chart; repeatable (default: all)"
    )
    options = options_of.parse_args()
    if reason := missing():
        print(f"error: {reason}", file=sys.stderr)
        return UNAVAILABLE
    programs = versions(options.binaries, "istioctl-", options.istioctl)
    checkouts = versions(options.checkouts, "istio-", options.chart)
    runs = {}
    with tempfile.TemporaryDirectory() as name, running(Cluster(Path(name, "cluster"))) as cluster:
        for version, checkout in checkouts.items():
            able = [program for program in programs if parse_minor(program) >= parse_minor(version)]
            if not able:
                continue
            with installed(cluster, checkout, version):
                files = flags(cluster, Path(name))
                for program in able:
                    minor = parse_minor(program)
                    more = [] if minor == parse_minor(version) else ["--istio-version", format_minor(minor)]
                    tally = compare(cluster, programs[program], files, more, samples(checkout))
                    print("\n".join(tally.wrong[:PRINTED]), file=sys.stderr)
                    command = f"scripts/reliability kubeinject --istioctl {program} --chart {version}"
                    runs[command] = [row(program, version, tally)]
    return finish(runs, record=options.record) if runs else 1


def row(istioctl: str, chart: str, tally: Tally) -> Row:
    """Return the result of an istioctl with a chart."""
    figure = f"{tally.same} the same, {len(tally.wrong)} differ, {tally.failed} refused by both"
    test = f"T42 istioctl {istioctl} kube-inject, chart {chart}"
    return Row(
        test,
        "samples of Istio: the same bytes from files and from the cluster",
        figure,
        bool(tally.same) and not tally.wrong,
    )


if __name__ == "__main__":
    sys.exit(main())

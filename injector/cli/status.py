"""``injector revision status``: which workloads of a cluster do not run what they would get now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.clusterflags import ISTIO_NAMESPACE_FLAG, cluster_flags
from injector.cli.commands import verbose
from injector.cli.failures import EX_FAILED
from injector.cli.flags import FILE, FILENAME, NODE_VERSION, RECURSIVE, both_spellings
from injector.cli.objects import reading
from injector.cli.output import data_text
from injector.cli.standing import Row, Standing, rows, standing_of
from injector.cli.surroundings import Sources, read_surroundings
from injector.cli.table import table
from injector.cli.targets import RUNNING
from injector.cli.terminal import echo
from injector.cluster.reader import PODS, Scope
from injector.errors import DataError
from injector.injection.drift import CURRENT, STATES
from injector.revisions.build import Overrides

if TYPE_CHECKING:
    from pathlib import Path

    from injector.cli.surroundings import Surroundings
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.cluster.reader import Reader

FORMATS: Final = ("table", "json", "yaml")
COLUMNS: Final = ("NAMESPACE", "WORKLOAD", "PODS", "HAS", "WOULD GET", "STATE")


@dataclass(frozen=True, slots=True)
class Report:
    """The pods by workload, and what the user should know of how that was told."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...]


@click.command("status")
@FILENAME
@RECURSIVE
@click.option(
    *both_spellings("revisionsDir"),
    "revisions_dir",
    type=FILE,
    help="A directory of revisions; without it those that Istio installed in the cluster.",
)
@click.option("-n", "--namespace", metavar="NAME", help="The one namespace to look at.")
@ISTIO_NAMESPACE_FLAG
@cluster_flags
@NODE_VERSION
@click.option("-o", "--output", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True)
@click.option(
    "--exit-code", type=bool, default=True, metavar="BOOL", help="With false, drift ends with 0 too.", show_default=True
)
@verbose
def status(  # noqa: PLR0913 -- one parameter for each flag
    *,
    named: tuple[str, ...],
    recursive: bool,
    revisions_dir: Path | None,
    namespace: str | None,
    istio_namespace: str,
    kubeconfig: Kubeconfig,
    node_version: tuple[str, ...],
    output: str,
    exit_code: bool,
) -> None:
    """Show by workload which revision its pods have and which they would get, were they created now.

    Pods, namespaces and webhooks are those of the cluster, or of the FILES, as `kubectl get
    pods,ns,mutatingwebhookconfigurations -A -o yaml` writes them. Ends with 0 where every pod is current, else with 1.
    """
    sources = Sources(revisions_dir, istio_namespace, Overrides(node_versions=node_version))

    report = reading(named, kubeconfig, lambda reader: _report(reader, sources, namespace), recursive=recursive)
    for note in report.notes:
        echo(f"note: {note}", err=True)
    echo(_rendered(report.rows, output), nl=False)
    if exit_code and any(row.standing.drift.state != CURRENT for row in report.rows):
        click.get_current_context().exit(EX_FAILED)


async def _report(reader: Reader, sources: Sources, namespace: str | None) -> Report:
    around = await read_surroundings(reader, sources, namespace)
    unknown: set[str] = set()

    def stands(pod: dict[str, Any]) -> Standing | None:
        place, name = (str(pod["metadata"].get(key, "")) for key in ("namespace", "name"))
        if place not in around.namespaces:
            unknown.add(place)
            return None
        try:
            return standing_of(pod, around)
        except DataError as error:
            error.where = f"Pod {place}/{name}: {error.where}".removesuffix(": ")
            raise

    found = await reader.all(Scope(PODS, namespace or "", fields=RUNNING), stands)
    return Report(tuple(rows(found)), tuple(_notes(around, unknown)))


def _notes(around: Surroundings, unknown: set[str]) -> list[str]:
    notes = list(around.built.notes)
    if not around.webhooks:
        notes.append("no webhook calls an injector: there is none with path /inject that is asked about pods")
    notes += [f"namespace {name} is left out: nothing says which labels it has" for name in sorted(unknown)]
    failures = around.built.failures.values()
    return notes + [f"a revision cannot be used: {error}" for error in (*failures, *around.revisions.state.tag_faults)]


def _rendered(found: tuple[Row, ...], output: str) -> str:
    pods = {state: sum(row.pods for row in found if row.standing.drift.state == state) for state in STATES}
    if output != FORMATS[0]:
        return data_text({"workloads": [row.data for row in found], "pods": pods}, output)
    if not found:
        return "no pod has a sidecar or would get one\n"
    counts = ", ".join(f"{count} {state}" for state, count in pods.items() if count)
    return f"{table(COLUMNS, [row.cells for row in found])}\npods: {counts}\n"

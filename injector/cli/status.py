"""``injector revision status``: which workloads of a cluster do not run what they would get now."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.clusterflags import ISTIO_NAMESPACE_FLAG, cluster_flags
from injector.cli.clusterview import RUNNING, Sources, is_over, read_surroundings, reading
from injector.cli.commands import verbose
from injector.cli.failures import EX_FAILED
from injector.cli.flags import FILE, FILENAME, NODE_VERSION, RECURSIVE, both_spellings
from injector.cli.output import data_text, printable, table
from injector.cli.route import NO_WEBHOOK, Labels, Routed, asked_name, live_route
from injector.cli.terminal import echo
from injector.cluster.reader import PODS, Scope
from injector.errors import DataError
from injector.injection import containers as c
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts, Skipped
from injector.injection.tools.drift import (
    CURRENT,
    OLDER_REVISION,
    STATES,
    UNKNOWN,
    Drift,
    as_created,
    drift_of,
    injected_revision,
)
from injector.kube.typed import normalise
from injector.revisions.build import Overrides
from injector.revisions.tags import workload_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from injector.cli.clusterview import Surroundings
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.cluster.reader import Reader
    from injector.istio.revision import Revision

# A name of Kubernetes' has 253 letters at most, and most have far fewer.
_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Standing:
    """How one pod stands: the namespace, kind and name of its workload, what it has and would get, None for no sidecar."""

    workload: tuple[str, ...]
    has: str | None
    gets: str | None
    drift: Drift


@dataclass(frozen=True, slots=True)
class Row:
    """The pods of one workload that stand alike."""

    standing: Standing
    pods: int

    @property
    def data(self) -> dict[str, Any]:
        """The row as JSON data."""
        namespace, kind, name = self.standing.workload
        found: dict[str, Any] = {"namespace": namespace, "kind": kind, "name": name, "pods": self.pods}
        drift = self.standing.drift
        found |= {"has": self.standing.has, "wouldGet": self.standing.gets, "state": drift.state}
        return {**found, "changes": list(drift.kinds)} if drift.kinds else found

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of a table."""
        namespace, kind, name = self.standing.workload
        standing = self.standing
        # Nobody checks the names that a pod's annotations and owners hold.
        told = (namespace, f"{kind}/{name}", str(self.pods), standing.has or "-", standing.gets or "-")
        return (*(printable(text[:_SHOWN]) for text in told), standing.drift.state)


def rows(standings: Iterable[Standing]) -> list[Row]:
    """Return the pods by workload; a workload whose pods stand differently, as in the middle of a rollout, has several rows."""
    counted = Counter(standings)
    ordered = sorted(counted, key=lambda each: (each.workload, STATES.index(each.drift.state), each.has or ""))
    return [Row(each, counted[each]) for each in ordered]


def standing_of(pod: Mapping[str, Any], around: Surroundings) -> Standing | None:
    """Return how a pod stands; None for one that ends or has ended, or that neither has a sidecar nor would get one.

    Raises:
        ManifestError: the pod cannot be read.
        KeyError: nothing is known of its namespace.
    """
    meta = pod["metadata"]
    if is_over(pod):
        return None
    read: c.Pod = normalise({"metadata": meta, "spec": pod.get("spec") or {}}, "v1.Pod")
    namespace_labels = around.namespaces[meta["namespace"]]
    try:
        created: dict[str, Any] | None = as_created(read)
    except DataError:
        created = None  # what it was before cannot be told: its revision still can
    own = c.labels_of(read if created is None else created)
    labels = Labels(namespace_labels, own, workload=workload_key(read, meta["namespace"]))
    found = _judged(read, created, labels, around)
    return None if found.has is None and found.drift.state == CURRENT else found


def _judged(pod: c.Pod, created: c.Pod | None, labels: Labels, around: Surroundings) -> Standing:
    workload, sidecar = tuple(labels.workload), injected_revision(pod)
    has = None if sidecar is None else sidecar or "(no name)"
    try:
        routed = live_route(around, labels)
    except DataError:
        return Standing(workload, has, asked_name(around.webhooks, labels), Drift(UNKNOWN))
    if isinstance(routed, Routed):
        revision = around.built.revisions.get(routed.raw.name)
        if revision is None:
            return Standing(workload, has, routed.raw.name, Drift(UNKNOWN))
        if created is None:
            known = sidecar == revision.written
            return Standing(workload, has, revision.name, Drift(CURRENT if known else OLDER_REVISION))
        answer = _answer(revision, created, routed)
        gets = None if isinstance(answer, Skipped) else revision.name
        return Standing(workload, has, gets, drift_of(pod, answer))
    wanted = asked_name(around.webhooks, labels)
    if wanted is not None or routed.reason != NO_WEBHOOK:
        return Standing(workload, has, wanted, Drift(UNKNOWN))
    return Standing(workload, has, None, drift_of(pod, None))


def _answer(revision: Revision, created: c.Pod, routed: Routed) -> Injected | Skipped | DataError:
    namespace = created["metadata"].get("namespace", "")
    facts = RequestFacts(namespace, routed.envs, revision.namespaces.get(namespace))
    try:
        return inject_pod(revision, created, facts)
    except DataError as error:
        return error


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

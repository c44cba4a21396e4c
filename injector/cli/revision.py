"""``injector revision``: list, verify and remove the revisions of a source, and compare the pods of a cluster with them (``status``)."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.commands import EX_DATAERR, Subcommands, verbose
from injector.cli.manifests import SELECTOR
from injector.cli.options import (
    ALL_FLAG,
    ALL_NAMESPACES,
    FILE,
    FILENAME,
    RECURSIVE,
    SKIP_CONFIRMATION,
    exit_code_option,
    output_format,
    refuse_unused,
)
from injector.cli.output import (
    HEADINGS,
    confirm,
    data_text,
    echo,
    echo_colored,
    examples,
    table,
    with_progress,
)
from injector.cli.sources import (
    ByCluster,
    clusters_options,
    complete_names,
    directory_source,
    namespace_option,
    on_each,
    revision_name,
    revision_source_options,
    select_revisions,
)
from injector.cli.taglocation import TagLocation, location_options
from injector.errors import ConfigError, UsageError
from injector.fleet.files import open_reader
from injector.fleet.status import SidecarStatus, read_statuses
from injector.injection.tools.drift import (
    CURRENT,
    STATES,
)
from injector.kube.escaping import printable
from injector.revisions.directory import EMBEDDED
from injector.revisions.registry import Registry, Snapshot
from injector.revisions.reload import Loader
from injector.revisions.tagstore import check_removable

if TYPE_CHECKING:
    from pathlib import Path

    from injector.cluster.kubeconfig import Kubeconfig
    from injector.fleet.sources import RevisionSources
    from injector.kube.selectors import Selector
    from injector.revisions.reports import LoadReport, RevisionState

STATUS_COLUMNS: Final = ("NAMESPACE", "WORKLOAD", "PODS", "HAS", "WOULD GET", "STATE")
# A name in Kubernetes has at most 253 characters, and most have far fewer.
_MAX_CELL: Final = 100


@dataclass(frozen=True, slots=True)
class Row:
    """The pods of one workload that have the same status."""

    status: SidecarStatus
    pods: int

    @property
    def data(self) -> dict[str, Any]:
        """The row as JSON data."""
        namespace, kind, name = self.status.workload
        data: dict[str, Any] = {"namespace": namespace, "kind": kind, "name": name, "pods": self.pods}
        drift = self.status.drift
        data |= {"has": self.status.has, "wouldGet": self.status.gets, "state": drift.state}
        return {**data, "changes": list(drift.kinds)} if drift.kinds else data

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of a table."""
        namespace, kind, name = self.status.workload
        cells = (namespace, f"{kind}/{name}", str(self.pods), self.status.has or "-", self.status.gets or "-")
        # Kubernetes does not validate the names in a pod's annotations and owner references.
        return (*(printable(text[:_MAX_CELL]) for text in cells), self.status.drift.state)


def rows_of(statuses: Iterable[SidecarStatus]) -> list[Row]:
    """Return the pods by workload. A workload has several rows if its pods differ, as in the middle of a rollout."""
    counts = Counter(statuses)
    ordered = sorted(counts, key=lambda status: (status.workload, STATES.index(status.drift.state), status.has or ""))
    return [Row(status, counts[status]) for status in ordered]


@click.command(
    "status",
    epilog=examples(
        "revision status --namespace shop",
        "revision status --context east --context west",
        "revision status -f cluster.yaml -o json --exit-code=false",
    ),
)
@FILENAME
@RECURSIVE
@namespace_option("Only this namespace.")
@ALL_NAMESPACES
@SELECTOR
@clusters_options
@output_format("table", "json", "yaml")
@exit_code_option("pods are not current")
@verbose
def status(  # noqa: PLR0913 -- one parameter for each flag
    *,
    filenames: tuple[str, ...],
    recursive: bool,
    namespace: str | None,
    every: bool,
    selector: Selector,
    sources: RevisionSources,
    kubeconfigs: tuple[Kubeconfig, ...],
    output: str,
    exit_code: bool,
) -> None:
    """Show for each workload the revision of its pods and the revision that new pods would get.

    Pods, namespaces and webhooks come from the cluster, or from FILES as `kubectl get pods,ns,mutatingwebhookconfigurations -A -o yaml`
    writes them. The exit code is 0 if every pod is current, else 1.
    """

    def read(kubeconfig: Kubeconfig) -> tuple[list[Row], list[str]]:
        with open_reader(filenames, kubeconfig, recursive=recursive) as session:
            statuses, notes = read_statuses(session, sources, namespace, str(selector), with_progress)
        return rows_of(statuses), notes

    if every and namespace is not None:
        raise UsageError(f"-n and {ALL_FLAG} exclude each other", hint="give one of the two")
    if filenames:
        refuse_unused("with -f", "paths", "context_names")
    else:
        refuse_unused("without -f", "recursive")
    if sources.revisions_dir is not None:
        refuse_unused(f"with {directory_source()}", "istio_namespace")
    by_cluster = on_each(kubeconfigs, read)
    by_cluster.note("note", lambda result: result[1])
    echo_colored(_text(by_cluster, output), HEADINGS)
    rows = [row for cluster_rows, _ in by_cluster.results.values() for row in cluster_rows]
    by_cluster.exit(has_findings=exit_code and any(row.status.drift.state != CURRENT for row in rows))


def _text(by_cluster: ByCluster[tuple[list[Row], list[str]]], output: str) -> str:
    if output != "table":
        data = by_cluster.data(lambda result: {"workloads": [row.data for row in result[0]], "pods": _pods(result[0])})
        return data_text(data, output)
    cells = by_cluster.rows(lambda result: [row.cells for row in result[0]])
    if not cells:
        return "no pod has a sidecar or would get one\n" if by_cluster.results else ""
    pods = _pods([row for rows, _ in by_cluster.results.values() for row in rows])
    counts = ", ".join(f"{count} {state}" for state, count in pods.items() if count)
    return f"{table(by_cluster.columns(*STATUS_COLUMNS), cells)}\npods: {counts}\n"


def _pods(rows: Sequence[Row]) -> dict[str, int]:
    return {state: sum(row.pods for row in rows if row.status.drift.state == state) for state in STATES}


COLUMNS: Final = ("REVISION", "ISTIO", "WHY", "ENGINE", "TAGS", "DEFAULT", "FINGERPRINT")


@click.group("revision", cls=Subcommands, no_args_is_help=True)
@verbose
def revision() -> None:
    """Create, list, verify and remove revisions, and show which workloads run an older one."""


revision.add_command(status)


@revision.command(
    "list",
    epilog=examples(
        "revision list",
        "revision list --revisions-dir revisions -o json",
    ),
)
@revision_source_options
@output_format("table", "json", "yaml")
@verbose
def list_revisions(sources: RevisionSources, kubeconfig: Kubeconfig, output: str) -> None:
    """List the revisions with their Istio versions and tags."""
    registry, report = _load(sources, kubeconfig)
    rows = [_data(state, registry.snapshot) for state in report.revisions.values()]
    text = table(COLUMNS, [_cells(row) for row in rows]) if output == "table" else data_text(rows, output)
    echo_colored(text, HEADINGS)
    failed = {str(state.error): f"revision {state.name}: " for state in report.revisions.values()}
    for error in map(str, (*report.errors, *report.webhook_faults)):
        echo(f"warning: {failed.get(error, '')}{error}", err=True)


@revision.command(
    "verify",
    epilog=examples(
        "revision verify --revisions-dir revisions",
        "revision verify --revisions-dir revisions --strict",
    ),
)
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with 65 also if templates fail on a built-in pod, which is a warning otherwise.",
)
@revision_source_options
@verbose
def verify_revisions(*, strict: bool, sources: RevisionSources, kubeconfig: Kubeconfig) -> None:
    """Build every revision and render built-in pods with it. The exit code is 65 if one cannot be served.

    A template may be made for some pods, such as those with a certain container. So it is a warning if it fails on a built-in pod,
    unless it fails on every pod.
    """
    registry, report = _load(sources, kubeconfig)
    for state in report.revisions.values():
        echo(f"{state.name}: {'ok' if state.error is None else f'error: {state.error}'}")
        for warning in state.warnings:
            echo(f"{state.name}: warning: {warning}")
        for note in state.notes:
            echo(f"{state.name}: note: {note}")
    for error in report.tag_errors:
        echo(f"error: {error}")
    for tag in registry.snapshot.tags.values():
        for note in tag.weight_notes:
            echo(f"note: {note}")
    if report.errors or (strict and any(state.failed for state in report.revisions.values())):
        click.get_current_context().exit(EX_DATAERR)


@revision.command(
    "remove",
    epilog=examples(
        "revision remove 1-24 --revisions-dir revisions",
    ),
)
@click.argument("name", metavar="REVISION", shell_complete=complete_names)
@SKIP_CONFIRMATION
@click.option("--force", is_flag=True, help="Do not ask, and remove the revision even if it is in use.")
@location_options
@verbose
def remove_revision(*, name: str, skip_confirmation: bool, force: bool, location: TagLocation) -> None:
    """Take REVISION out of service: remove its folder, or the webhooks of the cluster that send pods to it.

    The ConfigMaps of a cluster stay. They belong to its control plane: use `istioctl uninstall --revision`.
    """
    checked = revision_name(name, flag="REVISION")
    with location.store() as store:
        check_removable(store, checked, force=force)
        what = "the webhooks" if location.directory is None else f"the folder {location.directory / checked}"
        if not (force or skip_confirmation):
            confirm(f'Remove {what} of revision "{checked}"?')
        store.remove_revision(checked)
    echo(f"Revision {checked} removed")


@revision.command("init", epilog=examples("revision init revisions"))
@click.argument("folder", metavar="DIR", type=FILE)
@verbose
def init_revisions(folder: Path) -> None:
    """Write the two embedded examples, `stable` and `canary`, and their tag into the new or empty folder DIR, for `--revisions-dir DIR`."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError("already exists", where=str(folder), hint="name a new or an empty folder")
    shutil.copytree(EMBEDDED, folder, ignore=shutil.ignore_patterns("kustomization.yaml"), dirs_exist_ok=True)
    echo(f"wrote {folder}", err=True)


def _load(sources: RevisionSources, kubeconfig: Kubeconfig) -> tuple[Registry, LoadReport]:
    """Read and build the revisions. Raises ConfigError if there are none."""
    with select_revisions(sources, kubeconfig) as revisions:
        registry = Registry()
        report = Loader(lambda: revisions.state, registry).load(time.time())
        if not report.revisions:
            hint = "give --revisions-dir a folder with one folder for each revision"
            raise ConfigError("there is no revision", where=revisions.where, hint=hint)
        return registry, report


def _data(state: RevisionState, snapshot: Snapshot) -> dict[str, Any]:
    tags = sorted(tag.name for tag in snapshot.tags.values() if state.name in tag.targets)
    is_default = snapshot.default is not None and snapshot.resolve("").revision.name == state.name
    data = {"name": state.name, "tags": tags, "default": is_default}
    if state.served is None:
        return {**data, "error": str(state.error)}
    return {
        **data,
        "istioVersion": state.served.istio_version,
        "versionReason": state.served.version_reason,
        "engine": state.served.engine,
        "fingerprint": state.served.fingerprint,
        "origin": state.served.origin,
    }


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["name"],
        row.get("istioVersion", "-"),
        row.get("versionReason", "broken"),
        row.get("engine", "-"),
        ",".join(row["tags"]) or "-",
        "yes" if row["default"] else "",
        row.get("fingerprint", "-"),
    )

"""``injector revision``: list, verify and remove the revisions of a source."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.commands import EX_DATAERR, EX_FAILED, verbose
from injector.cli.options import SKIP_CONFIRMATION, output_format
from injector.cli.output import confirm, data_text, echo, table
from injector.cli.sources import Sources, chosen_revisions, revision_name, revision_source_options
from injector.cli.status import status
from injector.cli.tag import TagLocation, location_options
from injector.revisions.registry import Registry, Snapshot
from injector.revisions.reload import Loader, LoadReport, RevisionState
from injector.revisions.tagstore import check_removable

if TYPE_CHECKING:
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.revisions.source import SourceState

COLUMNS: Final = ("REVISION", "ISTIO", "WHY", "ENGINE", "TAGS", "DEFAULT", "FINGERPRINT")


@click.group("revision", no_args_is_help=True)
@verbose
def revision() -> None:
    """List, verify and remove revisions, and show which workloads run an older one."""


revision.add_command(status)


@revision.command("list")
@revision_source_options
@output_format("table", "json", "yaml")
@verbose
def list_revisions(sources: Sources, kubeconfig: Kubeconfig, output: str) -> None:
    """List the revisions with their Istio versions and tags."""
    registry, report = _load(sources, kubeconfig)
    rows = [_data(state, registry.snapshot) for state in report.revisions.values()]
    echo(table(COLUMNS, [_cells(row) for row in rows]) if output == "table" else data_text(rows, output), nl=False)
    for error in (*report.errors, *report.webhook_faults):
        echo(f"warning: {error}", err=True)


@revision.command("verify")
@revision_source_options
@verbose
def verify_revisions(sources: Sources, kubeconfig: Kubeconfig) -> None:
    """Build every revision and render built-in pods with it. The exit code is 65 if one fails."""
    _, report = _load(sources, kubeconfig)
    for state in report.revisions.values():
        echo(f"{state.name}: {'ok' if state.error is None else f'error: {state.error}'}")
        for note in state.notes:
            echo(f"{state.name}: note: {note}")
    for error in report.tag_errors:
        echo(f"error: {error}")
    if report.errors:
        click.get_current_context().exit(EX_DATAERR)


@revision.command("remove")
@click.argument("name", metavar="REVISION")
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
        if not (force or skip_confirmation or confirm(f'Remove {what} of revision "{checked}"?')):
            echo("Aborting operation.", err=True)
            click.get_current_context().exit(EX_FAILED)
        store.remove_revision(checked)
    echo(f"Revision {checked} removed")


@dataclass(frozen=True, slots=True)
class _ReadSource:
    """A source that has been read."""

    state: SourceState

    def read(self) -> SourceState:
        return self.state


def _load(sources: Sources, kubeconfig: Kubeconfig) -> tuple[Registry, LoadReport]:
    with chosen_revisions(sources, kubeconfig) as revisions:
        registry = Registry()
        return registry, Loader(_ReadSource(revisions.state), registry).load(time.time())


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

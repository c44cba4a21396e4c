"""``injector revision``: what a source of revisions holds, and whether it works."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.commands import verbose
from injector.cli.failures import EX_DATAERR, EX_FAILED
from injector.cli.flags import FILE, both_spellings
from injector.cli.output import json_text, table, yaml_text
from injector.cli.status import status
from injector.cli.tagflags import place_flags
from injector.cli.terminal import confirm, echo
from injector.cli.webhookflags import revision_name, skip_confirmation
from injector.revisions.directory import DirectorySource, embedded_source
from injector.revisions.registry import Registry
from injector.revisions.reload import Loader
from injector.revisions.tagstore import check_removable

if TYPE_CHECKING:
    from pathlib import Path

    from injector.cli.tagflags import Place
    from injector.revisions.registry import Snapshot
    from injector.revisions.reload import LoadReport, RevisionState

COLUMNS: Final = ("REVISION", "ISTIO", "WHY", "ENGINE", "TAGS", "DEFAULT", "FINGERPRINT")

revisions_dir = click.option(
    *both_spellings("revisionsDir"),
    "revisions_dir",
    type=FILE,
    help="A directory of revisions; the embedded ones without it.",
)


@click.group("revision", no_args_is_help=True)
@verbose
def revision() -> None:
    """List, verify and remove revisions, and see which workloads run an older one."""


revision.add_command(status)


@revision.command("list")
@revisions_dir
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@verbose
def list_revisions(revisions_dir: Path | None, output: str) -> None:
    """List the revisions with the Istio that each is of and why, and the tags that lead to them."""
    registry, report = _load(revisions_dir)
    rows = [_row(state, registry.snapshot) for state in report.revisions.values()]
    match output:
        case "json":
            echo(json_text(rows, indent=2))
        case "yaml":
            echo(yaml_text(rows), nl=False)
        case _:
            echo(table(COLUMNS, [_cells(row) for row in rows]), nl=False)
    for error in report.errors:
        echo(f"warning: {error}", err=True)


@revision.command("verify")
@revisions_dir
@verbose
@click.pass_context
def verify_revisions(ctx: click.Context, revisions_dir: Path | None) -> None:
    """Build every revision and render built-in pods with it; the exit code is 65 when one fails."""
    _, report = _load(revisions_dir)
    for state in report.revisions.values():
        echo(f"{state.name}: {'ok' if state.error is None else f'error: {state.error}'}")
        for note in state.notes:
            echo(f"{state.name}: note: {note}")
    for error in report.tag_errors:
        echo(f"error: {error}")
    if report.errors:
        ctx.exit(EX_DATAERR)


@revision.command("remove")
@click.argument("name", metavar="REVISION")
@skip_confirmation
@click.option("--force", is_flag=True, help="Ask nothing, and remove a revision that is in use too.")
@place_flags
@verbose
@click.pass_context
def remove_revision(
    ctx: click.Context,
    name: str,
    skip_confirmation: bool,  # noqa: FBT001 -- a flag's value
    force: bool,  # noqa: FBT001 -- a flag's value
    place: Place,
) -> None:
    """Take REVISION out of service: its folder, or the cluster's webhooks that send pods to it.

    The ConfigMaps of a cluster stay; they are its control plane's, for `istioctl uninstall --revision`.
    """
    wanted = revision_name(name, flag="REVISION")
    with place.store() as store:
        check_removable(store, wanted, force=force)
        if not (force or skip_confirmation or _confirmed(wanted, place)):
            echo("Aborting operation.", err=True)
            ctx.exit(EX_FAILED)
        store.remove_revision(wanted)
    echo(f"Revision {wanted} removed")


def _confirmed(name: str, place: Place) -> bool:
    """Ask; no answer is no."""
    what = "the webhooks" if place.directory is None else f"the folder {place.directory / name}"
    return confirm(f'Remove {what} of revision "{name}"?')


def _load(directory: Path | None) -> tuple[Registry, LoadReport]:
    registry = Registry()
    source = embedded_source() if directory is None else DirectorySource(directory)
    return registry, Loader(source, registry).load(time.time())


def _row(state: RevisionState, snapshot: Snapshot) -> dict[str, Any]:
    served = state.served
    tags = [tag.name for tag in snapshot.tags.values() if state.name in tag.targets]
    row: dict[str, Any] = {"name": state.name, "tags": sorted(tags), "default": _is_default(state.name, snapshot)}
    if served is None:
        return {**row, "error": str(state.error)}
    return {
        **row,
        "istioVersion": served.istio_version,
        "versionReason": served.version_reason,
        "engine": served.engine,
        "fingerprint": served.fingerprint,
        "origin": served.origin,
    }


def _is_default(name: str, snapshot: Snapshot) -> bool:
    return snapshot.default is not None and snapshot.resolve("").revision.name == name


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    if "error" in row:
        return (row["name"], "-", "broken", "-", ",".join(row["tags"]) or "-", "", "-")
    return (
        row["name"],
        row["istioVersion"],
        row["versionReason"],
        row["engine"],
        ",".join(row["tags"]) or "-",
        "yes" if row["default"] else "",
        row["fingerprint"],
    )

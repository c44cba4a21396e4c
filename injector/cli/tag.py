"""``injector tag``: names for revisions, as ``istioctl tag`` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli import webhookflags as flags
from injector.cli.commands import verbose
from injector.cli.failures import EX_FAILED
from injector.cli.output import json_text, table, yaml_text
from injector.cli.tagflags import place_flags, placement_flags, target_flags
from injector.cli.terminal import confirm, echo
from injector.istio.webhooks import tag_webhook
from injector.revisions.tags import tag_annotations
from injector.revisions.tagstore import DirectoryTags, checked_tag, remove_tag, shown_target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.cli.tagflags import Place, Target
    from injector.revisions.clustertags import Plan
    from injector.revisions.tags import Tag

COLUMNS: Final = ("TAG", "REVISION", "NAMESPACES")


@click.group("tag", no_args_is_help=True)
@verbose
def tag() -> None:
    """Set, list and remove tags, or print the webhooks of one.

    A tag is a name for a revision: namespaces labelled `istio.io/rev=TAG` follow it when it moves.
    """


@tag.command("generate")
@target_flags
@flags.overwrite
@flags.skip_confirmation
@click.option("--offline", is_flag=True, help="Ask neither a cluster nor a directory, and check nothing.")
@placement_flags(in_directory=True)
@verbose
def generate_tag(
    target: Target,
    overwrite: bool,  # noqa: FBT001 -- a flag's value
    skip_confirmation: bool,  # noqa: FBT001 -- a flag's value
    offline: bool,  # noqa: FBT001 -- a flag's value
    place: Place,
) -> None:
    """Print the MutatingWebhookConfiguration of TAG, for `kubectl apply -f -`."""
    if offline:
        echo(yaml_text(_alone(target.tag, place)), nl=False)
        return
    with place.store() as store:
        wanted = checked_tag(store.list(), target.tag, overwrite=overwrite, keep_shadow=target.keep_shadow)
        if isinstance(store, DirectoryTags):
            manifest = _alone(wanted, place)
        else:
            plan = store.plan(wanted)
            manifest = plan.manifest
            if plan.conflicts and not skip_confirmation:
                _warn(plan)
    echo(yaml_text(manifest), nl=False)


@tag.command("set")
@target_flags
@flags.overwrite
@flags.skip_confirmation
@placement_flags(in_directory=False)
@verbose
@click.pass_context
def set_tag_command(
    ctx: click.Context,
    target: Target,
    overwrite: bool,  # noqa: FBT001 -- a flag's value
    skip_confirmation: bool,  # noqa: FBT001 -- a flag's value
    place: Place,
) -> None:
    """Create TAG, or move it with --overwrite."""
    with place.store() as store:
        wanted = checked_tag(store.list(), target.tag, overwrite=overwrite, keep_shadow=target.keep_shadow)
        if isinstance(store, DirectoryTags):
            store.set(wanted)
        else:
            plan = store.plan(wanted)
            if plan.conflicts and not skip_confirmation and not _confirmed(plan):
                ctx.exit(EX_FAILED)
            store.write(plan)
    echo(
        f'Revision tag "{wanted.name}" created, referencing control plane revision "{shown_target(wanted)}". '
        "To enable injection using this\n"
        f"revision tag, use 'kubectl label namespace <NAMESPACE> istio.io/rev={wanted.name}'"
    )


@tag.command("list")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@place_flags
@verbose
def list_tags(place: Place, output: str) -> None:
    """List the tags with their revisions, and the namespaces known to use them."""
    with place.store() as store:
        state, namespaces = store.list(), store.namespaces()
    rows = sorted((_row(tag, namespaces) for tag in state.tags.values()), key=lambda row: (row["revision"], row["tag"]))
    for error in state.faults.values():
        echo(f"warning: {error}", err=True)
    match output:
        case "json":
            echo(json_text(rows, indent="\t"))
        case "yaml":
            echo(yaml_text(rows), nl=False)
        case _ if not rows:
            echo("No Istio revision tags found.")
        case _:
            cells = [
                (row["tag"], shown_target(state.tags[row["tag"]]), ",".join(row["namespaces"]) or "-") for row in rows
            ]
            echo(table(COLUMNS, cells), nl=False)


@tag.command("remove")
@click.argument("name", metavar="TAG")
@click.option("-y", "--skip-confirmation", is_flag=True, help="Nothing, as nothing is asked: see --force.")
@click.option(
    "--force", is_flag=True, help="Remove a tag that is in use too, and let one that is not there be no error."
)
@place_flags
@verbose
def remove_tag_command(
    name: str,
    force: bool,  # noqa: FBT001 -- a flag's value
    place: Place,
    **_: Any,
) -> None:
    """Remove TAG. Namespaces and pods that it is the label of get no sidecars from then on."""
    wanted = flags.tag_name(name)
    with place.store() as store:
        if force and not store.list().has(wanted):
            echo(f"Revision tag {wanted} is not there")
            return
        remove_tag(store, wanted, force=force)
    echo(f"Revision tag {wanted} removed")


def _alone(wanted: Tag, place: Place) -> dict[str, Any]:
    """Return the configuration of a tag as the flags say, whatever there is."""
    return tag_webhook(
        wanted.name,
        wanted.revision,
        place.options,
        webhook_name=place.webhook_name,
        annotations=tag_annotations(wanted),
    )


def _warn(plan: Plan) -> None:
    echo("creating tag would conflict, pass --skip-confirmation to proceed:", err=True)
    for conflict in plan.conflicts:
        echo(f"Error [IST0139] (MutatingWebhookConfiguration {plan.manifest['metadata']['name']}) {conflict}", err=True)


def _confirmed(plan: Plan) -> bool:
    """Ask as istioctl does; no answer is no."""
    _warn(plan)
    return confirm("Apply anyways?")


def _row(tag: Tag, namespaces: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Return a tag as istioctl describes it, with the weights where there are any."""
    row: dict[str, Any] = {"tag": tag.name, "revision": tag.revision, "namespaces": list(namespaces.get(tag.name, ()))}
    return row if len(tag.weights) == 1 else {**row, "weights": dict(tag.weights)}

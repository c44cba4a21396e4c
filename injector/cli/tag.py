"""``injector tag``: names for revisions, as ``istioctl tag`` has them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli import webhookflags as flags
from injector.cli.commands import verbose
from injector.cli.failures import EX_FAILED
from injector.cli.table import table
from injector.errors import UsageError
from injector.istio.webhooks import tag_webhook
from injector.kube.serial import dump_yaml
from injector.revisions.tags import Tag
from injector.revisions.tagstore import DirectoryTags, check_tag, remove_tag, set_tag, shown_target

if TYPE_CHECKING:
    from pathlib import Path

    from injector.istio.webhooks import WebhookOptions
    from injector.revisions.tagstore import TagState

COLUMNS: Final = ("TAG", "REVISION", "NAMESPACES")
WHOLE: Final = 100
"""What the weights of a tag add up to where one of them is left to be worked out."""


@click.group("tag", no_args_is_help=True)
@verbose
def tag() -> None:
    """Set, list and remove tags, or print the webhooks of one.

    A tag is a name for a revision: namespaces labelled `istio.io/rev=TAG` follow it when it moves.
    """


@tag.command("generate")
@click.argument("name", metavar="TAG")
@click.option("-r", "--revision", metavar="REVISION", required=True, help="The revision that the tag leads to.")
@flags.overwrite
@click.option("--webhook-name", metavar="NAME", help="The name of the object, instead of istio-revision-tag-TAG.")
@flags.skip_confirmation
@flags.revisions_dir(required=False, without="nothing is checked without it")
@flags.webhook_flags
@verbose
def generate_tag(
    name: str,
    revision: str,
    overwrite: bool,  # noqa: FBT001 -- a flag's value
    webhook_name: str | None,
    directory: Path | None,
    options: WebhookOptions,
    **_: Any,
) -> None:
    """Print the MutatingWebhookConfiguration of TAG, for `kubectl apply -f -`."""
    wanted = Tag(flags.tag_name(name), ((flags.revision_name(revision), 1),))
    if directory is not None:
        check_tag(DirectoryTags(directory).list(), wanted, overwrite=overwrite)
    named = flags.webhook_name(webhook_name)
    click.echo(dump_yaml(tag_webhook(wanted.name, wanted.revision, options, webhook_name=named)), nl=False)


@tag.command("set")
@click.argument("name", metavar="TAG")
@click.option("-r", "--revision", metavar="REVISION", help="The revision that the tag leads to.")
@click.option(
    "--weight",
    "weights",
    metavar="REVISION=N",
    multiple=True,
    help="The share of a revision where there are several. Repeatable; --revision gets what is left to 100.",
)
@flags.overwrite
@flags.skip_confirmation
@flags.revisions_dir(required=True)
@verbose
def set_tag_command(
    name: str,
    revision: str | None,
    weights: tuple[str, ...],
    overwrite: bool,  # noqa: FBT001 -- a flag's value
    directory: Path,
    **_: Any,
) -> None:
    """Create TAG, or move it with --overwrite."""
    wanted = Tag(flags.tag_name(name), _weights(revision, weights))
    set_tag(DirectoryTags(directory), wanted, overwrite=overwrite)
    click.echo(
        f'Revision tag "{wanted.name}" created, referencing control plane revision "{shown_target(wanted)}". '
        "To enable injection using this\n"
        f"revision tag, use 'kubectl label namespace <NAMESPACE> istio.io/rev={wanted.name}'"
    )


@tag.command("list")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@flags.revisions_dir(required=True)
@verbose
def list_tags(directory: Path, output: str) -> None:
    """List the tags with their revisions, and the namespaces known to use them."""
    state = DirectoryTags(directory).list()
    rows = sorted((_row(tag, state) for tag in state.tags.values()), key=lambda row: (row["revision"], row["tag"]))
    match output:
        case "json":
            click.echo(json.dumps(rows, indent="\t", ensure_ascii=False))
        case "yaml":
            click.echo(dump_yaml(rows), nl=False)
        case _ if not rows:
            click.echo("No Istio revision tags found.")
        case _:
            cells = [
                (row["tag"], shown_target(state.tags[row["tag"]]), ",".join(row["namespaces"]) or "-") for row in rows
            ]
            click.echo(table(COLUMNS, cells), nl=False)


@tag.command("remove")
@click.argument("name", metavar="TAG")
@flags.skip_confirmation
@click.option("--force", is_flag=True, help="Ask nothing, and let a tag that is not there be no error.")
@flags.revisions_dir(required=True)
@verbose
@click.pass_context
def remove_tag_command(
    ctx: click.Context,
    name: str,
    skip_confirmation: bool,  # noqa: FBT001 -- a flag's value
    force: bool,  # noqa: FBT001 -- a flag's value
    directory: Path,
) -> None:
    """Remove TAG. Namespaces that it is the label of get no sidecars from then on."""
    store = DirectoryTags(directory)
    wanted = flags.tag_name(name)
    state = store.list()
    if force and wanted not in state.tags:
        click.echo(f"Revision tag {wanted} is not there")
        return
    users = state.namespaces.get(wanted, ()) if wanted in state.tags else ()
    if users and not (skip_confirmation or force) and not _confirmed(wanted, users):
        click.echo("Aborting operation.", err=True)
        ctx.exit(EX_FAILED)
    remove_tag(store, wanted)
    click.echo(f"Revision tag {wanted} removed")


def _confirmed(name: str, namespaces: tuple[str, ...]) -> bool:
    """Ask as istioctl does; no answer is no."""
    click.echo(
        f'Caution, found {len(namespaces)} namespace(s) still injected by tag "{name}": {" ".join(namespaces)}',
        err=True,
    )
    try:
        return click.confirm("Proceed with operation?", default=False, err=True)
    except click.Abort:
        return False


def _row(tag: Tag, state: TagState) -> dict[str, Any]:
    """Return a tag as istioctl describes it, with the weights where there are any."""
    row: dict[str, Any] = {
        "tag": tag.name,
        "revision": tag.revision,
        "namespaces": list(state.namespaces.get(tag.name, ())),
    }
    return row if len(tag.weights) == 1 else {**row, "weights": dict(tag.weights)}


def _weights(revision: str | None, weights: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    named = None if revision is None else flags.revision_name(revision)
    shares = dict(map(_weight, weights))
    if len(shares) != len(weights):
        raise UsageError("a revision has two weights", where="--weight", hint="name each revision once")
    if named is None and not shares:
        raise UsageError("the tag needs a revision", where="--revision", hint="give --revision REVISION")
    if named is None or named in shares:
        return _some_share(shares)
    if not shares:
        return ((named, 1),)
    rest = WHOLE - sum(shares.values())
    if rest <= 0:
        raise UsageError(
            f"the weights leave nothing of {WHOLE} for `{named}`",
            where="--weight",
            hint=f"lower them, or say --weight {named}=N",
        )
    return ((named, rest), *shares.items())


def _weight(pair: str) -> tuple[str, int]:
    name, equals, number = pair.partition("=")
    if not equals or not (number.isascii() and number.isdecimal()):
        raise UsageError(f"{pair!r} is no weight", where="--weight", hint="write REVISION=N, N a whole number from 0")
    return flags.revision_name(name, flag="--weight"), int(number)


def _some_share(shares: dict[str, int]) -> tuple[tuple[str, int], ...]:
    if not any(shares.values()):
        raise UsageError("every weight is 0", where="--weight", hint="give one revision a weight")
    return tuple(shares.items())

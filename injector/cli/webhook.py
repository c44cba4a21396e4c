"""``injector webhook``: the MutatingWebhookConfigurations that send pods to the injector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from injector.cli.commands import verbose
from injector.cli.output import SEPARATOR
from injector.cli.selection import offline_source
from injector.cli.webhookflags import revision_name, revisions_dir, tag_name, webhook_flags
from injector.errors import UsageError
from injector.istio.webhooks import (
    DEFAULT_NAME,
    UNSERVED_ACTIONS,
    deactivated,
    revision_webhook,
    tag_webhook,
    unserved_webhook,
)
from injector.kube.serial import dump_yaml
from injector.revisions.tags import usable_tags
from injector.revisions.tagstore import DirectoryTags, find_revision, find_tag

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from injector.istio.webhooks import WebhookOptions
    from injector.revisions.tagstore import TagState


@click.group("webhook", no_args_is_help=True)
@verbose
def webhook() -> None:
    """Write the MutatingWebhookConfigurations of revisions and tags."""


@webhook.command("generate")
@click.option("-r", "--revision", metavar="REVISION", help="The one revision to write for.")
@click.option("--tag", metavar="TAG", help="The one tag to write for.")
@click.option(
    "--unserved",
    type=click.Choice(UNSERVED_ACTIONS),
    help="Write for the names that nobody serves instead; its failure policy is always Ignore.",
)
@revisions_dir(required=False, without="the embedded revisions without it")
@webhook_flags
@verbose
def generate(
    revision: str | None, tag: str | None, unserved: str | None, directory: Path | None, options: WebhookOptions
) -> None:
    """Print the MutatingWebhookConfigurations of every revision and tag, or of one, for `kubectl apply -f -`.

    With --unserved it is the one that says so, or refuses, where a pod's or a namespace's istio.io/rev names nothing that
    is served.
    """
    if revision is not None and tag is not None:
        raise UsageError("it is either a revision or a tag", where="--tag", hint="give one of --revision and --tag")
    if unserved is not None:
        if revision is not None or tag is not None:
            raise UsageError(
                "it is written for every name that is not served",
                where="--unserved",
                hint="leave out --revision and --tag",
            )
        click.echo(dump_yaml(unserved_webhook(unserved, options)), nl=False)
        return
    documents = [dump_yaml(document) for document in _chosen(revision, tag, directory, options)]
    click.echo(SEPARATOR.join(documents), nl=False)


def _chosen(
    revision: str | None, tag: str | None, directory: Path | None, options: WebhookOptions
) -> Iterator[dict[str, Any]]:
    if revision is not None:
        name = revision_name(revision)
        if directory is not None:
            find_revision(DirectoryTags(directory).list(), name)
        yield revision_webhook(name, options)
    elif tag is not None:
        name = tag_name(tag)
        if directory is None:
            raise UsageError(
                "nothing says which revision the tag leads to",
                where="--tag",
                hint="give --revisions-dir, or use `injector tag generate TAG --revision REVISION`",
            )
        yield tag_webhook(name, find_tag(DirectoryTags(directory).list(), name).revision, options)
    else:
        yield from _all(DirectoryTags(offline_source(directory).path).list(), options)


def _all(state: TagState, options: WebhookOptions) -> Iterator[dict[str, Any]]:
    """Yield what serves each revision and tag that can be reached; what cannot is named on stderr."""
    tags, faults = usable_tags(state.tags, state.revisions)
    for error in (*state.broken.values(), *faults):
        click.echo(f"warning: {error}", err=True)
    for name in state.revisions:
        document = revision_webhook(name, options)
        yield deactivated(document) if name == DEFAULT_NAME and name in tags else document
    for tag in tags.values():
        yield tag_webhook(tag.name, tag.revision, options)

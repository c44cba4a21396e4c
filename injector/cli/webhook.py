"""``injector webhook``: the MutatingWebhookConfigurations that send pods to the injector."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from injector.cli.clusterflags import cluster_flags, opened_cluster
from injector.cli.commands import verbose
from injector.cli.output import SEPARATOR, yaml_text
from injector.cli.selection import offline_source
from injector.cli.terminal import echo
from injector.cli.webhookflags import revision_name, revisions_dir, tag_name, webhook_flags
from injector.errors import ClusterError, InjectorError, TagError, UsageError
from injector.istio.webhooks import (
    DEFAULT_NAME,
    UNSERVED_ACTIONS,
    deactivated,
    revision_webhook,
    tag_webhook,
    unserved_webhook,
)
from injector.revisions.tags import tag_annotations, usable_tags
from injector.revisions.tagstore import DirectoryTags

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from injector.cluster.kubeconfig import Kubeconfig
    from injector.istio.webhooks import WebhookOptions
    from injector.revisions.clustertags import ClusterTags
    from injector.revisions.tags import Tag
    from injector.revisions.tagstore import TagState

F = TypeVar("F", bound="Callable[..., Any]")

_KIND: Final = "mutatingwebhookconfiguration.admissionregistration.k8s.io"
_APPLIED: Final = {
    "none": "serverside-applied",
    "server": "serverside-applied (server dry run)",
    "client": "serverside-applied (dry run)",
}
"""What became of an object, in kubectl's words, by ``--dry-run``."""


@click.group("webhook", no_args_is_help=True)
@verbose
def webhook() -> None:
    """Print or apply the MutatingWebhookConfigurations of revisions and tags."""


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
    wanted = _wanted(revision, tag)
    if unserved is not None:
        if wanted != (None, None):
            raise UsageError(
                "it is written for every name that is not served",
                where="--unserved",
                hint="leave out --revision and --tag",
            )
        echo(yaml_text(unserved_webhook(unserved, options)), nl=False)
        return
    if directory is not None or wanted == (None, None):
        chosen = _chosen(*wanted, DirectoryTags(offline_source(directory).path).list())
    elif wanted[0] is not None:
        chosen = _Chosen((wanted[0],))
    else:
        raise UsageError(
            "nothing says which revision the tag leads to",
            where="--tag",
            hint="give --revisions-dir, or use `injector tag generate TAG --revision REVISION`",
        )
    replaced = any(each.name == DEFAULT_NAME for each in chosen.tags)
    documents = [_revision(name, options, replaced=replaced) for name in chosen.revisions]
    documents += [
        tag_webhook(each.name, each.revision, options, annotations=tag_annotations(each)) for each in chosen.tags
    ]
    echo(SEPARATOR.join(map(yaml_text, documents)), nl=False)


@dataclass(frozen=True, slots=True)
class _How:
    """How ``apply`` writes, and what it says of each object that it wrote."""

    dry_run: str
    force: bool

    def tag(self, cluster: ClusterTags, tag: Tag) -> str:
        plan = cluster.plan(tag)
        for conflict in plan.conflicts:
            echo(f"warning: {plan.manifest['metadata']['name']}: {conflict}", err=True)
        if self.dry_run != "client":
            cluster.write(plan, force=self.force, dry_run=self.dry_run == "server")
        return self._line(plan.manifest)

    def revision(self, cluster: ClusterTags, manifest: dict[str, Any]) -> str:
        if self.dry_run != "client":
            cluster.write_revision(manifest, force=self.force, dry_run=self.dry_run == "server")
        return self._line(manifest)

    def _line(self, manifest: dict[str, Any]) -> str:
        return f"{_KIND}/{manifest['metadata']['name']} {_APPLIED[self.dry_run]}"


def _how_flags(command: F) -> F:
    """Add the flags of ``_How``, as the parameter ``how``."""

    @click.option(
        "--dry-run",
        type=click.Choice(list(_APPLIED)),
        default="none",
        show_default=True,
        help="With `server` the API server checks it and writes nothing; with `client` it is not sent.",
    )
    @click.option(
        "--force-conflicts", is_flag=True, help="Take over fields that another manager has, as with `kubectl apply`."
    )
    @functools.wraps(command)
    def with_how(*args: Any, dry_run: str, force_conflicts: bool, **kwargs: Any) -> Any:
        return command(*args, how=_How(dry_run, force_conflicts), **kwargs)

    return cast("F", with_how)


@webhook.command("apply")
@click.option("-r", "--revision", metavar="REVISION", help="The one revision to apply.")
@click.option("--tag", metavar="TAG", help="The one tag to apply.")
@_how_flags
@revisions_dir(required=False, without="the revisions and tags of the cluster without it")
@cluster_flags
@webhook_flags
@verbose
def apply(
    revision: str | None,
    tag: str | None,
    directory: Path | None,
    kubeconfig: Kubeconfig,
    options: WebhookOptions,
    how: _How,
) -> None:
    """Apply the MutatingWebhookConfigurations of every revision and tag, or of one, to the cluster.

    A caBundle that is there stays, unless --ca-bundle gives another.
    """
    wanted = _wanted(revision, tag)
    # Imported here, since only this needs what writes to a cluster, and --help does not.
    from injector.revisions.clustertags import ClusterTags, Placement  # noqa: PLC0415

    placement = Placement({each.name: getattr(options, each.name) for each in fields(options)}, inherit_bundle=False)
    with opened_cluster(kubeconfig) as reached:
        cluster = ClusterTags(reached, options.istio_namespace, placement)
        if directory is None:
            state = cluster.list()
        else:
            state = DirectoryTags(directory).list()
            cluster.refresh()
        _apply(cluster, _chosen(*wanted, state), options, how)


def _apply(cluster: ClusterTags, chosen: _Chosen, options: WebhookOptions, how: _How) -> None:
    """Apply tags, then revisions, so that the default tag is there before the revision of its name is deactivated."""
    done: list[str] = []
    try:
        done += [how.tag(cluster, tag) for tag in chosen.tags]
        replaced = bool(cluster.refresh().of_tag(DEFAULT_NAME)) or any(tag.name == DEFAULT_NAME for tag in chosen.tags)
        for name in chosen.revisions:
            done.append(how.revision(cluster, _revision(name, options, replaced=replaced)))
    except InjectorError as error:
        echo("".join(f"{line}\n" for line in done), err=True, nl=False)
        if isinstance(error, ClusterError) and error.reason == "conflict" and not how.force:
            raise TagError(
                error.what, where=error.where, hint="add --force-conflicts to take these fields over"
            ) from error
        raise
    echo("".join(f"{line}\n" for line in done), nl=False)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The revisions and tags to write for."""

    revisions: tuple[str, ...] = ()
    tags: tuple[Tag, ...] = ()


def _wanted(revision: str | None, tag: str | None) -> tuple[str | None, str | None]:
    """Return the one revision or tag that is asked for, checked; neither means all."""
    if revision is not None and tag is not None:
        raise UsageError("it is either a revision or a tag", where="--tag", hint="give one of --revision and --tag")
    return None if revision is None else revision_name(revision), None if tag is None else tag_name(tag)


def _chosen(revision: str | None, tag: str | None, state: TagState) -> _Chosen:
    """Return what is asked for; of all what can be reached, and what cannot is named on stderr."""
    if revision is not None:
        state.check_revision(revision)
        return _Chosen((revision,))
    if tag is not None:
        return _Chosen(tags=(state.find_tag(tag),))
    tags, faults = usable_tags(state.tags, state.revisions)
    for error in (*state.broken.values(), *state.faults.values(), *faults):
        echo(f"warning: {error}", err=True)
    return _Chosen(state.revisions, tuple(tags.values()))


def _revision(name: str, options: WebhookOptions, *, replaced: bool) -> dict[str, Any]:
    """Return the configuration of a revision; ``replaced`` says that a tag takes the default's place."""
    document = revision_webhook(name, options)
    return deactivated(document) if replaced and name == DEFAULT_NAME else document

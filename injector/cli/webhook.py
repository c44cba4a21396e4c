"""``injector webhook``: the MutatingWebhookConfigurations that send pods to the injector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.commands import Subcommands, verbose
from injector.cli.options import dry_run_option, option_group, refuse_unused
from injector.cli.output import echo, examples, print_warning, yaml_text
from injector.cli.sources import (
    check_cluster,
    complete_names,
    directory_source,
    kubeconfig_options,
    revision_name,
    revision_option,
    revisions_dir,
    tag_name,
)
from injector.cli.webhookoptions import webhook_options
from injector.cluster.resources import WEBHOOKS, Resource
from injector.errors import ClusterError, InjectorError, TagError, UsageError
from injector.istio.labels import DEFAULT_NAME
from injector.istio.webhooks.configurations import (
    UNSERVED_ACTIONS,
    WebhookOptions,
    deactivate,
    revision_webhook,
    tag_webhook,
    unserved_webhook,
)
from injector.revisions.clustertags import ClusterTags, Placement, owned_lines
from injector.revisions.tags import Tag, tag_annotations, usable_tags
from injector.revisions.tagstore import DirectoryTags, TagState

if TYPE_CHECKING:
    from pathlib import Path

    from injector.cluster.kubeconfig import Kubeconfig


_APPLIED: Final = {
    "none": "serverside-applied",
    "server": "serverside-applied (server dry run)",
    "client": "serverside-applied (dry run)",
}
"""The words of kubectl for each object, by ``--dry-run``."""


@dataclass(frozen=True, slots=True)
class WebhookSelection:
    """The one revision or tag on the command line. Without any, the command works on all."""

    revision: str | None = None
    tag: str | None = None

    @property
    def is_all(self) -> bool:
        """Whether the command works on all revisions and tags."""
        return self.revision is None and self.tag is None

    def among(self, state: TagState) -> tuple[tuple[str, ...], tuple[Tag, ...]]:
        """Return the chosen revisions and tags. Of all, print a warning for those that cannot be used.

        Raises:
            TagError: the chosen one does not exist or cannot be read.
        """
        if self.revision is not None:
            state.check_revision(self.revision)
            return (self.revision,), ()
        if self.tag is not None:
            return (), (state.find_tag(self.tag),)
        tags, faults = usable_tags(state.tags, state.revisions)
        for error in (*state.broken.values(), *state.faults.values(), *faults):
            echo(f"warning: {error}", err=True)
        return state.revisions, tuple(tags.values())


def _choice(revision: str | None, tag: str | None) -> WebhookSelection:
    if revision is not None and tag is not None:
        raise UsageError("--revision and --tag exclude each other", hint="give one of the two")
    return WebhookSelection(
        None if revision is None else revision_name(revision), None if tag is None else tag_name(tag)
    )


_CHOICE: Final = option_group(
    "choice",
    _choice,
    revision_option("Only this revision.", "REVISION"),
    click.option("--tag", metavar="TAG", shell_complete=complete_names, help="Only this tag."),
)


@click.group("webhook", cls=Subcommands, no_args_is_help=True)
@verbose
def webhook() -> None:
    """Print or apply the MutatingWebhookConfigurations of revisions and tags."""


@webhook.command(
    "generate",
    epilog=examples(
        "webhook generate | kubectl apply -f -",
        "webhook generate --revisions-dir revisions",
        "webhook generate --unserved warn",
    ),
)
@_CHOICE
@click.option(
    "--unserved",
    type=click.Choice(UNSERVED_ACTIONS),
    help="Instead, print the webhook for unknown revisions and tags. Its failure policy is always Ignore.",
)
@revisions_dir("the revisions and tags in the cluster")
@kubeconfig_options
@webhook_options
@verbose
def generate(
    *,
    choice: WebhookSelection,
    unserved: str | None,
    revisions_dir: Path | None,
    kubeconfig: Kubeconfig,
    options: WebhookOptions,
) -> None:
    """Print the MutatingWebhookConfigurations of all revisions and tags, or of one, for `kubectl apply -f -`.

    --revision alone does not look the name up, so it needs no revisions.

    With --unserved, print the one that warns about or refuses pods whose istio.io/rev label, or that of their namespace, names an
    unknown revision or tag.
    """
    if unserved is not None:
        if not choice.is_all:
            raise UsageError(
                "this webhook is for every unknown name", where="--unserved", hint="leave out --revision and --tag"
            )
        refuse_unused("with --unserved", "revisions_dir", "embedded", "paths", "context_name")
        echo(yaml_text(unserved_webhook(unserved, options)), nl=False)
        return
    revisions: tuple[str, ...]
    tags: tuple[Tag, ...]
    state = TagState({}, ())
    if revisions_dir is not None:
        refuse_unused(f"with {directory_source()}", "paths", "context_name", hint="leave one of the two out")
    if revisions_dir is None and choice.revision is not None:
        refuse_unused("with --revision, which needs no cluster", "paths", "context_name")
        revisions, tags = (choice.revision,), ()
    else:
        state = _list_state(revisions_dir, kubeconfig, options)
        revisions, tags = choice.among(state)
        if not revisions and not tags:
            where = str(revisions_dir or f"namespace {options.istio_namespace}")
            hint = "give --revisions-dir, --istio-namespace or --revision"
            raise UsageError("no Istio revision found", where=where, hint=hint)
    has_default_tag = any(tag.name == DEFAULT_NAME for tag in tags)
    documents = [
        _revision_manifest(name, state.webhook_options(name, options), has_default_tag=has_default_tag)
        for name in revisions
    ]
    for tag in tags:
        own = state.webhook_options(tag.revision, options)
        documents.append(tag_webhook(tag.name, tag.revision, own, annotations=tag_annotations(tag)))
    echo("---\n".join(map(yaml_text, documents)), nl=False)


def _list_state(directory: Path | None, kubeconfig: Kubeconfig, options: WebhookOptions) -> TagState:
    """Return the revisions and tags of a directory, or else of the cluster. Raises NotConfiguredError without one."""
    if directory is not None:
        return DirectoryTags(directory).list()
    check_cluster(kubeconfig)
    from injector.cluster.session import open_session  # noqa: PLC0415 -- a directory needs no event loop

    with open_session(kubeconfig) as session:
        return ClusterTags(session, options.istio_namespace, Placement({})).list()


def _revision_manifest(name: str, options: WebhookOptions, *, has_default_tag: bool) -> dict[str, Any]:
    """Return the configuration of a revision. A tag ``default`` replaces the webhooks of a revision ``default``."""
    manifest = revision_webhook(name, options)
    return deactivate(manifest) if has_default_tag and name == DEFAULT_NAME else manifest


@webhook.command("apply", epilog=examples("webhook apply --dry-run server", "webhook apply --revision 1-30"))
@_CHOICE
@dry_run_option(server="the API server checks the objects without saving them", client="nothing is sent")
@click.option(
    "--force-conflicts", is_flag=True, help="Take over fields that another manager has, as with `kubectl apply`."
)
@revisions_dir("the revisions and tags in the cluster", has_embedded=False)
@kubeconfig_options
@webhook_options
@verbose
def apply(
    *,
    choice: WebhookSelection,
    revisions_dir: Path | None,
    kubeconfig: Kubeconfig,
    options: WebhookOptions,
    dry_run: str,
    force_conflicts: bool,
) -> None:
    """Apply the MutatingWebhookConfigurations of all revisions and tags, or of one, and the other objects of tags to the cluster.

    An existing caBundle stays unless --ca-bundle gives another one.
    """
    from injector.cluster.session import open_session  # noqa: PLC0415 -- the other commands need no event loop

    lines: list[str] = []
    with open_session(kubeconfig) as session:
        values = {field.name: getattr(options, field.name) for field in fields(options)}
        cluster = ClusterTags(session, options.istio_namespace, Placement(values, inherit_bundle=False))
        if revisions_dir is None:
            state = cluster.list()
        else:
            state = DirectoryTags(revisions_dir).list()
            cluster.refresh()
        try:
            for resource, name in _apply(cluster, choice, state, options, dry_run=dry_run, force=force_conflicts):
                lines.append(f"{_kubectl_name(resource)}/{name} {_APPLIED[dry_run]}\n")
        except InjectorError as error:
            echo("".join(lines), err=True, nl=False)
            if isinstance(error, ClusterError) and error.reason == "conflict" and not force_conflicts:
                hint = "add --force-conflicts to take over these fields"
                raise TagError(error.what, where=error.where, hint=hint) from error
            raise
    echo("".join(lines), nl=False)


def _apply(
    cluster: ClusterTags,
    choice: WebhookSelection,
    state: TagState,
    options: WebhookOptions,
    *,
    dry_run: str,
    force: bool,
) -> Iterator[tuple[Resource, str]]:
    """Write the objects as the flags say, and yield the resource and the name of each one that is written."""
    revisions, tags = choice.among(state)
    has_default_tag = False
    # Tags come first, so that the default tag exists before the revision of this name is deactivated.
    for tag in tags:
        has_default_tag = has_default_tag or tag.name == DEFAULT_NAME
        plan = cluster.plan(tag, state.texts.get(tag.revision))
        for conflict in plan.conflicts:
            echo(f"warning: {plan.manifest['metadata']['name']}: {conflict}", err=True)
        for line in plan.owned:
            print_warning(line)
        if dry_run != "client":
            cluster.write(plan, force=force, dry_run=dry_run == "server")
        yield from plan.objects
    configurations = cluster.refresh()
    has_default_tag = has_default_tag or bool(configurations.of_tag(DEFAULT_NAME))
    for name in revisions:
        own = state.webhook_options(name, options)
        manifest = _revision_manifest(name, own, has_default_tag=has_default_tag)
        current = configurations.find(manifest["metadata"]["name"])
        for line in owned_lines([] if current is None else [(WEBHOOKS, current)]):
            print_warning(line)
        if dry_run != "client":
            cluster.write_revision(manifest, force=force, dry_run=dry_run == "server")
        yield WEBHOOKS, manifest["metadata"]["name"]


def _kubectl_name(resource: Resource) -> str:
    """Return the name of a resource in kubectl's messages, such as ``deployment.apps``."""
    group = resource.api_version.rpartition("/")[0]
    return f"{resource.kind.lower()}.{group}".rstrip(".")

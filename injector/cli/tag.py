"""``injector tag``: names for revisions, as ``istioctl tag`` has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.commands import DRY_RUN_FLAG, Subcommands, verbose
from injector.cli.options import (
    REVISION_FLAG,
    SKIP_CONFIRMATION,
    dry_run_option,
    option_group,
    output_format,
)
from injector.cli.output import (
    HEADINGS,
    confirm,
    data_text,
    echo,
    echo_colored,
    examples,
    is_terminal,
    print_warning,
    table,
    yaml_text,
)
from injector.cli.sources import (
    ISTIO_NAMESPACE_OPTION,
    ByCluster,
    complete_names,
    kubeconfigs_options,
    on_each,
    revision_name,
    revision_option,
    tag_name,
)
from injector.cli.taglocation import DIRECTORY_OPTION, TagLocation, location_options, write_options
from injector.cli.webhookoptions import WEBHOOK_PARAMETERS
from injector.errors import UsageError
from injector.fleet.gateways import minors_of, outage_notes, read_gateways
from injector.fleet.replicas import ask_replicas, warnings_about_targets
from injector.hints import fitting_names
from injector.istio.webhooks.configurations import WebhookOptions, tag_webhook
from injector.kube.escaping import printable
from injector.kube.selectors import is_dns_label
from injector.revisions.clustertags import owned_lines
from injector.revisions.tags import MAX_WEIGHT, Shadow, Tag, Weights, destination, namespace_weights, tag_annotations
from injector.revisions.tagstore import DirectoryTags, TagState, check_tag, remove_tag

if TYPE_CHECKING:
    from pathlib import Path

    from injector.cluster.kubeconfig import Kubeconfig
    from injector.cluster.resources import Resource
    from injector.fleet.gateways import GatewayView, OwnerChange
    from injector.revisions.clustertags import ClusterTags, TagPlan

NAMESPACE_WEIGHT: Final = "--namespace-weight"
WHOLE: Final = 100
"""The sum of a tag's weights if ``--revision`` gets the rest."""
_LONGEST: Final = 20
"""The most characters of a number. Python refuses to convert some thousand digits."""


@dataclass(frozen=True, slots=True)
class TagChange:
    """The tag to write, whether it may replace one of its name, and which parts of that one it keeps."""

    tag: Tag
    overwrite: bool = False
    keep_shadow: bool = True
    keep_namespaces: bool = True

    def check(self, state: TagState) -> Tag:
        """Return the tag as it is to be written; see ``check_tag``."""
        keep = {"keep_shadow": self.keep_shadow, "keep_namespaces": self.keep_namespaces}
        return check_tag(state, self.tag, overwrite=self.overwrite, **keep)


def _tag_change(  # noqa: PLR0913 -- one parameter for each flag
    *,
    name: str,
    revision: str | None,
    weights: tuple[str, ...],
    salt: str | None,
    shadow: str | None,
    no_shadow: bool,
    namespace_weights: tuple[str, ...],
    no_namespace_weights: bool,
    overwrite: bool,
) -> TagChange:
    if shadow is not None and no_shadow:
        raise UsageError("--shadow and --no-shadow exclude each other", hint="give one of the two")
    candidate, namespaces = None if shadow is None else _shadow(shadow), _namespace_weights(namespace_weights)
    tag = Tag(tag_name(name), _weights(revision, weights), salt or "", candidate, namespaces)
    return TagChange(tag, overwrite, not no_shadow, not no_namespace_weights)


tag_change_options: Final = option_group(
    "change",
    _tag_change,
    click.argument("name", metavar="TAG", shell_complete=complete_names),
    revision_option("Revision that the tag refers to.", "REVISION"),
    click.option(
        "--weight",
        "weights",
        metavar="REVISION=N",
        multiple=True,
        help="Share of the workloads for a revision. Repeatable. --revision gets the rest of 100.",
    ),
    click.option(
        "--salt", metavar="TEXT", help="Hash seed for assigning workloads to revisions. Default: the tag's name."
    ),
    click.option(
        "--shadow", metavar="REVISION[=PERCENT]", help="Candidate revision to try on a sample of the requests."
    ),
    click.option("--no-shadow", is_flag=True, help="Remove the tag's shadow."),
    click.option(
        NAMESPACE_WEIGHT,
        "namespace_weights",
        metavar="NAMESPACE/REVISION[=N]",
        multiple=True,
        help="Share of the workloads of a namespace for a revision, instead of the tag's weights. Repeatable.",
    ),
    click.option("--no-namespace-weights", is_flag=True, help="Remove the weights that namespaces have so far."),
    click.option("--overwrite", is_flag=True, help="Move the tag if it already exists."),
)


def _shadow(text: str) -> Shadow:
    name, equals, percent = text.partition("=")
    revision = revision_name(name, flag="--shadow")
    if not equals:
        return Shadow(revision)
    is_number = len(percent) <= _LONGEST and percent.isascii() and percent.replace(".", "", 1).isdecimal()
    if not (is_number and float(percent) <= WHOLE):
        hint = f"write REVISION=N, N from 0 to {WHOLE}"
        raise UsageError(f"{percent!r} is not a percentage", where="--shadow", hint=hint)
    return Shadow(revision, float(percent) if "." in percent else int(percent))


def _weights(revision: str | None, weights: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    name = None if revision is None else revision_name(revision)
    shares = dict(map(_weight, weights))
    if len(shares) != len(weights):
        raise UsageError("a revision has two weights", where="--weight", hint="give each revision once")
    if name is None and not shares:
        raise UsageError("the tag needs a revision", where=REVISION_FLAG, hint=f"give {REVISION_FLAG} REVISION")
    if name is None or name in shares:
        if not any(shares.values()):
            raise UsageError("every weight is 0", where="--weight", hint="give one revision a weight above 0")
        _check_sum(shares, "--weight", f", or {REVISION_FLAG} REVISION for the rest" if name is None else "")
        return tuple(shares.items())
    if not shares:
        return ((name, 1),)
    rest = WHOLE - sum(shares.values())
    if rest <= 0:
        raise UsageError(
            f"the weights leave nothing of {WHOLE} for `{name}`",
            where="--weight",
            hint=f"lower them, or give --weight {name}=N",
        )
    return ((name, rest), *shares.items())


def _check_sum(shares: Mapping[str, int], flag: str, more: str = "") -> None:
    """Raise UsageError unless the weights sum to 100: with another sum, a weight is not the percentage that it seems to be."""
    if (total := sum(shares.values())) != WHOLE:
        raise UsageError(f"the weights sum to {total}", where=flag, hint=f"give weights that sum to {WHOLE}{more}")


def _weight(pair: str, flag: str = "--weight") -> tuple[str, int]:
    name, _, number = pair.partition("=")
    is_number = len(number) <= _LONGEST and number.isascii() and number.isdecimal()
    if not (is_number and int(number) <= MAX_WEIGHT):
        hint = f"write REVISION=N, N a whole number from 0 to {MAX_WEIGHT}"
        raise UsageError(f"{pair!r} is not a weight", where=flag, hint=hint)
    return revision_name(name, flag=flag), int(number)


def _namespace_weights(options: tuple[str, ...]) -> dict[str, Weights]:
    by_namespace: dict[str, dict[str, int]] = {}
    for text in options:
        namespace, slash, pair = text.partition("/")
        if not slash or not is_dns_label(namespace):
            hint = "write NAMESPACE/REVISION, or NAMESPACE/REVISION=N for several revisions"
            raise UsageError(f"{text[:80]!r} is not a weight of a namespace", where=NAMESPACE_WEIGHT, hint=hint)
        name, number = _weight(pair if "=" in pair else f"{pair}={WHOLE}", flag=NAMESPACE_WEIGHT)
        shares = by_namespace.setdefault(namespace, {})
        if name in shares:
            what = f"revision {name} has two weights in namespace {namespace}"
            raise UsageError(what, where=NAMESPACE_WEIGHT, hint="give each revision once")
        shares[name] = number
    for namespace, shares in by_namespace.items():
        if not any(shares.values()):
            what = f"every weight of namespace {namespace} is 0"
            raise UsageError(what, where=NAMESPACE_WEIGHT, hint="give one revision a weight above 0")
        _check_sum(shares, f"{NAMESPACE_WEIGHT}: namespace {namespace}")
    return {
        namespace: tuple(shares.items()) if len(shares) > 1 else ((next(iter(shares)), 1),)
        for namespace, shares in by_namespace.items()
    }


@click.group("tag", cls=Subcommands, no_args_is_help=True)
@verbose
def tag() -> None:
    """Set, list and remove tags, or print the webhooks of a tag.

    A tag is a name for a revision. Namespaces with the label `istio.io/rev=TAG` use the revision that the tag refers to.
    """


@tag.command("generate", epilog=examples("tag generate prod --revision 1-24 | kubectl apply -f -"))
@tag_change_options
@SKIP_CONFIRMATION
@click.option("--offline", is_flag=True, help="Read neither a cluster nor a directory, and skip all checks.")
@write_options
@verbose
def generate(*, change: TagChange, skip_confirmation: bool, offline: bool, location: TagLocation) -> None:
    """Print the MutatingWebhookConfiguration of TAG, and with a cluster its other objects, for `kubectl apply -f -`."""
    if offline:
        manifests = [_webhook_of(change.tag, location)]
    else:
        with location.store() as store:
            state = store.list()
            new = change.check(state)
            if isinstance(store, DirectoryTags):
                options = state.webhook_options(new.revision, location.options)
                manifests = [_webhook_of(new, replace(location, options=options))]
            else:
                plan = store.plan(new)
                manifests = [plan.manifest, *(manifest for _, manifest, _ in plan.dependents)]
                if not skip_confirmation:
                    _print_conflicts(plan)
    echo("---\n".join(map(yaml_text, manifests)), nl=False)


def _webhook_of(new: Tag, location: TagLocation) -> dict[str, Any]:
    """Return the configuration of a tag from the command line alone."""
    name, annotations = location.webhook_name, tag_annotations(new)
    return tag_webhook(new.name, new.revision, location.options, webhook_name=name, annotations=annotations)


@tag.command(
    "set",
    epilog=examples(
        "tag set prod --revision 1-24",
        "tag set prod --revision 1-24 --weight 1-30=10 --overwrite",
        "tag set prod --revision 1-24 --shadow 1-30=5 --overwrite --dry-run",
    ),
)
@tag_change_options
@SKIP_CONFIRMATION
@dry_run_option(client="print the change and write nothing", server="the API server checks the objects too")
@write_options
@verbose
def set_tag(*, change: TagChange, skip_confirmation: bool, dry_run: str, location: TagLocation) -> None:
    """Create TAG, or move it with --overwrite."""
    location.check_unused("webhook_name", *WEBHOOK_PARAMETERS)
    objects: tuple[tuple[Resource, str], ...] = ()
    with location.store() as store:
        state = store.list()
        new = change.check(state)
        if not isinstance(store, DirectoryTags):
            plan = store.plan(new)
            for line in plan.owned:
                print_warning(line)
            _print_gateways(store, state, new)
            if plan.conflicts and not skip_confirmation:
                _print_conflicts(plan)
                if dry_run == "none":
                    confirm("Apply anyways?")
            if dry_run != "client":
                store.write(plan, dry_run=dry_run == "server")
            objects = plan.objects
        elif dry_run == "server":
            raise UsageError("a directory has no API server", where=DRY_RUN_FLAG, hint=f"give {DRY_RUN_FLAG}=client")
        elif dry_run == "none":
            store.set(new)
    if unchanged := new.namespaces.keys() - change.tag.namespaces.keys():
        names = fitting_names(unchanged)
        echo(f"note: these namespaces keep their own weights: {names}; --no-namespace-weights removes them", err=True)
    done = _change_of(new, state)
    if dry_run != "none":
        echo(f'Revision tag "{new.name}" would be {done}, referencing control plane revision "{new.destination}".')
        echo("".join(f"{resource.kind} {name} would be written\n" for resource, name in objects), nl=False)
        return
    # The texts are istioctl's, which says "created" in any case. Scripts may compare them.
    echo(
        f'Revision tag "{new.name}" {done if is_terminal() else "created"}, '
        f'referencing control plane revision "{new.destination}". To enable injection using this\n'
        f"revision tag, use 'kubectl label namespace <NAMESPACE> istio.io/rev={new.name}'"
    )


def _change_of(new: Tag, state: TagState) -> str:
    """Return the word for a change: a tag is created, moved, or changed in another part alone."""
    if not state.has(new.name):
        return "created"
    before = state.tags.get(new.name)
    return "changed" if before is not None and before.destination == new.destination else "moved"


def _print_gateways(store: ClusterTags, state: TagState, new: Tag) -> None:
    """Print the Gateways whose owner changes with a tag, and how the owner is decided if the tag has several revisions."""
    view = _read_gateways(store, state)
    hint = "an Upgrade moves them one at a time, see docs/gateways.md"
    what = f"these Gateways change their owner when the tag is written, all at once; {hint}"
    _print_owner_changes(view, view.changes(new.name, new.revision), what)
    if len(new.weights) > 1 and any(new.revision in view.owners(gateway) for gateway in view.gateways):
        what = f"Gateways have no weights: those of the tag belong to {new.revision}, which has the largest weight"
        echo(f"note: {what}", err=True)


def _read_gateways(store: ClusterTags, state: TagState) -> GatewayView:
    revisions = minors_of(state.texts.values(), state.revisions)
    return store.cluster.run(lambda client: read_gateways(client, store.istio_namespace, revisions, state.tags))


def _print_owner_changes(view: GatewayView, changes: Sequence[OwnerChange], what: str) -> None:
    if view.unknown:
        echo(f"warning: {view.unknown}", err=True)
    if changes:
        echo(f"warning: {what}:", err=True)
    for change in changes:
        echo(f"  {printable(str(change.gateway))} ({printable(change.gateway.class_name)}): {change.way}", err=True)
    for note in outage_notes(view, changes):
        echo(f"warning: {note}", err=True)


def _print_conflicts(plan: TagPlan) -> None:
    if plan.conflicts:
        echo("creating tag would conflict, pass --skip-confirmation to proceed:", err=True)
    for conflict in plan.conflicts:
        echo(f"Error [IST0139] (MutatingWebhookConfiguration {plan.manifest['metadata']['name']}) {conflict}", err=True)


@tag.command("list", epilog=examples("tag list", "tag list --revisions-dir revisions -o yaml"))
@output_format("table", "json", "yaml")
@DIRECTORY_OPTION
@kubeconfigs_options
@ISTIO_NAMESPACE_OPTION
@verbose
def list_tags(
    *, revisions_dir: Path | None, kubeconfigs: tuple[Kubeconfig, ...], istio_namespace: str, output: str
) -> None:
    """List the tags with their revisions, the namespaces that use them, and their shadows."""
    options = WebhookOptions(istio_namespace=istio_namespace)
    locations = {kubeconfig: TagLocation(revisions_dir, kubeconfig, options) for kubeconfig in kubeconfigs}
    locations[kubeconfigs[0]].check_unused("paths", "context_names", "istio_namespace")
    by_cluster = on_each(kubeconfigs, lambda kubeconfig: _list_tags(locations[kubeconfig]))
    by_cluster.note("warning", lambda result: result.faults)
    by_cluster.note("note", lambda result: [note for tag in result.tags for note in tag.weight_notes])
    tags = by_cluster.data(lambda result: {"tags": [_data(tag, result.namespaces) for tag in result.tags]})
    data = tags if "clusters" in tags else tags["tags"]
    if output != "table":
        echo(data_text(data, output, indent="\t"), nl=False)
    elif any(result.tags for result in by_cluster.results.values()):
        echo_colored(_table(by_cluster), HEADINGS)
    elif by_cluster.results:  # a cluster could be read
        echo("No Istio revision tags found.")
    by_cluster.exit(has_findings=False)


@dataclass(frozen=True, slots=True)
class _Tags:
    """The tags of a cluster or of a directory, the namespaces that use each, and what is wrong."""

    tags: Sequence[Tag]
    namespaces: Mapping[str, tuple[str, ...]]
    faults: Sequence[object]


def _list_tags(location: TagLocation) -> _Tags:
    with location.store() as store:
        state, namespaces = store.list(), store.namespaces()
        ask = None if isinstance(store, DirectoryTags) else partial(ask_replicas, store.cluster, store.configurations)
        broken = warnings_about_targets(state, ask)
    tags = sorted(state.tags.values(), key=lambda listed: (listed.revision, listed.name))
    return _Tags(tags, namespaces, (*state.faults.values(), *broken, *state.webhook_faults))


def _table(by_cluster: ByCluster[_Tags]) -> str:
    """Return the tags in istioctl's columns, and in further ones for shadows and the weights of namespaces if there are any."""
    cells: dict[str, Callable[[Tag, _Tags], str]] = {
        "TAG": lambda tag, _: tag.name,
        "REVISION": lambda tag, _: tag.destination,
        "NAMESPACES": lambda tag, result: ",".join(result.namespaces.get(tag.name, ())) or "-",
    }
    tags = [tag for result in by_cluster.results.values() for tag in result.tags]
    if any(tag.shadow for tag in tags):
        cells["SHADOW"] = lambda tag, _: f"{tag.shadow.revision}={tag.shadow.sample}" if tag.shadow else "-"
    if any(tag.namespaces for tag in tags):
        cells["NAMESPACE-WEIGHTS"] = lambda tag, _: (
            ";".join(f"{name}/{destination(weights)}" for name, weights in tag.namespaces.items()) or "-"
        )
    rows = by_cluster.rows(lambda result: [[cell(tag, result) for cell in cells.values()] for tag in result.tags])
    return table(by_cluster.columns(*cells), rows)


def _data(tag: Tag, namespaces: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Return a tag as istioctl prints it, with its weights if it has several, its shadow, and the weights of namespaces."""
    data: dict[str, Any] = {"tag": tag.name, "revision": tag.revision}
    data["namespaces"] = list(namespaces.get(tag.name, ()))
    if len(tag.weights) > 1:
        data["weights"] = dict(tag.weights)
    if tag.shadow is not None:
        data["shadow"] = tag.shadow.to_dict()
    if tag.namespaces:
        data["namespaceWeights"] = namespace_weights(tag)
    return data


@tag.command("remove", epilog=examples("tag remove prod"))
@click.argument("name", metavar="TAG", shell_complete=complete_names)
@click.option(
    "-y", "--skip-confirmation", is_flag=True, expose_value=False, help="No effect; accepted for compatibility."
)
@click.option("--force", is_flag=True, help="Remove a tag that is in use, and succeed if the tag does not exist.")
@location_options
@verbose
def remove(*, name: str, force: bool, location: TagLocation) -> None:
    """Remove TAG. New pods in namespaces with its label, or with its label themselves, get no sidecar."""
    checked = tag_name(name)
    with location.store() as store:
        if force and not store.list().has(checked):
            echo(f"Revision tag {checked} does not exist")
            return
        if not isinstance(store, DirectoryTags):
            view = _read_gateways(store, store.list())
            what = "these Gateways change their owner when the tag is removed, all at once"
            _print_owner_changes(view, view.changes_of_removal(checked), what)
        remove_tag(store, checked, force=force)
        if not isinstance(store, DirectoryTags):
            for line in owned_lines(store.objects_of(checked)):  # as they were read before
                print_warning(line)
    echo(f"Revision tag {checked} removed")

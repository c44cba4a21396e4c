"""``injector analyze``: Istio's analyzer messages that concern injection, for manifests or for a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.commands import EX_ISSUES, verbose
from injector.cli.manifests import OTHER_KINDS_OPTION
from injector.cli.options import ALL_FLAG, ALL_NAMESPACES, FILENAME, output_format, refuse_unused
from injector.cli.output import data_text, echo, echo_colored, examples
from injector.cli.sources import chosen_revisions, namespace_option, revision_source_options
from injector.cluster import resources as r
from injector.cluster.kubeconfig import DEFAULT_NAMESPACE
from injector.cluster.resources import ObjectReader, Scope
from injector.errors import ClusterError, DataError, ManifestError, UsageError
from injector.fleet.files import FileReader, open_reader
from injector.fleet.sources import RevisionSources, directory_revisions
from injector.fleet.workloads import LISTED
from injector.istio import analysis
from injector.istio.analysis import ERROR, INFO, LEVELS, MESSAGES, WARNING, Diagnostic, Item, Mesh
from injector.istio.behaviours import Minor, parse_minor
from injector.istio.webhooks import ISTIO_NAMESPACE, read_configuration
from injector.kube.escaping import escape_line
from injector.kube.pods import add_place
from injector.revisions.clustersource import listed_state
from injector.revisions.configmaps import INJECTOR
from injector.revisions.source import known_minor

if TYPE_CHECKING:
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.kube.pods import OtherKinds
    from injector.revisions.source import SourceState

_LEVEL: Final = click.Choice(LEVELS, case_sensitive=False)
_COLORS: Final = {f"^{ERROR}": "1;31", f"^{WARNING}": "33", f"^{INFO}": "0"}


async def read_items(reader: ObjectReader, namespace: str, default: str, others: OtherKinds) -> list[Item]:
    """Return the objects to analyze. Raises DataError if one cannot be read.

    ``namespace`` is the only one; empty for all. ``default`` is the namespace of objects that name none.
    """
    found = [await reader.find_resource(*each) for each in others]
    resources = (r.SERVICES, r.PODS, *LISTED, *(each for each in found if each is not None))
    items = await _items(reader, Scope(r.NAMESPACES, name=namespace), "", others)
    for resource in resources:
        items += await _items(reader, Scope(resource, namespace), default, others)
    return items


async def _items(reader: ObjectReader, scope: Scope, default: str, others: OtherKinds) -> list[Item]:
    resource = scope.resource

    def keep(obj: dict[str, Any]) -> Item | None:
        version = obj.get("apiVersion", resource.api_version)
        if resource is r.SERVICES and version != resource.api_version:
            return None  # a Service of Knative
        typed = {**obj, "apiVersion": version, "kind": resource.kind}
        place = _place(reader, obj)
        try:
            return analysis.item_of(typed, default, others, place=place)
        except ManifestError as error:
            add_place(error, typed, place)
            raise

    return await reader.all(scope, keep)


def _place(reader: ObjectReader, obj: Mapping[str, Any]) -> str:
    return reader.place_of(obj) if isinstance(reader, FileReader) else ""


async def read_state(reader: ObjectReader, sources: RevisionSources) -> SourceState | None:
    """Return the revisions of the directory, or else of the reader; None for files without revisions and without webhooks.

    Raises:
        DataError: the revisions or a webhook cannot be read.
    """
    if sources.revisions_dir is not None:
        return directory_revisions(sources.revisions_dir).state
    state = await listed_state(reader, sources.istio_namespace)
    if not isinstance(reader, FileReader) or state.revisions or state.failures:
        return state
    return state if await reader.all(Scope(r.WEBHOOKS), read_configuration) else None


async def read_mesh(
    reader: ObjectReader, state: SourceState, namespace: str, items: Sequence[Item], oldest: Minor | None = None
) -> Mesh:
    """Return the facts that decide about the injection of all objects. Raises DataError if a webhook cannot be read.

    In a cluster, the revisions and tags that webhooks are called for are served. For files, those of ``state`` are, unless the files have
    webhooks. ``namespace`` is Istio's. ``oldest`` is the minor that control planes are upgraded from; default: that of the oldest
    revision.
    """
    placed = await reader.all(Scope(r.WEBHOOKS), lambda obj: (read_configuration(obj), _place(reader, obj)))
    configurations = [configuration for configuration, _ in placed]
    names = (state.served_names or None) if isinstance(reader, FileReader) else frozenset[str]()
    values = await r.find_object(reader, r.CONFIG_MAPS, INJECTOR, namespace=namespace)
    zipkin = await r.find_object(reader, r.SERVICES, analysis.ZIPKIN, namespace=ISTIO_NAMESPACE)
    called = sorted({each for configuration in configurations for each in analysis.services_of(configuration)})
    # Files may leave out the Services of a namespace.
    known = {each.namespace for each in items if each.kind == r.SERVICES.kind}
    checked = [each for each in called if not isinstance(reader, FileReader) or each.partition("/")[0] in known]
    missing = [
        each
        for each in checked
        for place, _, name in [each.partition("/")]
        if await r.find_object(reader, r.SERVICES, name, namespace=place) is None
    ]
    minors = [minor for raw in state.revisions if (minor := known_minor(raw)) is not None]
    return Mesh(
        configurations,
        names,
        frozenset(missing),
        namespace,
        by_default=analysis.injects_by_default(values or {}),
        oldest=oldest or min(minors, default=None),
        zipkin=None if zipkin is None else Item(r.SERVICES.kind, analysis.ZIPKIN, ISTIO_NAMESPACE),
        places={configuration["metadata"]["name"]: place for configuration, place in placed},
    )


def _codes(_context: click.Context, _option: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 -- click's signature
    if wanted:
        echo("".join(f"{code} {level}: {text}\n" for code, (level, text) in MESSAGES.items()), nl=False)
        click.get_current_context().exit()


def _suppressions(_context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    for each in given:
        code, separator, name = each.partition("=")
        if not separator or not name:
            hint = 'write "IST0103=Pod *.shop"'
            raise UsageError(f"{each[:80]!r} is not CODE=KIND NAME", where=option.opts[-1], hint=hint)
        if code not in MESSAGES:
            echo(f"warning: {code[:80]!r} is not a known message code and has no effect", err=True)
    return given


def _from_version(_context: click.Context, option: click.Parameter, text: str | None) -> Minor | None:
    try:
        return None if text is None else parse_minor(text)
    except DataError as error:
        raise UsageError(error.what, where=option.opts[-1], hint="write it as 1.21") from error


@click.command(
    "analyze",
    epilog=examples(
        "analyze -f docs/samples/hello.yaml",
        "analyze --all-namespaces",
        "analyze -n shop -o json",
    ),
)
@click.argument("arguments", nargs=-1, metavar="[FILE]...")
@FILENAME
@namespace_option("Only this namespace. Default: the context's; with FILES, all namespaces.")
@ALL_NAMESPACES
@click.option(
    "-S",
    "--suppress",
    multiple=True,
    metavar="CODE=KIND NAME",
    callback=_suppressions,
    help='Leave out a message, such as "IST0103=Pod *.shop". * stands for any text. Repeatable.',
)
@click.option(
    "--failure-threshold", type=_LEVEL, default=ERROR, show_default=True, help="Least level for exit code 79."
)
@click.option("--output-threshold", type=_LEVEL, default=INFO, show_default=True, help="Least level to print.")
@click.option(
    "--from-version",
    "oldest",
    metavar="MINOR",
    callback=_from_version,
    help="Minor to upgrade from, for IST0169. Default: that of the oldest revision.",
)
@click.option(
    "--color", is_flag=False, flag_value="true", type=bool, metavar="BOOL", help="Color levels. Default: on a terminal."
)
@click.option(
    "-L",
    "--list-analyzers",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_codes,
    help="List the messages.",
)
@revision_source_options
@OTHER_KINDS_OPTION
@output_format("log", "json", "yaml")
@verbose
def analyze(  # noqa: PLR0913 -- one parameter for each flag
    *,
    arguments: tuple[str, ...],
    filenames: tuple[str, ...],
    namespace: str | None,
    every: bool,
    suppress: tuple[str, ...],
    failure_threshold: str,
    output_threshold: str,
    oldest: Minor | None,
    color: bool | None,
    sources: RevisionSources,
    kubeconfig: Kubeconfig,
    others: OtherKinds,
    output: str,
) -> None:
    """Report mistakes that concern injection, for FILES or for the cluster, as istioctl does.

    The messages have the codes, levels and texts of `istioctl analyze`. FILES need revisions too, for the names that labels may have:
    those of Istio's ConfigMaps or webhooks in FILES, of --revisions-dir, or of the cluster. Nothing else is read from the cluster then.
    The exit code is 79 if a message reaches the failure threshold, and as with istioctl only for the format `log`.
    """
    files = (*arguments, *filenames)
    if every and namespace and not files:
        raise UsageError(f"-n and {ALL_FLAG} exclude each other", hint="give one of the two")
    if files and sources.revisions_dir is not None:
        refuse_unused("with FILES and a directory of revisions", "paths", "context_name")
    only = None if every else namespace or (None if files else kubeconfig.namespace())

    async def work(reader: ObjectReader) -> list[Diagnostic]:
        items = await read_items(reader, "" if files else only or "", namespace or DEFAULT_NAMESPACE, others)
        if only is not None and not files and not any(each.home == only for each in items):
            raise ClusterError(f"namespace {only!r} not found", hint="check the name", reason="missing")
        mesh = await read_mesh(reader, state, sources.istio_namespace, items, oldest)
        return analysis.analyze(items, mesh)

    with open_reader(files, kubeconfig, recursive=True) as session:
        known = session.run(lambda reader: read_state(reader, sources))
        if known is None:
            with chosen_revisions(sources, kubeconfig) as revisions:
                known = revisions.state
        state = known
        messages = session.run(work)
    found = [
        each
        for each in messages
        if each.item.home in ("", only or each.item.home)
        and not any(analysis.suppresses(pattern, each) for pattern in suppress)
    ]
    shown = [each for each in found if each.is_at_least(output_threshold)]
    if output == "log":
        echo_colored("".join(f"{each.level} {escape_line(each.line)}\n" for each in shown), _COLORS, with_color=color)
    else:
        echo(data_text([each.data() for each in shown], output, indent="\t"), nl=False)
    target = "all namespaces" if only is None else f"namespace: {only}"
    if not shown:
        echo(f"\u2714 No validation issues found when analyzing {', '.join(files) or target}.", err=True)
    if output == "log" and any(each.is_at_least(failure_threshold) for each in found):
        echo(f"error: Analyzers found issues when analyzing {target}.", err=True)
        click.get_current_context().exit(EX_ISSUES)

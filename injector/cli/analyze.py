"""``injector analyze``: Istio's analyzer messages that concern injection, for manifests or for a cluster."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

import click

from injector.cli.commands import EX_ISSUES, verbose
from injector.cli.manifests import OTHER_KINDS_OPTION
from injector.cli.options import ALL_FLAG, ALL_NAMESPACES, FILENAME, output_format, refuse_unused
from injector.cli.output import data_text, echo, echo_colored, examples
from injector.cli.sources import namespace_option, revision_source_options, select_revisions
from injector.cluster.kubeconfig import DEFAULT_NAMESPACE
from injector.errors import ClusterError, DataError, UsageError
from injector.fleet.analyze import injection_messages, read_items, read_mesh, read_own_revisions
from injector.fleet.files import open_reader
from injector.istio import analysis
from injector.istio.analysis import ERROR, INFO, LEVELS, MESSAGES, WARNING, Diagnostic, Item
from injector.istio.behaviours import Minor, parse_minor
from injector.kube.escaping import escape_line

if TYPE_CHECKING:
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.cluster.resources import ObjectReader
    from injector.fleet.sources import RevisionSources
    from injector.kube.podtemplates import OtherKinds

_LEVEL: Final = click.Choice(LEVELS, case_sensitive=False)
_COLORS: Final = {f"^{ERROR}": "1;31", f"^{WARNING}": "33", f"^{INFO}": "0"}


def _codes(_context: click.Context, _option: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 -- click's signature
    if wanted:
        echo("".join(f"{code} {level}: {text}\n" for code, (level, text) in MESSAGES.items()), nl=False)
        click.get_current_context().exit()


def _suppressions(_context: click.Context, option: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    for suppression in names:
        code, separator, name = suppression.partition("=")
        if not separator or not name:
            hint = 'write "IST0103=Pod *.shop"'
            raise UsageError(f"{suppression[:80]!r} is not CODE=KIND NAME", where=option.opts[-1], hint=hint)
        if code not in MESSAGES:
            echo(f"warning: {code[:80]!r} is not a known message code and has no effect", err=True)
    return names


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
    Messages with INJ are the injector's own: what Istio accepts, and what then does not work.
    The exit code is 79 if a message reaches the failure threshold, and as with istioctl only for the format `log`.
    """
    files = (*arguments, *filenames)
    if every and namespace and not files:
        raise UsageError(f"-n and {ALL_FLAG} exclude each other", hint="give one of the two")
    if files and sources.revisions_dir is not None:
        refuse_unused("with FILES and a directory of revisions", "paths", "context_name")
    only = None if every else namespace or (None if files else kubeconfig.namespace())

    async def work(reader: ObjectReader) -> tuple[list[Item], list[Diagnostic]]:
        items = await read_items(reader, "" if files else only or "", namespace or DEFAULT_NAMESPACE, others)
        if only is not None and not files and not any(item.home == only for item in items):
            raise ClusterError(f"namespace {only!r} not found", hint="check the name", reason="missing")
        mesh = await read_mesh(reader, listed.state, sources.istio_namespace, items, oldest)
        return items, analysis.analyze(items, mesh)

    with open_reader(files, kubeconfig, recursive=True, namespace=namespace or DEFAULT_NAMESPACE) as session:
        known = session.run(lambda reader: read_own_revisions(reader, sources))
        with nullcontext(known) if known is not None else select_revisions(sources, kubeconfig) as listed:
            items, messages = session.run(work)
            messages += injection_messages(session, items, listed, sources, None if files else only)
    diagnostics = [
        diagnostic
        for diagnostic in analysis.in_order(messages)
        if diagnostic.item.home in ("", only or diagnostic.item.home)
        and not any(analysis.suppresses(pattern, diagnostic) for pattern in suppress)
    ]
    visible = [diagnostic for diagnostic in diagnostics if diagnostic.is_at_least(output_threshold)]
    if output == "log":
        echo_colored(
            "".join(f"{diagnostic.level} {escape_line(diagnostic.line)}\n" for diagnostic in visible),
            _COLORS,
            with_color=color,
        )
    else:
        echo(data_text([diagnostic.data() for diagnostic in visible], output, indent="\t"), nl=False)
    target = "all namespaces" if only is None else f"namespace: {only}"
    if not visible:
        echo(f"\u2714 No validation issues found when analyzing {', '.join(files) or target}.", err=True)
    if output == "log" and any(diagnostic.is_at_least(failure_threshold) for diagnostic in diagnostics):
        echo(f"error: Analyzers found issues when analyzing {target}.", err=True)
        click.get_current_context().exit(EX_ISSUES)

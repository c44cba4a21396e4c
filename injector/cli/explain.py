"""``injector explain``: why pods are injected or not, step by step, for manifests or for a cluster.

The first steps lead from a pod's labels, a webhook's path or a name to a revision that is not built yet. ``istio.webhooks.matching``
decides which webhook the API server calls. The other steps are those of the injection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.commands import EX_DATAERR, is_file_name, verbose
from injector.cli.manifests import read_files, read_workloads, workload_options
from injector.cli.options import ALL_FLAG, ALL_NAMESPACES, GUARD, PRECEDENCE_FLAG, REVISION_FLAG, output_format
from injector.cli.output import data_text, echo, echo_colored, examples, with_progress
from injector.cli.sources import cluster_options, precedence_option, revision_option, select_file_revisions
from injector.errors import UsageError
from injector.fleet.explain import Assumptions, WorkloadDecision, explain_files, explain_live
from injector.fleet.files import open_cluster
from injector.fleet.manifests import SELECTOR_FLAG, WorkloadFiles
from injector.fleet.routing import RequestedName
from injector.fleet.workloads import parse_target
from injector.injection.tools.explain import REFUSED
from injector.istio.labels import NAMESPACE
from injector.istio.webhooks.paths import PATH_PREFIX
from injector.kube.escaping import escape_line
from injector.revisions.names import parse_path

if TYPE_CHECKING:
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.fleet.sources import RevisionSources


PATH_FLAG: Final = "--path"
LABELS_FLAG: Final = "--namespace-labels"
_COLORS: Final = {
    r"^\S.*: injected(?: by \S+)? \([^()]*\)$": "32",
    r"^\S.*: skipped(?: by \S+)? \([^()]*\)$": "33",
    r"^\S.*: refused(?: by \S+)? \([^()]*\)$": "31",
    r"^  Error .*": "31",
    r"^  Warning .*": "33",
}


@click.command(
    "explain",
    epilog=examples(
        "explain deploy/hello.shop",
        "explain -n shop",
        "explain -f app.yaml --namespace-labels istio.io/rev=canary",
    ),
)
@click.argument("target", metavar="[[TYPE/]NAME[.NAMESPACE]]", required=False)
@workload_options("Default namespace. Without NAME or FILES, explain every workload in it.")
@ALL_NAMESPACES
@revision_option("Use this revision or tag instead of the labels. For FILES.")
@click.option(PATH_FLAG, metavar="PATH", help="Use this path of a webhook, such as /inject/prod. For FILES.")
@click.option(
    LABELS_FLAG,
    "namespace_labels",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="Labels of the workloads' namespace. Default: those of the Namespace objects in FILES.",
)
@precedence_option("For FILES.")
@cluster_options
@GUARD
@output_format("text", "json", "yaml")
@verbose
def explain(  # noqa: PLR0913 -- one parameter for each flag
    *,
    target: str | None,
    files: WorkloadFiles,
    every: bool,
    revision: str | None,
    path: str | None,
    namespace_labels: tuple[str, ...],
    precedence: str,
    sources: RevisionSources,
    kubeconfig: Kubeconfig,
    guard: str,
    output: str,
) -> None:
    """Explain step by step why pods of the FILES or of the cluster are injected or not.

    For FILES, the webhooks in the files decide, or without any, Istio's own for the revisions and tags. --path or --revision
    override that. For a workload of the cluster, or for all in a namespace, the command uses the labels and webhooks of the cluster.
    The exit code is 65 if a pod would be refused.
    """
    namespace = files.namespace
    _check_input(target, files, every=every)
    if not files.filenames:
        only_files: dict[str, object] = {
            REVISION_FLAG: revision,
            PATH_FLAG: path,
            LABELS_FLAG: namespace_labels,
            PRECEDENCE_FLAG: precedence != NAMESPACE,
            "--recursive": files.recursive,
        }
        for flag, value in only_files.items():
            if value:
                raise UsageError("only for FILES, not for the cluster", where=flag, hint="leave it out")
        name = None
        if target is not None:
            name = parse_target(target, namespace=namespace, default=kubeconfig.namespace(), others=files.others)
        with open_cluster(kubeconfig) as session:
            explanations, notes = explain_live(session, sources, name or namespace, files, guard, with_progress)
    else:
        assumed = Assumptions(_requested_name(revision, path), _labels(namespace_labels), precedence)
        reader = read_files(files)
        workloads = read_workloads(files, reader)
        with select_file_revisions(reader, sources, kubeconfig) as revisions:
            explanations, notes = explain_files(reader, revisions, sources, workloads, guard, assumed)
    for note in notes:
        echo(f"note: {note}", err=True)
    if output == "text":
        echo_colored("\n".join(map(as_text, explanations)), _COLORS)
    else:
        echo(data_text({"workloads": [as_data(explanation) for explanation in explanations]}, output), nl=False)
    if any(explanation.decision.outcome == REFUSED for explanation in explanations):
        click.get_current_context().exit(EX_DATAERR)


def as_text(explanation: WorkloadDecision) -> str:
    """Return an explanation for people: a line for each step and message."""
    decision = explanation.decision
    by = f" by {explanation.revision}" if explanation.revision else ""
    names, verdicts = (
        max(map(len, column)) for column in zip(*((s.step, s.verdict) for s in decision.steps), strict=True)
    )
    steps = "".join(
        f"  {step.step:{names}}  {step.verdict:{verdicts}}  {escape_line(explanation.detail(step))}  [{escape_line(step.source)}]\n"
        for step in decision.steps
    )
    messages = "".join(f"  {message.level} {escape_line(message.line)}\n" for message in explanation.messages)
    return f"{explanation.workload}: {decision.outcome}{by} ({decision.reason})\n{steps}{messages}"


def as_data(explanation: WorkloadDecision) -> dict[str, Any]:
    """Return an explanation as JSON data."""
    workload, decision = explanation.workload, explanation.decision
    return {
        **workload.data(),
        "outcome": decision.outcome,
        "reason": decision.reason,
        "revision": explanation.revision,
        "tag": explanation.tag,
        "steps": [
            {"step": step.step, "verdict": step.verdict, "detail": explanation.detail(step), "source": step.source}
            for step in decision.steps
        ],
        "messages": [message.data() for message in explanation.messages],
    }


def _check_input(target: str | None, files: WorkloadFiles, *, every: bool) -> None:
    """Refuse a command line that names no workloads, or names them in two ways, by a UsageError."""
    names = {"NAME": target, "-f": files.filenames, ALL_FLAG: every}
    if len(conflicting := [name for name, value in names.items() if value]) > 1:
        hint = "give NAME, -n or -A for workloads of the cluster, or -f for files"
        raise UsageError(f"{conflicting[0]} and {conflicting[1]} exclude each other", hint=hint)
    if not conflicting and not files.namespace:
        hint = "give NAME, -n NAMESPACE or -A for workloads of the cluster, or -f FILE (- for stdin)"
        raise UsageError("no workload is given", hint=hint)
    if every and files.namespace:
        raise UsageError(f"-n and {ALL_FLAG} exclude each other", hint="give one of the two")
    if target and is_file_name(target):
        raise UsageError(f"{target!r} is a file, not the name of a workload", hint=f"give it by a flag: `-f {target}`")
    if target and not files.selector.is_empty:
        raise UsageError(f"NAME and {SELECTOR_FLAG} exclude each other", hint="give one of the two")


def _requested_name(revision: str | None, path: str | None) -> RequestedName:
    if revision is not None and path is not None:
        raise UsageError(f"{REVISION_FLAG} and {PATH_FLAG} exclude each other", hint="give one of the two")
    if revision is not None:
        return RequestedName(revision, REVISION_FLAG, must_exist=True)
    if path is None:
        return RequestedName()
    if path != PATH_PREFIX and not path.startswith(f"{PATH_PREFIX}/"):
        hint = f"write {PATH_PREFIX} or {PATH_PREFIX}/NAME"
        raise UsageError(f"{path!r} is not a path of the webhook", where=PATH_FLAG, hint=hint)
    parsed = parse_path(path)
    return RequestedName(parsed.name, PATH_FLAG, parsed.envs)


def _labels(labels: tuple[str, ...]) -> dict[str, str] | None:
    if not labels:
        return None
    pairs = [pair.partition("=") for text in labels for pair in text.split(",") if pair]
    for name, separator, value in pairs:
        if not separator or not name:
            hint = "write istio-injection=enabled"
            raise UsageError(f"{name + value!r} is not a label", where=LABELS_FLAG, hint=hint)
    return {name.strip(): value.strip() for name, _, value in pairs}

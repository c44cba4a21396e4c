"""``injector explain``: why pods are injected, or why not, step by step: those of manifests, or of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.clusterflags import ISTIO_NAMESPACE_FLAG, cluster_flags
from injector.cli.clusterview import (
    NAME_LABEL,
    Sources,
    Target,
    parse_target,
    read_surroundings,
    read_target,
    read_targets,
    reading,
)
from injector.cli.commands import verbose
from injector.cli.failures import EX_DATAERR
from injector.cli.flags import FILE, FILENAME, GUARD, NODE_VERSION, RECURSIVE, both_spellings
from injector.cli.inputs import read_workloads
from injector.cli.output import data_text
from injector.cli.route import NO_WEBHOOK, REVISION, Asked, Labels, called_last, delivery_steps, live_route, route
from injector.cli.selection import REVISION_FLAG, offline_source
from injector.cli.terminal import echo
from injector.errors import UsageError
from injector.injection.result import ENFORCE, RequestFacts
from injector.injection.tools.explain import PASSED, REFUSED, Step, Trace, trace_pod
from injector.injection.tools.podchanges import hiding_of
from injector.kube.escaping import escape_line
from injector.revisions.build import Overrides, build, overridden
from injector.revisions.tags import workload_key
from injector.webhook.path import PREFIX, parse_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from injector.cli.clusterview import Surroundings
    from injector.cli.route import Routed
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.cluster.reader import Reader
    from injector.istio.revision import Revision
    from injector.kube.pods import Created
    from injector.revisions.source import RawRevision, SourceState

TEXT: Final = "text"


@dataclass(frozen=True, slots=True)
class Explained:
    """One workload with its trace, and the revision and tag that it came to."""

    workload: Created
    trace: Trace
    revision: str | None
    tag: str | None


def explained_by(
    workload: Created, routed: Routed | Trace, build: Callable[[RawRevision], Revision], guard: str = ENFORCE
) -> Explained:
    """Return the trace of one workload from where its webhook led.

    ``build`` makes the revision that it led to, and ``guard`` is one of ``result.GUARDS``.

    Raises:
        DataError: the revision cannot be built.
    """
    if isinstance(routed, Trace):
        return Explained(workload, routed, None, None)
    revision = build(routed.raw)
    facts = RequestFacts(workload.namespace, routed.envs, revision.namespaces.get(workload.namespace), guard)
    trace = trace_pod(revision, workload.pod, facts).after(*routed.steps, _revision_step(revision))
    return Explained(workload, trace, revision.name, routed.tag)


def _revision_step(revision: Revision) -> Step:
    detail = f"{revision.name}: Istio {revision.istio_version} ({revision.version_reason}), engine {revision.engine}"
    return Step(REVISION, PASSED, detail, revision.origin)


def rendered(explained: list[Explained], output: str) -> str:
    """Return the traces as text, or as ``json`` or ``yaml``; no detail has a value of the users' variables."""
    if output == TEXT:
        return "\n".join(_text(each) for each in explained)
    return data_text({"workloads": [_data(each) for each in explained]}, output)


def _text(each: Explained) -> str:
    by = f" by {each.revision}" if each.revision else ""
    lines = [f"{each.workload}: {each.trace.outcome}{by} ({each.trace.reason})"]
    names = max(len(step.step) for step in each.trace.steps)
    verdicts = max(len(step.verdict) for step in each.trace.steps)
    lines += [
        f"  {step.step:{names}}  {step.verdict:{verdicts}}  {escape_line(_detail(each, step))}  [{escape_line(step.source)}]"
        for step in each.trace.steps
    ]
    return "".join(f"{line}\n" for line in lines)


def _data(each: Explained) -> dict[str, Any]:
    return {
        "kind": each.workload.kind,
        "namespace": each.workload.namespace,
        "name": each.workload.name,
        "outcome": each.trace.outcome,
        "reason": each.trace.reason,
        "revision": each.revision,
        "tag": each.tag,
        "steps": [
            {"step": step.step, "verdict": step.verdict, "detail": _detail(each, step), "source": step.source}
            for step in each.trace.steps
        ],
    }


def _detail(each: Explained, step: Step) -> str:
    return hiding_of(each.workload.pod).without_values(step.detail)


@dataclass(frozen=True, slots=True)
class LiveExplanation:
    """The traces of workloads, and what the user should know of how they were told."""

    explained: list[Explained]
    notes: tuple[str, ...]


async def explain_live(reader: Reader, sources: Sources, wanted: Target | str | None) -> LiveExplanation:
    """Return the traces of one workload, or of all of a namespace.

    Raises:
        InjectorError: the workload, its namespace, a webhook or the revisions cannot be read.
    """
    if isinstance(wanted, Target):
        namespace: str | None = wanted.namespace
        workloads = [await read_target(reader, wanted)]
    else:
        namespace = wanted
        workloads = await read_targets(reader, namespace)
    around = await read_surroundings(reader, sources, namespace)
    explained = [await _explained(reader, each, around, sources.guard) for each in workloads]
    notes = around.built.notes if workloads else (*around.built.notes, f"there is no workload in namespace {namespace}")
    return LiveExplanation(explained, notes)


async def _explained(reader: Reader, workload: Created, around: Surroundings, guard: str) -> Explained:
    labels = labels_of(workload, around)
    routed = live_route(around, labels)
    webhook = called_last(around.webhooks, labels)
    delivery = () if webhook is None else await delivery_steps(reader, webhook)
    first, *rest = routed.steps
    return explained_by(workload, replace(routed, steps=(first, *delivery, *rest)), around.built.revision, guard)


def labels_of(workload: Created, around: Surroundings) -> Labels:
    """Return what tells where the pod of a workload goes."""
    meta = workload.pod["metadata"]
    return Labels(
        around.namespaces[workload.namespace],
        meta.get("labels") or {},
        meta.get("annotations") or {},
        workload_key(workload.pod, workload.namespace),
    )


FORMATS: Final = (TEXT, "json", "yaml")
PATH_FLAG: Final = "--path"
LABELS_FLAG: Final = "--namespace-labels"


@dataclass(frozen=True, slots=True)
class _Flags:
    """What the flags say of the files, and of what is asked about them."""

    named: tuple[str, ...]
    recursive: bool
    revision: str | None
    path: str | None
    namespace: str | None
    namespace_labels: tuple[str, ...]


@click.command("explain")
@click.argument("target", metavar="[[TYPE/]NAME[.NAMESPACE]]", required=False)
@FILENAME
@RECURSIVE
@click.option(*both_spellings("revisionsDir"), "revisions_dir", type=FILE, help="A directory of revisions.")
@click.option("-r", REVISION_FLAG, metavar="NAME", help="The revision or tag, whatever the labels say.")
@click.option(PATH_FLAG, metavar="PATH", help="The path that a webhook calls, such as /inject/prod.")
@click.option("-n", "--namespace", metavar="NAME", help="The namespace of what names none; alone, all of it.")
@click.option(
    LABELS_FLAG,
    "namespace_labels",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="The labels of the workloads' namespace; without it those of a Namespace among the FILES.",
)
@ISTIO_NAMESPACE_FLAG
@cluster_flags
@NODE_VERSION
@GUARD
@click.option("-o", "--output", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True)
@verbose
def explain(  # noqa: PLR0913 -- one parameter for each flag
    *,
    target: str | None,
    named: tuple[str, ...],
    recursive: bool,
    revisions_dir: Path | None,
    revision: str | None,
    path: str | None,
    namespace: str | None,
    namespace_labels: tuple[str, ...],
    istio_namespace: str,
    kubeconfig: Kubeconfig,
    node_version: tuple[str, ...],
    guard: str,
    output: str,
) -> None:
    """Say step by step why the pods of the FILES, or of the cluster, are injected, or why not.

    For FILES the labels of pod and namespace tell which of Istio's webhooks is called, for which tag or revision; --path or
    --revision say it instead. A workload of the cluster, or all of a namespace, is taken with the labels and webhooks that are
    there. Ends with 65 where a pod would be refused.
    """
    flags = _Flags(named, recursive, revision, path, namespace, namespace_labels)
    sources = Sources(revisions_dir, istio_namespace, Overrides(node_versions=node_version), guard)
    live = bool(target or (namespace and not named))
    explained = _of_cluster(target, flags, sources, kubeconfig) if live else _of_files(flags, sources)
    echo(rendered(explained, output), nl=False)
    if any(each.trace.outcome == REFUSED for each in explained):
        click.get_current_context().exit(EX_DATAERR)


def _of_cluster(target: str | None, flags: _Flags, sources: Sources, kubeconfig: Kubeconfig) -> list[Explained]:
    given = {
        "-f": flags.named,
        REVISION_FLAG: flags.revision,
        PATH_FLAG: flags.path,
        LABELS_FLAG: flags.namespace_labels,
    }
    for flag, value in given.items():
        if value:
            raise UsageError("it is for files, and the cluster is asked", where=flag, hint="leave it out")
    wanted = None
    if target is not None:
        wanted = parse_target(target, namespace=flags.namespace, default=kubeconfig.namespace())
    found = reading((), kubeconfig, lambda reader: explain_live(reader, sources, wanted or flags.namespace))
    for note in found.notes:
        echo(f"note: {note}", err=True)
    return found.explained


def _of_files(flags: _Flags, sources: Sources) -> list[Explained]:
    asked, labels = _asked(flags.revision, flags.path), _labels(flags.namespace_labels)
    workloads = read_workloads(flags.named, recursive=flags.recursive, namespace=flags.namespace)
    source = offline_source(sources.revisions_dir)
    explainer = _Explainer(source.read(), str(source.path), asked, sources)
    by_namespace = workloads.namespace_labels if labels is None else dict.fromkeys(workloads.namespaces, labels)
    explained = [explainer.explained(each, by_namespace.get(each.namespace, {})) for each in workloads.created]
    for name in _unlabelled(explained, by_namespace):
        echo(f"note: nothing says which labels namespace {name} has; give {LABELS_FLAG}", err=True)
    return explained


class _Explainer:
    """Explains workloads by the revisions of one source, each of which is built once."""

    def __init__(self, state: SourceState, where: str, asked: Asked, sources: Sources) -> None:
        self._state = state
        self._where = where
        self._asked = asked
        self._sources = sources
        self._built: dict[str, Revision] = {}

    def explained(self, workload: Created, namespace_labels: Mapping[str, str]) -> Explained:
        """Return the trace of one workload."""
        meta = workload.pod["metadata"]
        # The API server gives every namespace the label of its name.
        of_namespace = {**namespace_labels, NAME_LABEL: workload.namespace}
        key = workload_key(workload.pod, workload.namespace)
        labels = Labels(of_namespace, meta.get("labels") or {}, meta.get("annotations") or {}, key)
        routed = route(self._state, self._asked, labels, where=self._where)
        return explained_by(workload, routed, self._build, self._sources.guard)

    def _build(self, raw: RawRevision) -> Revision:
        if raw.name not in self._built:
            self._built[raw.name] = build(overridden(raw, self._sources.overrides))
        return self._built[raw.name]


def _asked(revision: str | None, path: str | None) -> Asked:
    if revision is not None and path is not None:
        raise UsageError(f"{REVISION_FLAG} and {PATH_FLAG} both say which revision", hint="give one of the two")
    if revision is not None:
        return Asked(revision, REVISION_FLAG)
    if path is None:
        return Asked()
    if path != PREFIX and not path.startswith(f"{PREFIX}/"):
        raise UsageError(
            f"{path!r} is no path of the webhook", where=PATH_FLAG, hint=f"write {PREFIX} or {PREFIX}/NAME"
        )
    parsed = parse_path(path)
    return Asked(parsed.name, PATH_FLAG, parsed.envs)


def _labels(given: tuple[str, ...]) -> dict[str, str] | None:
    if not given:
        return None
    pairs = [pair.partition("=") for text in given for pair in text.split(",") if pair]
    for name, separator, value in pairs:
        if not separator or not name:
            raise UsageError(f"{name + value!r} is no label", where=LABELS_FLAG, hint="write istio-injection=enabled")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _unlabelled(explained: list[Explained], known: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the namespaces that nothing was said of, and whose pods no webhook is called for."""
    missed = (each.workload.namespace for each in explained if each.trace.reason == NO_WEBHOOK)
    return sorted({name for name in missed if name not in known})

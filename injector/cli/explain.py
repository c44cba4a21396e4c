"""``injector explain``: why the pods of manifests are injected, or why not, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.commands import verbose
from injector.cli.failures import EX_DATAERR
from injector.cli.flags import FILE, FILENAME, GUARD, NODE_VERSION, RECURSIVE, both_spellings
from injector.cli.output import data_text
from injector.cli.route import NO_WEBHOOK, REVISION, Asked, Labels, route
from injector.cli.selection import REVISION_FLAG, offline_source
from injector.cli.workloads import read_workloads
from injector.errors import UsageError
from injector.injection.hiding import hiding_of
from injector.injection.result import RequestFacts
from injector.injection.trace import PASSED, REFUSED, Step, Trace, trace_pod
from injector.revisions.build import Overrides, build, overridden
from injector.revisions.weights import workload_key
from injector.webhook.path import PREFIX, parse_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from injector.istio.revision import Revision
    from injector.kube.created import Created
    from injector.revisions.source import RawRevision, SourceState

FORMATS: Final = ("text", "json", "yaml")
PATH_FLAG: Final = "--path"
LABELS_FLAG: Final = "--namespace-labels"
_NAME_LABEL: Final = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class Explained:
    """One workload with its trace, and the revision and tag that it came to."""

    workload: Created
    trace: Trace
    revision: str | None
    tag: str | None


@click.command("explain")
@FILENAME
@RECURSIVE
@click.option(*both_spellings("revisionsDir"), "revisions_dir", type=FILE, help="A directory of revisions.")
@click.option("-r", REVISION_FLAG, metavar="NAME", help="The revision or tag, whatever the labels say.")
@click.option(PATH_FLAG, metavar="PATH", help="The path that a webhook calls, such as /inject/prod.")
@click.option("-n", "--namespace", metavar="NAME", help="The namespace of workloads that name none.")
@click.option(
    LABELS_FLAG,
    "namespace_labels",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="The labels of the workloads' namespace; without it those of a Namespace among the FILES.",
)
@NODE_VERSION
@GUARD
@click.option("-o", "--output", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True)
@verbose
def explain(  # noqa: PLR0913 -- one parameter for each flag
    *,
    named: tuple[str, ...],
    recursive: bool,
    revisions_dir: Path | None,
    revision: str | None,
    path: str | None,
    namespace: str | None,
    namespace_labels: tuple[str, ...],
    node_version: tuple[str, ...],
    guard: str,
    output: str,
) -> None:
    """Say step by step why the pods of the FILES are injected, or why not.

    The labels of pod and namespace tell which of Istio's webhooks is called, for which tag or revision; --path or --revision
    say it instead. Ends with 65 where a pod would be refused.
    """
    asked = _asked(revision, path)
    labels = _labels(namespace_labels)
    workloads = read_workloads(named, recursive=recursive, namespace=namespace)
    source = offline_source(revisions_dir)
    explainer = _Explainer(source.read(), str(source.path), asked, Overrides(node_versions=node_version), guard)
    by_namespace = workloads.namespace_labels if labels is None else dict.fromkeys(workloads.namespaces, labels)
    explained = [explainer.explained(each, by_namespace.get(each.namespace, {})) for each in workloads.created]
    for name in _unlabelled(explained, by_namespace):
        click.echo(f"note: nothing says which labels namespace {name} has; give {LABELS_FLAG}", err=True)
    click.echo(_rendered(explained, output), nl=False)
    if any(each.trace.outcome == REFUSED for each in explained):
        click.get_current_context().exit(EX_DATAERR)


class _Explainer:
    """Explains workloads by the revisions of one source, each of which is built once."""

    def __init__(self, state: SourceState, where: str, asked: Asked, overrides: Overrides, guard: str) -> None:
        self._state = state
        self._where = where
        self._asked = asked
        self._overrides = overrides
        self._guard = guard
        self._built: dict[str, Revision] = {}

    def explained(self, workload: Created, namespace_labels: Mapping[str, str]) -> Explained:
        """Return the trace of one workload."""
        meta = workload.pod["metadata"]
        # The API server gives every namespace the label of its name.
        of_namespace = {**namespace_labels, _NAME_LABEL: workload.namespace}
        key = workload_key(workload.pod, workload.namespace)
        labels = Labels(of_namespace, meta.get("labels") or {}, meta.get("annotations") or {}, key)
        routed = route(self._state, self._asked, labels, where=self._where)
        if isinstance(routed, Trace):
            return Explained(workload, routed, None, None)
        revision = self._build(routed.raw)
        meta_of_namespace = revision.namespaces.get(workload.namespace)
        facts = RequestFacts(workload.namespace, self._asked.envs, meta_of_namespace, self._guard)
        trace = trace_pod(revision, workload.pod, facts).after(*routed.steps, _revision_step(revision))
        return Explained(workload, trace, revision.name, routed.tag)

    def _build(self, raw: RawRevision) -> Revision:
        if raw.name not in self._built:
            self._built[raw.name] = build(overridden(raw, self._overrides))
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


def _revision_step(revision: Revision) -> Step:
    detail = f"{revision.name}: Istio {revision.istio_version} ({revision.version_reason}), engine {revision.engine}"
    return Step(REVISION, PASSED, detail, revision.origin)


def _rendered(explained: list[Explained], output: str) -> str:
    if output == "text":
        return "\n".join(_text(each) for each in explained)
    return data_text({"workloads": [_data(each) for each in explained]}, output)


def _text(each: Explained) -> str:
    by = f" by {each.revision}" if each.revision else ""
    lines = [f"{each.workload}: {each.trace.outcome}{by} ({each.trace.reason})"]
    names = max(len(step.step) for step in each.trace.steps)
    verdicts = max(len(step.verdict) for step in each.trace.steps)
    lines += [
        f"  {step.step:{names}}  {step.verdict:{verdicts}}  {_detail(each, step)}  [{step.source}]"
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

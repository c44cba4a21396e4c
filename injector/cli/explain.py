"""``injector explain``: why pods are injected, or why not, step by step: those of manifests, or of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from injector.cli.clusterflags import ISTIO_NAMESPACE_FLAG, cluster_flags
from injector.cli.commands import verbose
from injector.cli.explained import TEXT, Explained, explained_by, rendered
from injector.cli.failures import EX_DATAERR
from injector.cli.flags import FILE, FILENAME, GUARD, NODE_VERSION, RECURSIVE, both_spellings
from injector.cli.liveexplain import explain_live
from injector.cli.objects import reading
from injector.cli.route import NO_WEBHOOK, Asked, Labels, route
from injector.cli.selection import REVISION_FLAG, offline_source
from injector.cli.surroundings import NAME_LABEL, Sources
from injector.cli.targets import parse_target
from injector.cli.terminal import echo
from injector.cli.workloads import read_workloads
from injector.errors import UsageError
from injector.injection.trace import REFUSED
from injector.revisions.build import Overrides, build, overridden
from injector.revisions.weights import workload_key
from injector.webhook.path import PREFIX, parse_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from injector.cluster.kubeconfig import Kubeconfig
    from injector.istio.revision import Revision
    from injector.kube.created import Created
    from injector.revisions.source import RawRevision, SourceState

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

"""``injector diff``: what another revision would change in the pods of manifests, or of a cluster."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.clusterflags import ISTIO_NAMESPACE_FLAG, cluster_flags
from injector.cli.clusterview import Sources, read_surroundings, read_targets, reading
from injector.cli.commands import verbose
from injector.cli.explain import labels_of
from injector.cli.failures import EX_FAILED, one_line
from injector.cli.flags import FILE, FILENAME, GUARD, NODE_VERSION, RECURSIVE, both_spellings
from injector.cli.inputs import read_workloads
from injector.cli.output import data_text, printable, shown, table
from injector.cli.route import called_last
from injector.cli.selection import find_revision, offline_source
from injector.cli.terminal import echo
from injector.errors import DataError, ManifestError, UsageError
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.injection.tools.podchanges import ABSENT, KINDS, changes, hiding_of
from injector.kube.escaping import escape_line
from injector.kube.yaml import dump_yaml
from injector.revisions.build import Overrides, build, overridden

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from injector.cluster.kubeconfig import Kubeconfig
    from injector.cluster.reader import Reader
    from injector.injection.result import Skipped
    from injector.injection.tools.podchanges import Change
    from injector.istio.revision import Revision
    from injector.kube.pods import Created

COLUMNS: Final = ("KIND", "WORKLOADS", "CHANGES")
NOTHING: Final = "(none)"


@dataclass(frozen=True, slots=True)
class WorkloadChanges:
    """What differs for one workload."""

    workload: Created
    changes: tuple[Change, ...]


def tally(compared: Iterable[WorkloadChanges]) -> dict[str, tuple[int, int]]:
    """Return for each kind that occurs, in the order of ``KINDS``, how many workloads have it and how many changes."""
    kinds = [[change.kind for change in each.changes] for each in compared]
    return {
        kind: (sum(kind in each for each in kinds), sum(each.count(kind) for each in kinds))
        for kind in KINDS
        if any(kind in each for each in kinds)
    }


def as_text(compared: Sequence[WorkloadChanges], old: str, new: str) -> str:
    """Return the workloads that differ, each with its changes by kind, and a table of the kinds after them."""
    differing = [each for each in compared if each.changes]
    total = f"{len(compared)} workload{'' if len(compared) == 1 else 's'}"
    if not differing:
        return f"no difference in {total} between {old} and {new}\n"
    counts = [(kind, str(workloads), str(changes)) for kind, (workloads, changes) in tally(differing).items()]
    summary = f"{len(differing)} of {total} differ{'s' if len(differing) == 1 else ''} between {old} and {new}\n"
    return "".join(f"{_workload(each)}\n" for each in differing) + table(COLUMNS, counts) + f"\n{summary}"


def as_data(compared: Iterable[WorkloadChanges]) -> dict[str, Any]:
    """Return the workloads with their changes, and the summary, as JSON data; ``old`` or ``new`` is left out where there is nothing."""
    compared = list(compared)
    return {
        "workloads": [
            {
                "kind": each.workload.kind,
                "namespace": each.workload.namespace,
                "name": each.workload.name,
                "changes": [_change_data(change) for change in each.changes],
            }
            for each in compared
        ],
        "summary": {
            kind: {"workloads": workloads, "changes": changes} for kind, (workloads, changes) in tally(compared).items()
        },
    }


def _change_data(change: Change) -> dict[str, Any]:
    sides = {"old": change.old, "new": change.new}
    path = {"path": change.path} if change.path else {}
    return {"kind": change.kind, **path, **{side: value for side, value in sides.items() if value is not ABSENT}}


def _workload(each: WorkloadChanges) -> str:
    lines = [str(each.workload)]
    kind = ""
    for change in each.changes:
        if change.kind != kind:
            kind = change.kind
            lines.append(f"  {kind}")
        path = f"{escape_line(change.path)}: " if change.path else ""
        lines.append(f"    {path}{_shown(change, change.old)} -> {_shown(change, change.new)}")
    return "".join(f"{line}\n" for line in lines)


def _shown(change: Change, value: Any) -> str:
    if value is ABSENT:
        return NOTHING
    if change.kind == "order":
        return ", ".join(printable(name) for name in value)
    if change.kind == "containers" and isinstance(value, dict):
        return f"a container of image {printable(str(value.get('image', '')))}"
    return printable(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=True, separators=(", ", ": "))


EXAMPLES: Final = 3
_CAPABILITIES: Final = "securityContext.capabilities.add"
_PRIVILEGED: Final = "securityContext.privileged"
_REFUSED: Final = "refused: "


@dataclass(frozen=True, slots=True)
class Group:
    """Workloads that change alike: in the same kinds, and in the same of what a reviewer wants to know by itself."""

    changes: tuple[str, ...]
    workloads: tuple[Created, ...]

    def __str__(self) -> str:
        """Say how many they are and what changes."""
        only = " only" if len(self.changes) == 1 and " " not in self.changes[0] else ""
        return f"{len(self.workloads)} {', '.join(self.changes)}{only}"


def groups(compared: Iterable[WorkloadChanges]) -> list[Group]:
    """Return the workloads that change in groups, the largest first."""
    found: dict[tuple[str, ...], list[Created]] = {}
    for each in compared:
        if each.changes:
            words = tuple(dict.fromkeys(word for change in each.changes for word in _words(change)))
            found.setdefault(words, []).append(each.workload)
    made = [Group(words, tuple(workloads)) for words, workloads in found.items()]
    return sorted(made, key=lambda group: (-len(group.workloads), group.changes))


def as_summary(compared: Sequence[WorkloadChanges], old: str, new: str) -> str:
    """Return a line for each group of workloads, with a few of them, and a line that counts them all."""
    lines = [f"{escape_line(str(group))}: {_examples(group.workloads)}\n" for group in groups(compared)]
    differing = sum(bool(each.changes) for each in compared)
    total = f"{len(compared)} workload{'' if len(compared) == 1 else 's'}"
    if not differing:
        return f"no difference in {total} between {old} and {new}\n"
    return "".join(lines) + f"\n{differing} of {total} differ{'s' if differing == 1 else ''} between {old} and {new}\n"


def groups_data(compared: Iterable[WorkloadChanges]) -> list[dict[str, Any]]:
    """Return the groups as JSON data."""
    return [
        {
            "changes": list(group.changes),
            "count": len(group.workloads),
            "workloads": [
                {"kind": each.kind, "namespace": each.namespace, "name": each.name} for each in group.workloads
            ],
        }
        for group in groups(compared)
    ]


def _words(change: Change) -> list[str]:
    """Return what a change is called: its kind, but for what more or fewer privileges, containers or injections come of."""
    if change.kind == "decision":
        refused = str(change.new).startswith(_REFUSED)
        return [printable(str(change.new) if refused else f"{change.old} -> {change.new}")]
    if change.path.endswith(_CAPABILITIES):
        return _capabilities(change)
    if change.path.endswith(_PRIVILEGED):
        return ["privileged gained" if change.new is True else "privileged lost"]
    if change.kind == "containers" and ABSENT in (change.old, change.new):
        name = change.path.partition("[")[2].removesuffix("]")
        return [f"container {name} {'gained' if change.old is ABSENT else 'lost'}"]
    return [change.kind]


def _capabilities(change: Change) -> list[str]:
    old, new = (frozenset(side) if isinstance(side, list) else frozenset() for side in (change.old, change.new))
    return [f"{each} gained" for each in sorted(new - old)] + [f"{each} lost" for each in sorted(old - new)]


def _examples(workloads: Sequence[Created]) -> str:
    more = len(workloads) - EXAMPLES
    named = ", ".join(map(str, workloads[:EXAMPLES]))
    return f"{named} and {more} more" if more > 0 else named


FORMATS: Final = ("text", "summary", "unified", "json", "yaml")
_KIND = click.Choice(KINDS)


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two that are compared: the name that was given, and the revision that it means."""

    name: str
    revision: Revision

    def __str__(self) -> str:
        revision = self.revision
        meant = f"revision {revision.name}, " if revision.name != self.name else ""
        return f"{self.name} ({meant}Istio {revision.istio_version})"


@dataclass(frozen=True, slots=True)
class Compared:
    """One workload with both answers to its pod and what differs between them."""

    workload: Created
    old: Injected | Skipped | DataError
    new: Injected | Skipped | DataError
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """What is compared: two revisions on workloads, and what the user should know of how these were found."""

    old: Side
    new: Side
    workloads: tuple[Created, ...]
    notes: tuple[str, ...] = ()


@click.command("diff")
@click.argument("old_name", metavar="REV_A")
@click.argument("new_name", metavar="REV_B")
@FILENAME
@RECURSIVE
@click.option(
    "--live", is_flag=True, help="Compare for the workloads of the cluster that a webhook calls an injector for."
)
@click.option(
    *both_spellings("revisionsDir"),
    "revisions_dir",
    type=FILE,
    help="A directory of revisions; with --live those of the cluster without it.",
)
@click.option(
    "-n", "--namespace", metavar="NAME", help="The namespace of workloads that name none; with --live the only one."
)
@ISTIO_NAMESPACE_FLAG
@cluster_flags
@NODE_VERSION
@GUARD
@click.option("--only", multiple=True, type=_KIND, help="Show changes of this kind alone. Repeatable.")
@click.option("--ignore", multiple=True, type=_KIND, help="Leave changes of this kind out. Repeatable.")
@click.option("-o", "--output", type=click.Choice(FORMATS), help="text without it; with --live summary.")
@click.option(
    "--exit-code",
    type=bool,
    default=True,
    metavar="BOOL",
    help="With false, differences end with 0 too.",
    show_default=True,
)
@verbose
def diff(  # noqa: PLR0913 -- one parameter for each flag
    *,
    old_name: str,
    new_name: str,
    named: tuple[str, ...],
    recursive: bool,
    live: bool,
    revisions_dir: Path | None,
    namespace: str | None,
    istio_namespace: str,
    kubeconfig: Kubeconfig,
    node_version: tuple[str, ...],
    guard: str,
    only: tuple[str, ...],
    ignore: tuple[str, ...],
    output: str | None,
    exit_code: bool,
) -> None:
    """Show what differs in the pods of the FILES, or of the cluster, between two revisions or tags.

    Each pod is taken as the webhook would get it. Ends with 0 where nothing differs, and with 1 where something does.
    """
    sources = Sources(revisions_dir, istio_namespace, Overrides(node_versions=node_version))
    names = old_name, new_name
    if live and named:
        raise UsageError("it is for files, and --live asks the cluster", where="-f", hint="give one of the two")
    if live:
        found = reading((), kubeconfig, lambda reader: _of_cluster(reader, sources, namespace, names))
    else:
        workloads = read_workloads(named, recursive=recursive, namespace=namespace)
        found = _of_files(workloads.created, sources, names)
    wanted = frozenset(only or KINDS) - frozenset(ignore)
    work = shown(found.workloads, f"{old_name} and {new_name}")
    compared = [_compared(each, (found.old.revision, found.new.revision), wanted, guard) for each in work]
    notes = (f"note: {note}" for note in found.notes)
    for line in (*notes, *_refused_by_both(compared), *_found(compared, found.old, found.new)):
        echo(line, err=True)
    echo(_rendered(compared, found.old, found.new, output or ("summary" if live else FORMATS[0])), nl=False)
    if exit_code and any(each.changes for each in compared):
        click.get_current_context().exit(EX_FAILED)


def _of_files(workloads: tuple[Created, ...], sources: Sources, names: tuple[str, str]) -> Compare:
    source = offline_source(sources.revisions_dir)
    state = source.read()
    old, new = (
        Side(name, build(overridden(find_revision(state, name, where=str(source.path)), sources.overrides)))
        for name in names
    )
    return Compare(old, new, workloads)


async def _of_cluster(reader: Reader, sources: Sources, namespace: str | None, names: tuple[str, str]) -> Compare:
    around = await read_surroundings(reader, sources, namespace)
    state, where = around.revisions.state, around.revisions.where
    old, new = (Side(name, around.built.revision(find_revision(state, name, where=where))) for name in names)
    found = [each for each in await read_targets(reader, namespace) if each.namespace in around.namespaces]
    injected = tuple(each for each in found if called_last(around.webhooks, labels_of(each, around)) is not None)
    if not injected:
        raise ManifestError(
            f"none of {len(found)} workloads is injected",
            where="the cluster's webhooks" if namespace is None else f"namespace {namespace}",
            hint="ask `injector explain` for one of them",
        )
    return Compare(old, new, injected, around.built.notes)


def _compared(workload: Created, sides: tuple[Revision, Revision], wanted: frozenset[str], guard: str) -> Compared:
    old, new = sides
    answers = _answer(old, workload, guard), _answer(new, workload, guard)
    found = changes(*answers, workload.pod, (old.written, new.written))
    return Compared(workload, *answers, tuple(change for change in found if change.kind in wanted))


def _answer(revision: Revision, workload: Created, guard: str) -> Injected | Skipped | DataError:
    """Return what the webhook of ``revision`` would answer; a refusal is an answer too."""
    facts = RequestFacts(workload.namespace, {}, revision.namespaces.get(workload.namespace), guard)
    try:
        return inject_pod(revision, workload.pod, facts)
    except DataError as error:
        return error


def _refused_by_both(compared: Iterable[Compared]) -> list[str]:
    return [
        f"warning: {each.workload}: refused by both: {hiding_of(each.workload.pod).without_values(one_line(str(each.new)))}"
        for each in compared
        if isinstance(each.old, DataError) and isinstance(each.new, DataError)
    ]


def _found(compared: Iterable[Compared], old: Side, new: Side) -> list[str]:
    """Return what a guard that only warns found, by workload and side."""
    return [
        f"warning: {each.workload}: {side.name}: {hiding_of(each.workload.pod).without_values(one_line(finding))}"
        for each in compared
        for side, answer in ((old, each.old), (new, each.new))
        if isinstance(answer, Injected)
        for finding in answer.findings
    ]


def _rendered(compared: list[Compared], old: Side, new: Side, output: str) -> str:
    found = [WorkloadChanges(each.workload, each.changes) for each in compared]
    match output:
        case "text":
            return as_text(found, str(old), str(new))
        case "summary":
            return as_summary(found, str(old), str(new))
        case "unified":
            return "".join(_unified(each, old.name, new.name) for each in compared if each.changes)
        case _:
            return data_text(
                {"old": _side_data(old), "new": _side_data(new), **as_data(found), "groups": groups_data(found)}, output
            )


def _side_data(side: Side) -> dict[str, Any]:
    revision = side.revision
    return {"name": side.name, "revision": revision.name, "istioVersion": revision.istio_version}


def _unified(each: Compared, old: str, new: str) -> str:
    """Return the unified diff of the two pods; one that is refused has no lines, one that is left alone stays as it is."""
    before, after = (_lines(each.workload, answer) for answer in (each.old, each.new))
    labels = [f"{name}/{each.workload}" for name in (old, new)]
    lines = list(difflib.unified_diff(before, after, labels[0], labels[1]))
    if not lines:
        return f"--- {labels[0]}\n+++ {labels[1]}\n# hidden values differ, and nothing else\n"
    return "".join(lines)


def _lines(workload: Created, answer: Injected | Skipped | DataError) -> list[str]:
    if isinstance(answer, DataError):
        return []
    pod = answer.pod if isinstance(answer, Injected) else workload.pod
    text = dump_yaml(hiding_of(workload.pod).pod(pod), fold=False)
    return [f"{line}\n" for line in text.removesuffix("\n").split("\n")]

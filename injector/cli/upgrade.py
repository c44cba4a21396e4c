"""``injector upgrade``: move workloads to another revision in waves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.cluster import ClusterView, cluster_options, has_ended, read_from, read_targets, read_view
from injector.cli.commands import EX_FAILED, verbose
from injector.cli.explain import pod_labels
from injector.cli.manifests import read_manifests
from injector.cli.options import FILENAME, RECURSIVE, exit_code_option
from injector.cli.output import data_text, echo, printable, table
from injector.cli.route import requested_name
from injector.errors import ManifestError, TagError, UsageError
from injector.injection.tools.drift import injected_revision
from injector.kube.escaping import escape_line
from injector.revisions.names import list_names
from injector.revisions.tags import Tag, workload_key
from injector.upgrade.document import Upgrade, load_upgrade
from injector.upgrade.plan import BLOCKED, CLASSES, REFUSED, RESTART, STAYS, Entry, Plan, make_plan
from injector.upgrade.workloads import Key, Restart, Workload, key_of, restart_of, unknown_restart

if TYPE_CHECKING:
    from injector.cli.sources import Sources
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.cluster.resources import ObjectReader
    from injector.istio.revision import Revision

FORMATS: Final = ("summary", "table", "json", "yaml", "markdown")
COLUMNS: Final = ("WAVE", "NAMESPACE", "WORKLOAD", "PODS", "HAS", "CHANGE", "ACTION", "NOTE")
SHOWN: Final = 10
"""The workloads that the summary names for each reason."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The input of a plan: the revisions, the tag and the workloads of a cluster. ``notes`` are for the user."""

    source: Revision
    target: Revision
    tag: Tag | None
    workloads: tuple[Workload, ...]
    notes: tuple[str, ...]


@click.group("upgrade", no_args_is_help=True)
@verbose
def upgrade() -> None:
    """Plan an upgrade: move workloads to another revision in waves.

    docs/upgrades.md describes the document `Upgrade`.
    """


@upgrade.command("plan")
@click.argument("document", metavar="FILE")
@FILENAME
@RECURSIVE
@cluster_options
@click.option(
    "-o", "--output", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True, help="Output format."
)
@exit_code_option("workloads are refused or cannot be restarted")
@verbose
def plan(  # noqa: PLR0913 -- one parameter for each flag
    *,
    document: str,
    filenames: tuple[str, ...],
    recursive: bool,
    sources: Sources,
    kubeconfig: Kubeconfig,
    output: str,
    exit_code: bool,
) -> None:
    """Show for each workload its wave, the class of change, and why it does not move if it does not.

    FILE has an Upgrade; - is stdin. The workloads come from the cluster, or from the files of `-f`. Nothing is written. The exit code is 0
    if every workload of a wave can be restarted, else 1.
    """
    read = read_document(document)
    fleet = read_from(filenames, kubeconfig, lambda reader: read_fleet(reader, sources, read), recursive=recursive)
    made = make_plan(read, fleet.tag, fleet.workloads, fleet.source, fleet.target)
    for note in (*fleet.notes, *made.notes):
        echo(f"note: {note}", err=True)
    echo(plan_text(made, output), nl=False)
    if exit_code and BLOCKED in made.count():
        click.get_current_context().exit(EX_FAILED)


def read_document(filename: str) -> Upgrade:
    """Read an Upgrade from a file, or from stdin for ``-``.

    Raises:
        DataError: the file cannot be read, or is not an Upgrade.
    """
    manifests = read_manifests((filename,), recursive=False)
    if len(manifests) != 1:
        raise ManifestError("it is a folder with several files", where=filename, hint="give one file")
    return load_upgrade(manifests[0].text, where=manifests[0].name)


async def read_fleet(reader: ObjectReader, sources: Sources, document: Upgrade) -> Fleet:
    """Read from a cluster what the plan of an upgrade needs.

    Raises:
        InjectorError: as in ``read_view``, or the tag or a revision does not exist.
    """
    view = await read_view(reader, sources, None)
    source, target = (_revision(view, name) for name in (document.source, document.target))
    tags = view.revisions.state.tags
    if document.tag and document.tag not in tags:
        hint = f"known tags are {list_names(tags)}" if tags else "set it with `injector tag set`"
        raise TagError(f'cannot find tag "{document.tag}"', where=view.revisions.tags_where, hint=hint)
    restarts: dict[Key, Restart] = {}
    pods: dict[Key, Counter[str | None]] = {}

    def note(item: dict[str, Any]) -> None:
        if item["kind"] != "Pod":
            restarts[key_of(item)] = restart_of(item)
        elif not has_ended(item):
            place = str(item["metadata"].get("namespace", ""))
            pods.setdefault(Key(*workload_key(item, place)), Counter())[injected_revision(item)] += 1

    created = [each for each in await read_targets(reader, None, note=note) if each.namespace in view.namespaces]
    workloads = []
    for each in created:
        labels = pod_labels(each, view.namespaces[each.namespace])
        key = Key(each.namespace, each.kind, each.name)
        restart = restarts.get(key) or unknown_restart(each.kind)
        name = requested_name(view.webhooks, labels)
        workloads.append(Workload(each, name, labels.workload.pin, pods.get(key, Counter()), restart))
    notes = (*view.built.notes, *view.revisions.state.webhook_faults)
    return Fleet(source, target, tags.get(document.tag), tuple(workloads), notes)


def _revision(view: ClusterView, name: str) -> Revision:
    state = view.revisions.state
    if name not in state.names:
        hint = f"known revisions are {list_names(state.names)}"
        raise UsageError(f'no revision is called "{name}"', where=view.revisions.where, hint=hint)
    return view.built.revision(state.revision(name))


def plan_text(made: Plan, output: str) -> str:
    """Return a plan in one of ``FORMATS``."""
    match output:
        case "summary":
            return as_summary(made)
        case "table":
            return table(COLUMNS, [_cells(made, each) for each in made.entries])
        case "markdown":
            return as_markdown(made)
        case _:
            return data_text(as_data(made), output)


def as_data(made: Plan) -> dict[str, Any]:
    """Return a plan as JSON data."""
    document = made.upgrade
    waves = [
        {"name": wave.name, "workloads": len(entries), "actions": made.count(entries), "changes": _changes(entries)}
        for wave, entries in _by_wave(made)
    ]
    head = {"name": document.name, "tag": document.tag or None, "from": document.source, "to": document.target}
    return {
        **head,
        "waves": waves,
        "actions": made.count(),
        "workloads": [_entry_data(made, each) for each in made.entries],
    }


def _entry_data(made: Plan, each: Entry) -> dict[str, Any]:
    key = each.key
    data: dict[str, Any] = {"namespace": key.namespace, "kind": key.kind, "name": key.name}
    data["pods"] = {revision or "": count for revision, count in sorted(each.workload.pods.items(), key=_by_revision)}
    data["wave"] = None if each.wave is None else made.upgrade.waves[each.wave].name
    data["action"] = each.action
    if each.action in (RESTART, BLOCKED):
        data |= {"change": each.change, "changes": list(each.kinds)}
    return {**data, "note": each.note} if each.note else data


def as_summary(made: Plan) -> str:
    """Return a plan for people: the waves, and the workloads that need attention, by reason."""
    document = made.upgrade
    head = f"{document.name}: {f'tag {document.tag}, ' if document.tag else ''}{document.source} to {document.target}"
    rows = [
        (
            wave.name,
            str(made.count(entries).get(RESTART, 0)),
            *(str(_changes(entries).get(each, 0)) for each in CLASSES),
        )
        for wave, entries in _by_wave(made)
    ]
    text = f"{head}\n\n{table(('WAVE', 'RESTARTS', *(each.upper() for each in CLASSES)), rows)}\n"
    reasons: dict[str, list[Entry]] = {}
    for each in made.entries:
        if each.action in (BLOCKED, STAYS):
            detail = f": {each.kinds[0]}" if each.change == REFUSED and each.kinds else ""
            reasons.setdefault(f"{each.note}{detail}", []).append(each)
    for reason, entries in sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0])):
        names = ", ".join(str(each.key) for each in entries[:SHOWN])
        more = f" and {len(entries) - SHOWN} more" if len(entries) > SHOWN else ""
        text += escape_line(f"{len(entries)} {entries[0].action}: {reason}: {names}{more}") + "\n"
    counts = made.count()
    total = ", ".join(f"{count} {action}" for action, count in counts.items()) or "none"
    return f"{text}workloads: {total}\n"


def as_markdown(made: Plan) -> str:
    """Return a plan for a pull request: a table of the waves, and one of the workloads that are not identical or do not move."""
    document = made.upgrade
    head = f"## Upgrade `{document.name}`: {document.source} to {document.target}\n\n"
    waves = [
        (wave.name, str(len(entries)), ", ".join(f"{count} {name}" for name, count in _changes(entries).items()) or "-")
        for wave, entries in _by_wave(made)
    ]
    listed = [_cells(made, each) for each in made.entries if each.action in (BLOCKED, STAYS) or each.kinds]
    return f"{head}{_markdown(('Wave', 'Workloads', 'Changes'), waves)}\n{_markdown(tuple(each.capitalize() for each in COLUMNS), listed)}"


def _markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [
        columns,
        ["---"] * len(columns),
        *([escape_line(cell).replace("|", "\\|") for cell in row] for row in rows),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells(made: Plan, each: Entry) -> tuple[str, ...]:
    """Return the row of a workload in a table."""
    key, counts = each.key, each.workload.pods
    wave = "-" if each.wave is None else made.upgrade.waves[each.wave].name
    has = ", ".join(revision or "-" for revision, _ in sorted(counts.items(), key=_by_revision)) or "-"
    change = each.change if each.action in (RESTART, BLOCKED) else "-"
    names = (key.namespace, f"{key.kind}/{key.name}")
    return (
        wave,
        *map(printable, names),
        str(counts.total()),
        printable(has),
        change,
        each.action,
        each.note or ", ".join(each.kinds),
    )


def _by_wave(made: Plan) -> list[tuple[Any, list[Entry]]]:
    return [(wave, made.of_wave(index)) for index, wave in enumerate(made.upgrade.waves)]


def _changes(entries: Iterable[Entry]) -> dict[str, int]:
    """Return the number of workloads that are to be restarted for each class of change that occurs."""
    counts = Counter(each.change for each in entries if each.action in (RESTART, BLOCKED))
    return {name: counts[name] for name in CLASSES if counts[name]}


def _by_revision(item: tuple[str | None, int]) -> str:
    return item[0] or ""

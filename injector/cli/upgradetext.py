"""The texts of ``injector upgrade``: a plan, and the state of an upgrade."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from injector.cli.formats import cell
from injector.cli.output import data_text, one_line, table
from injector.cluster.resources import GATEWAY
from injector.fleet.gateways import OwnerChange, owner_text
from injector.golang.time import utc_text
from injector.hints import first_of
from injector.injection.tools.podchanges import POD_SECURITY
from injector.kube.escaping import escape_line, printable
from injector.upgrade.plan import (
    BLOCKED,
    CLASSES,
    REFUSED_BY_TARGET,
    RESTART,
    RESTART_TIME,
    STAYS,
    Entry,
    Plan,
)
from injector.upgrade.state import COMPLETED, State, counts_text, seconds_left, state_line, waves_of

if TYPE_CHECKING:
    from injector.cli.sources import ByCluster
    from injector.upgrade.store import Stored

PLAN_FORMATS: Final = ("summary", "table", "json", "yaml", "markdown")
COLUMNS: Final = ("WAVE", "NAMESPACE", "WORKLOAD", "PODS", "HAS", "CHANGE", "ACTION", "NOTE")
MAX_LISTED: Final = 10
"""The workloads that the summary names for each reason."""


def plans_text(by_cluster: ByCluster[tuple[Plan, tuple[str, ...]]], output: str) -> str:
    """Return the plans of the clusters in one of ``PLAN_FORMATS``."""
    match output:
        case "summary":
            return by_cluster.sections(lambda result: plan_summary(result[0]))
        case "table":
            is_proved = any(plan.proof is not None for plan, _ in by_cluster.results.values())
            rows = by_cluster.rows(lambda result: _proved_rows(result[0]) if is_proved else _rows(result[0]))
            return table(by_cluster.columns(*COLUMNS, *(("PROOF",) if is_proved else ())), rows)
        case "markdown":
            return by_cluster.sections(lambda result: _plan_markdown(result[0]))
        case _:
            return data_text(by_cluster.data(lambda result: _plan_data(result[0])), output)


def _rows(plan: Plan) -> list[tuple[str, ...]]:
    return [
        *(_cells(plan, entry) for entry in plan.entries),
        *map(_gateway_cells, plan.gateways),
        *_general_cells(plan),
    ]


def _proved_rows(plan: Plan) -> list[tuple[str, ...]]:
    """Return the rows of a plan with the outcome of the proof in the last column."""
    outcomes = {} if plan.proof is None else plan.proof.workloads
    rows, texts = _rows(plan), [printable(str(outcomes.get(entry.key, "-"))) for entry in plan.entries]
    return [(*row, text) for row, text in zip(rows, [*texts, *["-"] * (len(rows) - len(texts))], strict=True)]


def _plan_data(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON data."""
    waves = [
        {"name": wave.name, "workloads": len(entries), "actions": plan.count(entries), "changes": _changes(entries)}
        for wave, entries in plan.by_wave
    ]
    missing = {} if plan.missing_permissions is None else {"missingPermissions": list(plan.missing_permissions)}
    return {
        **plan.upgrade.head,
        "waves": waves,
        "actions": plan.count(),
        "expectedSeconds": math.ceil(plan.expected_seconds),
        **missing,
        **({} if plan.proof is None else {"proof": plan.proof.data()}),
        "workloads": [_entry_data(plan, entry) for entry in plan.entries],
        "gateways": [_gateway_data(change) for change in plan.gateways],
        "harmlessChanges": plan.harmless,
        **plan.minor_changes.data(),
    }


def _gateway_data(change: OwnerChange) -> dict[str, Any]:
    gateway = change.gateway
    names = {"namespace": gateway.namespace, "name": gateway.name, "class": gateway.class_name}
    return {**names, "label": gateway.pin, "owners": list(change.before), "newOwners": list(change.after)}


def _gateway_cells(change: OwnerChange) -> tuple[str, ...]:
    gateway = change.gateway
    names = map(printable, (gateway.namespace, f"{GATEWAY}/{gateway.name}"))
    return ("gateways", *names, "-", owner_text(change.before), "owner", "move", f"owner {change.way}")


def _general_cells(plan: Plan) -> list[tuple[str, ...]]:
    """Return rows about the whole cluster: the permissions that are missing, and what breaks between the minors."""
    missing = [("permission", "missing", text) for text in plan.missing_permissions or ()]
    breaks = [("minor", "review", printable(line)) for line in plan.minor_changes.break_lines()]
    return [("-", "-", "-", "-", "-", *cells) for cells in (*missing, *breaks)]


def _entry_data(plan: Plan, entry: Entry) -> dict[str, Any]:
    key = entry.key
    data: dict[str, Any] = {"namespace": key.namespace, "kind": key.kind, "name": key.name}
    data["pods"] = {revision or "": count for revision, count in sorted(entry.workload.pods.items(), key=_by_revision)}
    data["wave"] = None if entry.wave is None else plan.upgrade.waves[entry.wave].name
    data["action"] = entry.action
    if entry.action in (RESTART, BLOCKED):
        data |= {"change": entry.change, "changes": list(entry.kinds)}
    if entry.delays:
        data["delays"] = list(entry.delays)
    if entry.levels:
        data["podSecurity"] = dict(zip(("old", "new"), entry.levels, strict=True))
    if plan.proof is not None and key in plan.proof.workloads:
        data["proof"] = plan.proof.workloads[key].data()
    return {**data, "note": entry.note} if entry.note else data


def plan_summary(plan: Plan) -> str:
    """Return a plan for people: the waves, and the workloads that need attention, by reason."""
    document = plan.upgrade
    head = f"{document.name}: {f'tag {document.tag}, ' if document.tag else ''}{document.way}"
    classes = _changes(plan.entries)
    rows = [
        (
            wave.name,
            str(plan.count(entries).get(RESTART, 0)),
            *(str(_changes(entries).get(change_class, 0)) for change_class in classes),
        )
        for wave, entries in plan.by_wave
    ]
    text = f"{head}\n\n{table(('WAVE', 'RESTARTS', *(change_class.upper() for change_class in classes)), rows)}\n"
    reasons: dict[str, list[Entry]] = {}
    for entry in plan.entries:
        if entry.action in (BLOCKED, STAYS):
            detail = f": {entry.kinds[0]}" if entry.change == REFUSED_BY_TARGET and entry.kinds else ""
            reasons.setdefault(f"{entry.note}{detail}", []).append(entry)
    for reason, entries in sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0])):
        text += escape_line(f"{len(entries)} {entries[0].action}: {reason}: {_names(entries)}") + "\n"
    levels: dict[tuple[str, ...], list[Entry]] = {}
    for entry in plan.entries:
        if entry.levels and entry.action == RESTART:
            levels.setdefault(entry.levels, []).append(entry)
    for (old, new), entries in sorted(levels.items()):
        text += escape_line(f"{len(entries)} {RESTART}: Pod Security {old} to {new}: {_names(entries)}") + "\n"
    delays: dict[str, list[Entry]] = {}
    for entry in plan.entries:
        for delay in entry.delays:
            delays.setdefault(delay, []).append(entry)
    for delay, entries in sorted(delays.items()):
        text += escape_line(f"{len(entries)} {RESTART}: {delay}: {_names(entries)}") + "\n"
    text += _harmless_text(plan)
    owners: dict[str, list[str]] = {}
    for change in plan.gateways:
        owners.setdefault(change.way, []).append(str(change.gateway))
    for way, gateways in sorted(owners.items()):
        names = first_of(gateways, len(gateways))
        text += escape_line(f"{len(gateways)} gateways: owner {way}, one at a time after the waves: {names}") + "\n"
    text += "".join(f"{escape_line(line)}\n" for line in plan.minor_changes.lines())
    text += "".join(f"{line}\n" for line in _permission_lines(plan))
    counts = plan.count()
    total = ", ".join(f"{count} {action}" for action, count in counts.items()) or "none"
    minutes = math.ceil(plan.expected_seconds / 60)
    expected = (
        f"expected: about {minutes} min, if a restart takes {RESTART_TIME:.0f} s\n" if counts.get(RESTART) else ""
    )
    return f"{text}{_proof_text(plan)}workloads: {total}\n{expected}"


def _proof_text(plan: Plan) -> str:
    """Return the outcome of the proof, one line for each kind of difference; empty without a proof."""
    return "" if plan.proof is None else "".join(f"{escape_line(line)}\n" for line in plan.proof.lines())


def _permission_lines(plan: Plan) -> list[str]:
    """Return the permissions that are missing, for people."""
    missing = plan.missing_permissions or ()
    lines = [f"{text}, which the runner of the upgrade needs" for text in missing[:MAX_LISTED]]
    return [*lines, f"and {len(missing) - MAX_LISTED} more permissions"] if len(missing) > MAX_LISTED else lines


def _names(entries: Sequence[Entry]) -> str:
    return first_of([str(entry.key) for entry in entries], MAX_LISTED)


def _harmless_text(plan: Plan) -> str:
    """Return one line about the known harmless changes of all workloads; empty if there are none."""
    if not plan.harmless:
        return ""
    changed = ", ".join(f"{about} ({count})" for about, count in sorted(plan.harmless.items()))
    return f"known harmless changes, by workloads: {changed}\n"


def _plan_markdown(plan: Plan) -> str:
    """Return a plan for a pull request: a table of the waves, and one of the workloads that are not identical or do not move."""
    document = plan.upgrade
    head = f"## Upgrade `{document.name}`: {document.way}\n\n"
    waves = [
        (wave.name, str(len(entries)), ", ".join(f"{count} {name}" for name, count in _changes(entries).items()) or "-")
        for wave, entries in plan.by_wave
    ]
    listed = [_cells(plan, entry) for entry in plan.entries if entry.action in (BLOCKED, STAYS) or entry.kinds]
    listed += map(_gateway_cells, plan.gateways)
    notes_of_plan = (
        *_harmless_text(plan).splitlines(),
        *_permission_lines(plan),
        *plan.minor_changes.lines(),
        *_proof_text(plan).splitlines(),
    )
    lines = "".join(f"- {cell(line)}\n" for line in notes_of_plan)
    notes = f"\n{lines}" if lines else ""
    tables = f"{_markdown(('Wave', 'Workloads', 'Changes'), waves)}\n{_markdown(tuple(map(str.capitalize, COLUMNS)), listed)}"
    return f"{head}{tables}{notes}"


def _markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *(list(map(cell, row)) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells(plan: Plan, entry: Entry) -> tuple[str, ...]:
    key, counts = entry.key, entry.workload.pods
    wave = "-" if entry.wave is None else plan.upgrade.waves[entry.wave].name
    has = ", ".join(revision or "-" for revision, _ in sorted(counts.items(), key=_by_revision)) or "-"
    change = entry.change if entry.action in (RESTART, BLOCKED) else "-"
    names = (key.namespace, f"{key.kind}/{key.name}")
    return (
        wave,
        *map(printable, names),
        str(counts.total()),
        printable(has),
        change,
        entry.action,
        entry.note
        or ", ".join(
            (
                *(f"{kind} {' to '.join(entry.levels)}" if kind == POD_SECURITY else kind for kind in entry.kinds),
                *map(printable, entry.delays),
            )
        ),
    )


def _changes(entries: Iterable[Entry]) -> dict[str, int]:
    """Return the number of workloads that are to be restarted for each class of change that occurs."""
    counts = Counter(entry.change for entry in entries if entry.action in (RESTART, BLOCKED))
    return {name: counts[name] for name in CLASSES if counts[name]}


def _by_revision(item: tuple[str | None, int]) -> str:
    return item[0] or ""


def list_row(stored: Stored, now: float) -> tuple[str, ...]:
    """Return the row of a table of upgrades."""
    upgrade, state = stored.upgrade, stored.state
    phase = "-" if state is None else state.phase
    reason = stored.trouble_text(now) or ("" if state is None else state.reason)
    return upgrade.name, upgrade.tag or "-", upgrade.source, upgrade.target, phase, one_line(reason) or "-"


def head_line(stored: Stored, now: float) -> str:
    """Return an upgrade in one line. If no runner is at work, or it cannot go on, it says so instead of the reason of a wait."""
    upgrade, state = stored.upgrade, stored.state
    trouble = stored.trouble_text(now)
    if state is None:
        return escape_line(f"{upgrade.name}: not started; {trouble or 'a runner starts it'}")
    return escape_line(f"{upgrade.name}: {state.phase}, but {trouble}") if trouble else state_line(upgrade, state)


def status_text(stored: Stored, output: str, now: float) -> str:
    """Return the state of an upgrade for people, or as data."""
    upgrade, state = stored.upgrade, stored.state
    if output != "table":
        return data_text(state_data(stored, now), output)
    if state is None:
        return f"{head_line(stored, now)}\n"
    rows = []
    for index, wave in enumerate(waves_of(upgrade, state)):
        progress = "done" if index < state.wave or state.phase == COMPLETED else "-"
        if index == state.wave and state.phase != COMPLETED:
            progress = f"{state.step}: {counts_text(state)}" if not state.back else "going back"
        rows.append((wave.name, progress))
    gates = [(name, result) for name, result in state.gates.items()]
    gate_text = f"\n{table(('GATE', 'RESULT'), gates)}" if gates else ""
    forecast = "" if stored.dead_text(now) else _forecast(state, now)
    work_line = (
        f"left: {state.left} of {state.total} workloads{forecast}\n" if state.left and not state.has_ended else ""
    )
    waves = table(("WAVE", "PROGRESS"), rows)
    if state.skipped:
        work_line += escape_line(f"skipped: {first_of(state.skipped, MAX_LISTED)}") + "\n"
    return (
        f"{head_line(stored, now)}\n{work_line}{_runner_line(stored, now)}\n{waves}{gate_text}{remaining_text(state)}"
    )


def _runner_line(stored: Stored, now: float) -> str:
    heartbeat = stored.heartbeat
    if not stored.is_due or not heartbeat.runner or heartbeat.is_late(now):
        return ""
    return escape_line(f"runner: {heartbeat.runner}, seen at {utc_text(heartbeat.time)}") + "\n"


def remaining_text(state: State) -> str:
    """Return the workloads that an upgrade left at its end, with the remedies; empty if there are none."""
    if not state.remaining:
        return ""
    rows = [(printable(item.workload), printable(item.reason), printable(item.remedy)) for item in state.remaining]
    more = state.remaining_total - len(rows)
    more_line = f"and {more} more\n" if more > 0 else ""
    return f"\n{table(('LEFT', 'REASON', 'REMEDY'), rows)}{more_line}"


def state_data(stored: Stored, now: float) -> dict[str, Any]:
    """Return an upgrade as JSON data: its document in short, and its status."""
    status_data = stored.item.get("status") or {}
    dead = stored.dead_text(now)
    return {**stored.upgrade.head, **status_data, **({"noRunner": dead} if dead else {})}


def _forecast(state: State, now: float) -> str:
    seconds = seconds_left(state, now)
    return "" if seconds is None else f", about {math.ceil(seconds / 60)} min at the pace so far"

"""``injector upgrade``: move workloads to another revision in waves."""

from __future__ import annotations

import asyncio
import math
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from injector.cli.commands import Subcommands, verbose
from injector.cli.formats import cell
from injector.cli.istiodoptions import ISTIOD_PARAMETERS, istiod_options
from injector.cli.options import (
    FILENAME,
    RECURSIVE,
    SKIP_CONFIRMATION,
    confirm_option,
    exit_code_option,
    output_format,
    refuse_unused,
    validator,
)
from injector.cli.output import (
    HEADINGS,
    LiveText,
    data_text,
    echo,
    echo_colored,
    examples,
    has_cursor,
    is_dialog,
    one_line,
    table,
    with_progress,
)
from injector.cli.output import (
    confirm as confirm_with_user,
)
from injector.cli.sources import (
    ByCluster,
    cluster_options,
    clusters_options,
    kubeconfig_options,
    on_each,
    only_one,
)
from injector.cluster.resources import BUDGETS, Scope
from injector.cluster.session import open_session
from injector.errors import ClusterError, InjectorError, ManifestError, UsageError
from injector.fleet.dryrun import confirm_items, refusal
from injector.fleet.files import open_reader
from injector.fleet.gateways import GATEWAY, OwnerChange, owner_text
from injector.fleet.manifests import read_manifests
from injector.fleet.minors import read_minor_changes
from injector.golang.time import utc_text
from injector.hints import first_of
from injector.injection.result import Injected
from injector.injection.tools.podchanges import POD_SECURITY
from injector.kube.escaping import escape_line, printable
from injector.kube.selectors import is_dns_label
from injector.kube.yaml import load_yaml, split_documents
from injector.upgrade.document import Upgrade, read_upgrade
from injector.upgrade.plan import (
    BLOCKED,
    CLASSES,
    IDENTICAL,
    REFUSED_BY_TARGET,
    RESTART,
    RESTART_TIME,
    ROLLOUT,
    ROLLOUT_GROUP,
    STAYS,
    Entry,
    Key,
    Plan,
    answers_for,
    make_plan,
    refused_entry,
    waits_for_quota,
)
from injector.upgrade.state import (
    ABORTED,
    COMPLETED,
    INCOMPLETE,
    PAUSED,
    RETRY,
    ROLLED_BACK,
    SKIP,
    State,
    counts_text,
    seconds_left,
    state_line,
    waves_of,
)
from injector.upgrade.status import Heartbeat
from injector.upgrade.step import INTERVAL
from injector.upgrade.store import CRD_FILE, Store, Stored, list_upgrades
from injector.upgrade.survey import read_fleet

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.cluster.resources import ObjectReader
    from injector.fleet.istiodoptions import IstiodOptions
    from injector.fleet.sources import RevisionSources
    from injector.istio.revision import Revision
    from injector.kube.selectors import Selector

T = TypeVar("T")

FORMATS: Final = ("summary", "table", "json", "yaml", "markdown")
COLUMNS: Final = ("WAVE", "NAMESPACE", "WORKLOAD", "PODS", "HAS", "CHANGE", "ACTION", "NOTE")
_PACE: Final = 0.02
"""Seconds between two questions for a permission: a person waits."""
MAX_LISTED: Final = 10
"""The workloads that the summary names for each reason."""

PROMETHEUS_TOKEN: Final = click.option(
    "--prometheus-token", metavar="URL=FILE", help="Bearer token in FILE, for the gates whose `prometheus` is URL."
)


GATE_TOKEN: Final = click.option(
    "--gate-token",
    metavar="URL=FILE",
    multiple=True,
    help="Bearer token in FILE, for the webhooks of gates whose `url` is URL. Repeatable.",
)


@click.group("upgrade", cls=Subcommands, no_args_is_help=True)
@verbose
def upgrade() -> None:
    """Plan and run an upgrade: move workloads to another revision in waves.

    docs/upgrades.md describes the document `Upgrade`.
    """


@upgrade.command(
    "plan",
    epilog=examples(
        "upgrade plan upgrade.yaml",
        "upgrade plan upgrade.yaml --context east --context west -o table",
        "upgrade plan upgrade.yaml -f cluster.yaml -o json",
        "upgrade plan upgrade.yaml --prove",
    ),
)
@click.argument("document", metavar="FILE|NAME")
@FILENAME
@RECURSIVE
@clusters_options
@output_format(*FORMATS)
@confirm_option("Without -f")
@click.option(
    "--prove",
    is_flag=True,
    help="Compare the new pods with those of the running istiod of the new revision. With -f, needs --istiod-url.",
)
@istiod_options
@exit_code_option("workloads are refused, cannot be restarted, or differ from istiod's")
@verbose
def plan(  # noqa: PLR0913 -- one parameter for each flag
    *,
    document: str,
    filenames: tuple[str, ...],
    recursive: bool,
    sources: RevisionSources,
    kubeconfigs: tuple[Kubeconfig, ...],
    output: str,
    confirm: int,
    prove: bool,
    istiod: IstiodOptions,
    exit_code: bool,
) -> None:
    """Show the wave of each workload and how its pods would change, or the reason why the workload stays.

    FILE contains an Upgrade; - is stdin. NAME is an Upgrade in the cluster. The workloads come from the cluster, or from the files of `-f`.
    The command changes nothing. The exit code is 0 if every workload of a wave can be restarted, else 1. With --prove, it is also 1 if a
    new pod differs from that of the running istiod, or was not compared.
    """
    from_file = None if is_resource_name(document) else read_document(document)[1]

    def read(kubeconfig: Kubeconfig) -> tuple[Plan, tuple[str, ...]]:
        wanted = from_file or read_resource(document, kubeconfig)
        with open_reader(filenames, kubeconfig, recursive=recursive) as session:
            fleet = session.run(lambda reader: read_fleet(reader, sources, wanted))
            plan = make_plan(wanted, fleet.tag, fleet)
            if fleet.source is not None and fleet.target is not None:
                created = [workload.created for workload in fleet.workloads]
                old, new = fleet.source, fleet.target
                read_changes = partial(read_minor_changes, source=old, target=new, workloads=created, is_upgrade=True)
                plan = replace(plan, minor_changes=session.run(read_changes))
            notes = *fleet.notes, *plan.notes, *plan.minor_changes.notes
            try:
                plan = plan.with_budgets(session.run(_exhausted_budgets))
            except ClusterError as error:
                notes = *notes, f"PodDisruptionBudgets cannot be read: {error.what}"
        if prove and fleet.target is not None:
            from injector.fleet.prove import prove as prove_workloads  # as in ``run``

            moved = [entry.workload.created for entry in plan.entries if entry.wave is not None]
            proof = prove_workloads(fleet.target, moved, fleet.namespaces, kubeconfig, istiod, with_progress)
            plan, notes = replace(plan, proof=proof), (*notes, *proof.notes)
        if filenames:
            return plan, notes
        check = partial(_dry_run, wanted, fleet.target)
        entries, unconfirmed = confirm_items(plan.entries, _group_to_check, check, kubeconfig, confirm)
        plan, notes = replace(plan, entries=tuple(entries)), (*notes, *unconfirmed)
        try:
            return _with_permissions(plan, kubeconfig), notes
        except ClusterError as error:
            return plan, (*notes, f"permissions cannot be checked: {error.what}")

    if filenames:
        unused = ("confirm",) if from_file is None else ("confirm", "paths", "context_names")
        refuse_unused("with -f", *unused)
        only_one(kubeconfigs, "with -f")
    else:
        refuse_unused("without -f", "recursive")
    if not prove:
        refuse_unused("without --prove", *ISTIOD_PARAMETERS)
    elif filenames and istiod.url is None:
        raise UsageError("files have no running istiod", where="--prove", hint="give its address by --istiod-url")
    by_cluster = on_each(kubeconfigs, read)
    by_cluster.note("note", lambda result: result[1])
    echo_colored(plans_text(by_cluster, output), HEADINGS)
    by_cluster.exit(
        has_findings=exit_code and any(map(_has_findings, (plan for plan, _ in by_cluster.results.values())))
    )


def _has_findings(plan: Plan) -> bool:
    return BLOCKED in plan.count() or (plan.proof is not None and plan.proof.has_findings)


def _with_permissions(plan: Plan, kubeconfig: Kubeconfig) -> Plan:
    """Return a plan with the permissions that are missing. Raises ClusterError if they cannot be asked for."""
    from injector.upgrade.preflight import gateway_faults, missing_permissions  # as in ``run``

    entries = [entry for entry in plan.entries if entry.action == RESTART]

    async def ask(client: KubeClient) -> list[str]:
        rollout = await client.find_resource(ROLLOUT, ROLLOUT_GROUP)
        missing = await missing_permissions(client, plan.upgrade, entries, rollout, _PACE)
        return (
            missing if plan.gateway_view.unknown else [*missing, *await gateway_faults(client, plan)]
        )  # a note has those

    with open_session(kubeconfig) as session:
        return replace(plan, missing_permissions=tuple(session.run(ask)))


async def _exhausted_budgets(reader: ObjectReader) -> list[tuple[str, str, Selector]]:
    """Return the PodDisruptionBudgets that allow no disruption: namespace, name and selector of each."""
    from injector.upgrade.observe import budget_facts  # as in ``run``

    budgets = await reader.all(Scope(BUDGETS), budget_facts)
    return [(budget.namespace, budget.name, budget.selector) for budget in budgets if budget.is_exhausted]


def _group_to_check(entry: Entry) -> tuple[str, ...] | None:
    return (entry.change, *entry.kinds) if entry.action == RESTART and entry.change != IDENTICAL else None


async def _dry_run(document: Upgrade, target: Revision | None, client: KubeClient, entry: Entry) -> Entry:
    """Return the entry of a workload after a dry run of its new pod."""
    if target is None:
        return entry
    (answer,) = answers_for(entry.workload, target)
    said = None
    if isinstance(answer, Injected):
        said = await refusal(client, answer.pod, entry.key.namespace)
    if said is None or waits_for_quota(entry.workload, said):
        return entry
    return refused_entry(document, entry, f"dry run: {one_line(said)}")


EXIT_CODES: Final = {COMPLETED: 0, PAUSED: 3, ROLLED_BACK: 4, ABORTED: 5, INCOMPLETE: 6}
"""The exit codes of `upgrade run`, by the result."""


@upgrade.command("run", epilog=examples("upgrade run upgrade.yaml", "upgrade run to-1-30 --again"))
@click.argument("document", metavar="FILE|NAME")
@click.option("--again", is_flag=True, help="Start an upgrade that has ended again: a new run, with the present tag.")
@SKIP_CONFIRMATION
@cluster_options
@PROMETHEUS_TOKEN
@GATE_TOKEN
@verbose
def run(  # noqa: PLR0913 -- one parameter for each flag
    *,
    document: str,
    again: bool,
    skip_confirmation: bool,
    sources: RevisionSources,
    kubeconfig: Kubeconfig,
    prometheus_token: str | None,
    gate_token: tuple[str, ...],
) -> None:
    """Run or continue the upgrade of FILE, or the Upgrade NAME of the cluster, until it ends or is paused.

    The command creates the resource Upgrade of FILE, or adopts the one of its name. You can stop it at any time and start it again, on any
    machine. An upgrade that has ended is not started again without --again: the command shows its result. The exit code is 0 if it is
    Completed, 3 if it is Paused, 4 if RolledBack, 5 if Aborted, and 6 if Incomplete: work is left, which `upgrade status` names.

    On a terminal, the command shows the plan and asks before it starts an upgrade, but not before it continues one.
    """
    # Imported here, as they load the server's libraries, which --help and shell completion do not need.
    from prometheus_client import CollectorRegistry

    from injector.metrics import Metrics
    from injector.upgrade.gates import Tokens
    from injector.upgrade.run import Runner
    from injector.upgrade.survey import Surveyor

    raw, name = None, document
    if not is_resource_name(document):
        raw, upgrade_of_file = read_document(document)
        name = upgrade_of_file.name
    if not skip_confirmation and is_dialog():
        _confirm_start(name, None if raw is None else upgrade_of_file, sources, kubeconfig, again=again)
    tokens = Tokens.read(prometheus_token, gate_token)

    async def work(client: KubeClient) -> tuple[Stored, bool]:
        store = Store(client, name, f"{socket.gethostname()}_{os.getpid()}")
        stored = await (store.again(raw) if again else store.load() if raw is None else store.adopt(raw))
        _check_document(stored.upgrade)
        if not stored.is_due:
            return stored, False
        metrics = Metrics(CollectorRegistry())
        runner = Runner(client, Surveyor(client, sources), sources.istio_namespace, metrics, say, tokens)
        try:
            await runner.run(store)
        except InjectorError as error:
            with suppress(InjectorError):
                await store.note(str(error))
            raise
        return await store.load(), True

    say = _live() or _say
    with open_session(kubeconfig) as session:
        stored, was_run = session.run(work)
    state = stored.state
    if state is None:
        raise UsageError(f"the upgrade {name} was not started", hint="run it again")
    echo(state_line(stored.upgrade, state))
    echo(remaining_text(state), nl=False)
    if not was_run and state.has_ended:
        echo(f"{name} has ended, and is not started again without --again", err=True)
    click.get_current_context().exit(EXIT_CODES[state.phase])


def _confirm_start(
    name: str, of_file: Upgrade | None, sources: RevisionSources, kubeconfig: Kubeconfig, *, again: bool
) -> None:
    """Show the plan of an upgrade that is about to start, and end the command unless the user confirms it."""

    async def read(client: KubeClient) -> Plan | None:
        stored = await Store(client, name).find()
        if stored is not None and not (stored.is_new or (again and not stored.is_under_way)):
            return None
        wanted = of_file if stored is None or of_file is not None else stored.upgrade
        if wanted is None:
            return None  # the run says that it does not exist
        fleet = await read_fleet(client, sources, wanted)
        return make_plan(wanted, fleet.tag, fleet)

    with open_session(kubeconfig) as session:
        plan = session.run(read)
    if plan is not None:
        echo_colored(as_summary(plan), HEADINGS)
        confirm_with_user(f"Start the upgrade {name}?")


def _say(document: Upgrade, state: State, *, err: bool = True) -> None:
    echo(f"{utc_text(time.time())} {state_line(document, state)}", err=err)


def _live() -> Callable[[Upgrade, State], None] | None:
    """Return the function that shows states as a table that stays in place; None if the output is not a terminal."""
    if not has_cursor():
        return None
    live = LiveText(HEADINGS)

    def show(document: Upgrade, state: State) -> None:
        now = time.time()
        live.show(status_text(Stored(document, state, Heartbeat(time=now), {}), "table", now))

    return show


_NAME: Final = click.argument(
    "name", callback=validator(is_dns_label, "a name of an upgrade", "write its metadata.name")
)


@upgrade.command("list", epilog=examples("upgrade list"))
@kubeconfig_options
@output_format("table", "json", "yaml")
@verbose
def list_(*, kubeconfig: Kubeconfig, output: str) -> None:
    """Show the upgrades of the cluster: the tag, the revisions, the phase, and the reason of a wait."""
    with open_session(kubeconfig) as session:
        upgrades = session.run(list_upgrades)
    if output != "table":
        echo(data_text([_data(stored) for stored in upgrades], output), nl=False)
        return
    rows = [_row(stored) for stored in upgrades]
    echo_colored(table(("NAME", "TAG", "FROM", "TO", "PHASE", "REASON"), rows), HEADINGS)


def _row(stored: Stored) -> tuple[str, ...]:
    upgrade, state = stored.upgrade, stored.state
    phase = "-" if state is None else state.phase
    reason = stored.trouble_text(time.time()) or ("" if state is None else state.reason)
    return upgrade.name, upgrade.tag or "-", upgrade.source, upgrade.target, phase, one_line(reason) or "-"


@upgrade.command("crd", epilog=examples("upgrade crd | kubectl apply -f -"))
@verbose
def crd() -> None:
    """Print the CustomResourceDefinition of Upgrade, for `kubectl apply -f -`. Helm installs it with the chart."""
    echo(CRD_FILE.read_text(encoding="utf-8"), nl=False)


@upgrade.command("status", epilog=examples("upgrade status to-1-30 --watch"))
@_NAME
@click.option(
    "-w",
    "--watch",
    is_flag=True,
    help="Show each change until the upgrade ends: a terminal keeps the table in place, elsewhere each change is a line.",
)
@kubeconfig_options
@output_format("table", "json", "yaml")
@verbose
def status(*, name: str, watch: bool, kubeconfig: Kubeconfig, output: str) -> None:
    """Show the state of the upgrade NAME: its waves, the progress, the gates, and the reason of a wait.

    At the end it names the workloads that are left, with the remedy. If no runner is at work, it says so.
    """

    async def work(client: KubeClient) -> None:
        store, last = Store(client, name), ""
        while True:
            stored = await store.load()
            text = status_text(stored, output, time.time())
            if text != last:
                show(stored, text)
                last = text
            if not watch or (stored.state is not None and stored.state.has_ended):
                return
            await asyncio.sleep(INTERVAL)

    live = LiveText(HEADINGS) if watch and output == "table" and has_cursor() else None

    def show(stored: Stored, text: str) -> None:
        if live is not None:
            live.show(text)
        elif watch and output == "table":
            echo(f"{utc_text(time.time())} {head_line(stored, time.time())}")
        else:
            echo_colored(text, HEADINGS)

    with open_session(kubeconfig) as session:
        session.run(work)


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
        return data_text(_data(stored), output)
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


def _data(stored: Stored) -> dict[str, Any]:
    """Return an upgrade as JSON data: its document in short, and its status."""
    status_data = stored.item.get("status") or {}
    dead = stored.dead_text(time.time())
    return {**stored.upgrade.head, **status_data, **({"noRunner": dead} if dead else {})}


def _forecast(state: State, now: float) -> str:
    seconds = seconds_left(state, now)
    return "" if seconds is None else f", about {math.ceil(seconds / 60)} min at the pace so far"


_HELP: Final = {
    "pause": "Start no further restart and no further wave of the upgrade NAME.",
    "resume": "Continue the paused upgrade NAME, or try again what an Incomplete one left. The deadline and the timeouts start again.",
    "promote": "Skip the rest of the current wave of the upgrade NAME, with its gates and remaining restarts, and continue.",
    "accept": "Close the upgrade NAME, which is Incomplete, although work is left: it counts as Completed, or as RolledBack.",
    "rollback": "Move the tag of the upgrade NAME back, and restart the workloads that have the new revision.",
}


def _command(verb: str) -> click.Command:
    @_NAME
    @kubeconfig_options
    @verbose
    def change(*, name: str, kubeconfig: Kubeconfig) -> None:
        with open_session(kubeconfig) as session:
            stored = session.run(lambda client: Store(client, name).command(verb, float(int(time.time()))))
        echo(head_line(stored, time.time()))

    return click.command(verb, help=_HELP[verb], epilog=examples(f"upgrade {verb} to-1-30"))(change)


for _verb in _HELP:
    upgrade.add_command(_command(_verb))


@upgrade.command("abort", epilog=examples("upgrade abort to-1-30"))
@_NAME
@cluster_options
@verbose
def abort(*, name: str, sources: RevisionSources, kubeconfig: Kubeconfig) -> None:
    """End the upgrade NAME. The tag and the pods stay as they are.

    The command then reads the cluster as `plan` does, and names what is left, with the remedies: workloads, and Gateways that are pinned.
    """
    from injector.upgrade import single  # as in ``run``
    from injector.upgrade.survey import Surveyor

    async def work(client: KubeClient) -> tuple[Stored, str]:
        return await single.abort(Store(client, name), Surveyor(client, sources), float(int(time.time())))

    with open_session(kubeconfig) as session:
        stored, fault = session.run(work)
    echo(head_line(stored, time.time()))
    if stored.state is not None:
        echo(remaining_text(stored.state), nl=False)
    if fault:
        echo(escape_line(f"note: there may be more left, since the cluster cannot be read: {fault}"), err=True)


_HELP_SINGLE: Final = {
    SKIP: "Leave out a workload of the upgrade NAME knowingly. The end names it as left; `accept` closes the upgrade then.",
    RETRY: "Restart a workload of the upgrade NAME again at once, which failed, was blocked or is skipped.",
}


def _single_command(verb: str) -> click.Command:
    @_NAME
    @click.argument("workload", nargs=-1, required=True)
    @cluster_options
    @verbose
    def change(*, name: str, workload: tuple[str, ...], sources: RevisionSources, kubeconfig: Kubeconfig) -> None:
        from injector.upgrade.single import change_workload  # as in ``run``
        from injector.upgrade.survey import Surveyor

        async def work(client: KubeClient) -> tuple[Stored, Key]:
            now, store = float(int(time.time())), Store(client, name)
            return await change_workload(store, Surveyor(client, sources), verb, " ".join(workload), now)

        with open_session(kubeconfig) as session:
            stored, key = session.run(work)
        echo(escape_line(f"{key}: {'skipped' if verb == SKIP else 'is tried again'}"))
        echo(head_line(stored, time.time()))

    text = (
        f"{_HELP_SINGLE[verb]}\n\nWORKLOAD is NAMESPACE/KIND/NAME, or KIND NAMESPACE/NAME as the status names it. "
        "The command reads the cluster as `plan` does, and refuses a workload that the upgrade does not have."
    )
    return click.command(verb, help=text, epilog=examples(f"upgrade {verb} to-1-30 shop/deployment/web"))(change)


for _verb in (SKIP, RETRY):
    upgrade.add_command(_single_command(_verb))


def read_document(filename: str) -> tuple[dict[str, Any], Upgrade]:
    """Read an Upgrade from a file, or stdin for ``-``, and return it with its object. Raises DataError if it cannot be read."""
    manifests = read_manifests((filename,), recursive=False)
    documents = (
        (file.name, load_yaml(document.text, where=file.name, line=document.line, strict=True))
        for file in manifests
        for document in split_documents(file.text, where=file.name)
    )
    parsed = [(where, raw) for where, raw in documents if raw is not None]
    if len(parsed) > 1:
        raise ManifestError("it has several documents", where=filename, hint="give a file with one Upgrade")
    where, raw = parsed[0] if parsed else (manifests[0].name, {})
    return raw, _check_document(read_upgrade(raw, where=where))


def _check_document(document: Upgrade) -> Upgrade:
    """Check the queries too, before anything is started."""
    from injector.upgrade.gates import parse_queries  # as in ``run``

    parse_queries(document)
    return document


def is_resource_name(document: str) -> bool:
    """Return whether an argument names an Upgrade of the cluster: it is a name, and no such file exists."""
    return is_dns_label(document) and not Path(document).exists()


def read_resource(name: str, kubeconfig: Kubeconfig) -> Upgrade:
    """Read an Upgrade of the cluster. Raises InjectorError if it does not exist, cannot be read, or is not valid."""
    with open_session(kubeconfig) as session:
        return _check_document(session.run(lambda client: Store(client, name).load()).upgrade)


def plans_text(by_cluster: ByCluster[tuple[Plan, tuple[str, ...]]], output: str) -> str:
    """Return the plans of the clusters in one of ``FORMATS``."""
    match output:
        case "summary":
            return by_cluster.sections(lambda result: as_summary(result[0]))
        case "table":
            is_proved = any(plan.proof is not None for plan, _ in by_cluster.results.values())
            rows = by_cluster.rows(lambda result: _proved_rows(result[0]) if is_proved else _rows(result[0]))
            return table(by_cluster.columns(*COLUMNS, *(("PROOF",) if is_proved else ())), rows)
        case "markdown":
            return by_cluster.sections(lambda result: as_markdown(result[0]))
        case _:
            return data_text(by_cluster.data(lambda result: as_data(result[0])), output)


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


def as_data(plan: Plan) -> dict[str, Any]:
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


def as_summary(plan: Plan) -> str:
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


def as_markdown(plan: Plan) -> str:
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

"""``injector upgrade``: move workloads to another revision in waves."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from injector.cli.commands import Subcommands, verbose
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
    table,
    with_progress,
)
from injector.cli.output import (
    confirm as confirm_with_user,
)
from injector.cli.sources import (
    cluster_options,
    clusters_options,
    kubeconfig_options,
    on_each,
    only_one,
)
from injector.cli.upgradetext import (
    PLAN_FORMATS,
    head_line,
    list_row,
    plan_summary,
    plans_text,
    remaining_text,
    state_data,
    status_text,
)
from injector.cluster.session import open_session
from injector.errors import InjectorError, ManifestError, UsageError
from injector.fleet.files import open_reader
from injector.fleet.manifests import read_manifests
from injector.golang.time import utc_text
from injector.kube.escaping import escape_line
from injector.kube.selectors import is_dns_label
from injector.kube.yaml import load_yaml, split_documents
from injector.upgrade.commands import RETRY, SKIP
from injector.upgrade.document import Upgrade, read_upgrade
from injector.upgrade.plan import (
    BLOCKED,
    Key,
    Plan,
    make_plan,
)
from injector.upgrade.state import ABORTED, COMPLETED, INCOMPLETE, PAUSED, ROLLED_BACK, State, state_line
from injector.upgrade.status import Heartbeat
from injector.upgrade.step import INTERVAL
from injector.upgrade.store import CRD_FILE, Store, Stored, list_upgrades
from injector.upgrade.survey import read_fleet

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.fleet.istiodoptions import IstiodOptions
    from injector.fleet.sources import RevisionSources

T = TypeVar("T")

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
@output_format(*PLAN_FORMATS)
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
    from injector.upgrade.planning import ask_for_permissions, confirm_plan, read_plan  # as in ``run``

    from_file = None if is_resource_name(document) else read_document(document)[1]

    def read(kubeconfig: Kubeconfig) -> tuple[Plan, tuple[str, ...]]:
        wanted = from_file or read_resource(document, kubeconfig)
        with open_reader(filenames, kubeconfig, recursive=recursive) as session:
            plan, fleet, notes = session.run(lambda reader: read_plan(reader, sources, wanted))
        if prove and fleet.target is not None:
            from injector.fleet.prove import prove as prove_workloads  # as in ``run``

            moved = [entry.workload.created for entry in plan.entries if entry.wave is not None]
            proof = prove_workloads(fleet.target, moved, fleet.namespaces, kubeconfig, istiod, with_progress)
            plan, notes = replace(plan, proof=proof), (*notes, *proof.notes)
        if filenames:
            return plan, notes
        plan, unconfirmed = confirm_plan(plan, fleet.target, kubeconfig, confirm)
        plan, unknown = ask_for_permissions(plan, kubeconfig)
        return plan, (*notes, *unconfirmed, *unknown)

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
        result = await store.load()
        if again and result.state is not None and result.state.run < stored.upgrade.run:
            what = f"another writer has set `run` of the upgrade {name} back to {result.upgrade.run}, and it was not started"
            raise UsageError(
                what, hint=f"write `run: {stored.upgrade.run}` in the document that is applied, such as in Git"
            )
        return result, True

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
        echo_colored(plan_summary(plan), HEADINGS)
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
        upgrades, faults = session.run(list_upgrades)
    for fault in faults:
        echo(escape_line(f"note: {fault}"), err=True)
    if output != "table":
        echo(data_text([state_data(stored, time.time()) for stored in upgrades], output), nl=False)
        return
    rows = [list_row(stored, time.time()) for stored in upgrades]
    echo_colored(table(("NAME", "TAG", "FROM", "TO", "PHASE", "REASON"), rows), HEADINGS)


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

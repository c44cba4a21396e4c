"""A plan for people: that of the survey, with what breaks between the minors, and what the API server says of pods and permissions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from injector.cluster.resources import BUDGETS, Scope
from injector.cluster.session import open_session
from injector.errors import ClusterError
from injector.fleet.dryrun import confirm_items, refusal
from injector.fleet.minors import read_minor_changes
from injector.injection.result import Injected
from injector.upgrade.observe import budget_facts
from injector.upgrade.plan import (
    IDENTICAL,
    RESTART,
    ROLLOUT,
    ROLLOUT_GROUP,
    Entry,
    Plan,
    answers_for,
    make_plan,
    refused_entry,
    waits_for_quota,
)
from injector.upgrade.preflight import gateway_faults, missing_permissions
from injector.upgrade.survey import read_fleet

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.cluster.resources import TextReader
    from injector.fleet.sources import RevisionSources
    from injector.istio.revision import Revision
    from injector.upgrade.document import Upgrade
    from injector.upgrade.plan import Fleet

_PACE: Final = 0.02
"""Seconds between two questions for a permission: a person waits."""


async def read_plan(
    reader: TextReader, sources: RevisionSources, document: Upgrade
) -> tuple[Plan, Fleet, tuple[str, ...]]:
    """Return the plan of a document for a cluster, or for files, with its input and notes. Raises InjectorError as ``read_fleet``."""
    fleet = await read_fleet(reader, sources, document)
    plan = make_plan(document, fleet.tag, fleet)
    if fleet.source is not None and fleet.target is not None:
        created = [workload.created for workload in fleet.workloads]
        changes = await read_minor_changes(reader, fleet.source, fleet.target, created, is_upgrade=True)
        plan = replace(plan, minor_changes=changes)
    notes = *fleet.notes, *plan.notes, *plan.minor_changes.notes
    try:
        budgets = await reader.all(Scope(BUDGETS), budget_facts)
    except ClusterError as error:
        return plan, fleet, (*notes, f"PodDisruptionBudgets cannot be read: {error.what}")
    exhausted = [(budget.namespace, budget.name, budget.selector) for budget in budgets if budget.is_exhausted]
    return plan.with_budgets(exhausted), fleet, notes


def confirm_plan(
    plan: Plan, target: Revision | None, kubeconfig: Kubeconfig, count: int
) -> tuple[Plan, tuple[str, ...]]:
    """Let the API server check the new pods of ``count`` workloads by a dry run. Return the plan, and a note if it cannot be asked."""
    check = partial(_dry_run, plan.upgrade, target)
    entries, notes = confirm_items(plan.entries, _group_to_check, check, kubeconfig, count)
    return replace(plan, entries=tuple(entries)), notes


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
    return refused_entry(document, entry, f"dry run: {' '.join(said.split())}")


def ask_for_permissions(plan: Plan, kubeconfig: Kubeconfig) -> tuple[Plan, tuple[str, ...]]:
    """Return a plan with the permissions that its runner lacks, and a note if they cannot be asked for."""
    entries = [entry for entry in plan.entries if entry.action == RESTART]

    async def ask(client: KubeClient) -> list[str]:
        rollout = await client.find_resource(ROLLOUT, ROLLOUT_GROUP)
        missing = await missing_permissions(client, plan.upgrade, entries, rollout, _PACE)
        if plan.gateway_view.unknown:
            return missing  # a note has those of Gateways
        return [*missing, *await gateway_faults(client, plan)]

    try:
        with open_session(kubeconfig) as session:
            return replace(plan, missing_permissions=tuple(session.run(ask))), ()
    except ClusterError as error:
        return plan, (f"permissions cannot be checked: {error.what}",)

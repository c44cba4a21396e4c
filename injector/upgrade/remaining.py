"""The work that an upgrade, or its rollback, leaves behind at its end: each workload with the reason and the remedy. It does no I/O."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from injector.upgrade.plan import BLOCKED, NO_SIDECAR, RESTART, RESTARTABLE, ROLLOUT, SKIPPED, STAYS
from injector.upgrade.state import RESTART_OPEN, Remaining, remedy_of_restart
from injector.upgrade.statefulset import delete_command

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from injector.upgrade.document import Upgrade
    from injector.upgrade.plan import Entry, Plan, Workload
    from injector.upgrade.state import State


def work_left(
    plan: Plan, workloads: Sequence[Workload], namespaces: Collection[str], restarting: Collection[str] = ()
) -> tuple[Remaining, ...]:
    """Return the workloads that still have the wrong revision, or no sidecar.

    ``plan`` is made after the last restart; ``namespaces`` had workloads of the upgrade; the restarts of ``restarting`` were decided. A
    workload that is pinned stays, and is not left.
    """
    wrong = plan.target if plan.is_back else plan.source
    return tuple(
        sorted(
            (*_in_plan(plan, wrong, restarting), *_outside_of_tag(plan, workloads, namespaces, wrong)),
            key=lambda remaining: remaining.workload,
        )
    )


def gateways_left(upgrade: Upgrade, state: State) -> tuple[Remaining, ...]:
    """Return the Gateways that are still pinned, after a user has skipped their wave."""
    remedy = f"`injector upgrade resume {upgrade.name}` releases it"
    return tuple(
        Remaining(f"Gateway {name}", gateway.reason, remedy) for name, gateway in sorted(state.gateways.items())
    )


def left_after_abort(state: State, plan: Plan, workloads: Sequence[Workload]) -> tuple[Remaining, ...]:
    """Return what an upgrade leaves that a user has ended: pins as they were observed, and workloads."""
    view, command = plan.gateway_view, state.command_after_abort(plan.upgrade)
    labels = {f"{gateway.namespace}/{gateway.name}": gateway.pin for gateway in view.gateways}
    pins = [
        (gateway if view.unknown else replace(gateway, moving=False)).to_remaining(key)
        for key, gateway in sorted(state.gateways.items())
        if view.unknown or labels.get(key) == gateway.pin
    ]
    items = work_left(plan, workloads, state.namespaces, state.restarting)
    return *pins, *(replace(item, remedy=_after_end(item.remedy, command)) for item in items)


def _after_end(remedy: str, command: str) -> str:
    """Return a remedy with the command that an upgrade accepts after its end."""
    return re.sub(r"`injector upgrade [^`]*`", f"`{command}`", remedy)


def _in_plan(plan: Plan, wrong: str, restarting: Collection[str]) -> Iterator[Remaining]:
    for entry in plan.entries:
        if entry.action == BLOCKED and entry.note == NO_SIDECAR:
            count = entry.workload.pods[None]
            yield _remaining(entry, f"pods without a sidecar: {count}", _restart_command(entry))
        elif entry.action == BLOCKED:
            reason, _, remedy = entry.note.partition(": ")
            kinds = f" ({entry.kinds[0]})" if entry.kinds and not remedy else ""
            yield Remaining(str(entry.key), f"{_has(entry.workload, wrong)}: {reason}{kinds}", remedy or "correct it")
        elif entry.action == STAYS and entry.note == SKIPPED:
            what = _has(entry.workload, wrong) if entry.workload.pods[wrong] else entry.workload.restart.trouble
            remedy = f"`injector upgrade retry {plan.upgrade.name} {entry.key.path}` restarts it"
            if what:
                yield _remaining(entry, f"{what}: {SKIPPED}", remedy)
        elif entry.action == RESTART:
            remedy = f"`injector upgrade resume {plan.upgrade.name}` restarts it"
            why, trouble = "it was not restarted", entry.workload.restart.trouble
            if entry.workload.unready:
                why = f"its rollout waits for {', '.join(entry.workload.unready)} to be ready"
            elif str(entry.key) in restarting:
                why = f"{RESTART_OPEN}; {trouble}" if trouble else RESTART_OPEN
                remedy = remedy_of_restart(wrong, remedy)
            yield _remaining(entry, f"{_has(entry.workload, wrong)}: {why}", remedy)


def _remaining(entry: Entry, reason: str, remedy: str) -> Remaining:
    """Return a workload that is left. A StatefulSet needs one more command if its controller waits for a pod that is not ready."""
    if pods := entry.workload.unready:
        command = delete_command(pods, entry.key.namespace)
        remedy = f"if it does not become ready, repair the cause and run {command}; then {remedy}"
    return Remaining(str(entry.key), reason, remedy)


def _outside_of_tag(
    plan: Plan, workloads: Sequence[Workload], namespaces: Collection[str], wrong: str
) -> Iterator[Remaining]:
    """Yield the workloads that another webhook, or none, is called for since the labels of their namespace were changed."""
    name = plan.upgrade.tag or plan.upgrade.target
    for workload in workloads:
        place = workload.key.namespace
        if workload.requested == name or workload.has_own_label or place not in namespaces or not workload.pods[wrong]:
            continue
        # The label istio-injection excludes its namespace from the webhooks of istio.io/rev.
        leads = f"leads to {workload.requested}" if workload.requested else "asks for no sidecar"
        label = f"`kubectl label namespace {place} istio-injection- istio.io/rev={name} --overwrite`"
        remedy = f"{label}, and then `injector upgrade resume {plan.upgrade.name}`"
        yield Remaining(str(workload.key), f"{_has(workload, wrong)}: its namespace {leads} instead of {name}", remedy)


def _has(workload: Workload, revision: str) -> str:
    """Return how many pods have a revision. One that an upgrade leaves may have a third one, of which no pod is the wrong one."""
    others = {name: count for name, count in workload.pods.items() if name is not None}
    if not others.get(revision) and others:
        revision = max(sorted(others), key=others.__getitem__)
    return f"pods with revision {revision}: {workload.pods[revision]}"


def _restart_command(entry: Entry) -> str:
    place, kind, name = entry.key
    if kind == ROLLOUT:
        return f"`kubectl argo rollouts restart {name} -n {place}`"
    if kind in RESTARTABLE and not entry.workload.restart.obstacle:
        return f"`kubectl rollout restart {kind.lower()}/{name} -n {place}`"
    return entry.workload.restart.obstacle.rpartition(": ")[2] or "delete its pods"

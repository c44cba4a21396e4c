"""The commands that read the cluster: ``skip`` leaves out a workload, ``retry`` restarts it again, and ``abort`` ends an upgrade."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from injector.errors import DataError, InjectorError, UsageError
from injector.fleet.workloads import TYPES
from injector.hints import did_you_mean
from injector.upgrade.commands import RETRY, SKIP, check_end, retry_workload, skip_workload
from injector.upgrade.plan import BLOCKED, DONE, SKIPPED, STAYS, Entry, Key, Plan
from injector.upgrade.remaining import left_after_abort
from injector.upgrade.state import ABORTED, State
from injector.upgrade.tag import tag_before

if TYPE_CHECKING:
    from collections.abc import Sequence

    from injector.upgrade.document import Upgrade
    from injector.upgrade.store import Store, Stored
    from injector.upgrade.survey import Surveyor


async def change_workload(store: Store, surveyor: Surveyor, verb: str, text: str, now: float) -> tuple[Stored, Key]:
    """Skip or retry the workload that ``text`` names, and return the stored upgrade and its name.

    Raises:
        DataError: the upgrade has no such workload.
        UsageError: the command does not fit the workload or the state.
        InjectorError: as in ``Surveyor.survey``.
    """
    stored, state = await store.load_started()
    upgrade = stored.upgrade
    check_end(state, verb, upgrade)
    # With `rest`, the workloads of earlier waves are compared too, which shows those that the new revision still refuses.
    survey = await surveyor.survey(
        upgrade, replace(state, rest=True), tag_before(upgrade, state), is_compared=verb == RETRY and not state.back
    )
    entry = find_entry(survey.plan.without(state.skipped), text)
    wave = next(other.wave for other in survey.plan.entries if other.key == entry.key)
    has_begun = state.back or wave is None or wave <= state.wave
    fault = _fault(upgrade, state, entry, verb, wave if not has_begun else None)
    if fault:
        raise UsageError(f"{entry.key} {fault}")
    name = str(entry.key)

    def change(current: State, upgrade: Upgrade) -> State:
        if verb == SKIP:
            return skip_workload(current, name, upgrade)
        return retry_workload(current, name, upgrade, now, has_begun=has_begun)

    return await store.change(change), entry.key


async def abort(store: Store, surveyor: Surveyor, now: float) -> tuple[Stored, str]:
    """End an upgrade at once, and then store what is left. Return it, and why the cluster cannot be read; empty if it can.

    Raises:
        UsageError: the upgrade has ended, or was not started.
        ClusterError: as in ``Store``.
    """
    stored = await store.command("abort", now)
    upgrade, state = stored.upgrade, stored.state or State()
    try:
        survey = await surveyor.survey(upgrade, state, tag_before(upgrade, state))
    except InjectorError as error:
        return stored, str(error)
    remaining = left_after_abort(state, survey.plan.without(state.skipped), survey.workloads)

    def change(current: State, upgrade: Upgrade) -> State:
        del upgrade
        return current.abort(remaining) if (current.phase, current.run) == (ABORTED, state.run) else current

    return await store.change(change), ""


def find_entry(plan: Plan, text: str) -> Entry:
    """Return the workload that a text names: ``shop/deployment/web``, or ``Deployment shop/web`` as the status does.

    Raises DataError, with a similar name, if the plan has none of this name.
    """
    kind, separator, rest = text.partition(" ")
    namespace, _, name = rest.partition("/") if separator else text.partition("/")
    if not separator:
        kind, _, name = name.partition("/")
    known = TYPES.get(kind.lower())
    kind = (known[0] if isinstance(known, tuple) else known.kind) if known is not None else kind
    for entry in plan.entries:
        if (entry.key.namespace, entry.key.kind.lower(), entry.key.name) == (namespace, kind.lower(), name):
            return entry
    hint = "name it as NAMESPACE/KIND/NAME; `injector upgrade plan` lists the workloads"
    similar = did_you_mean(f"{namespace}/{kind}/{name}", _similar(plan, namespace, name))
    raise DataError(f"upgrade {plan.upgrade.name} has no workload {text[:200]!r}{similar}", hint=hint)


def _similar(plan: Plan, namespace: str, name: str) -> Sequence[str]:
    """Return the names to suggest: workloads of the same name, or else of the namespace, or else all."""
    keys = [entry.key for entry in plan.entries]
    own = [key for key in keys if key.name == name] or [key for key in keys if key.namespace == namespace] or keys
    return [key.path for key in own]


def _fault(upgrade: Upgrade, state: State, entry: Entry, verb: str, later: int | None) -> str:
    """Return why a command does not fit a workload; empty if it does. ``later`` is its wave if this has not begun."""
    is_skipped = entry.note == SKIPPED
    if is_skipped or (entry.action not in (STAYS, DONE) and verb == SKIP):
        return ""
    if entry.action == STAYS:
        return f"is not moved by the upgrade: {entry.note}"
    if entry.action == DONE and not entry.workload.restart.trouble and str(entry.key) not in state.restarting:
        return f"is done: {entry.note}"
    if verb == SKIP:
        return ""
    if entry.action == BLOCKED:
        return f"is still blocked: {entry.note}{''.join(f': {kind}' for kind in entry.kinds[:1])}"
    return "" if later is None else f"is in wave {upgrade.waves[later].name}, which has not begun"

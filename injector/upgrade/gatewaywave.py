"""How an upgrade pins the Gateways whose owner a tag would change, and later lets them go, a few at a time. It does no I/O.

istiod decides by the label of a tag which Gateways are its own, so that the write of a tag moves all of them at once. Before an upgrade or
its rollback writes the tag, each of them gets the label ``istio.io/rev`` of the revision that owns it now: a *pin*. After the last
workloads, the Gateways are *released* in turn: each gets the label back that it had, follows the tag, and changes its owner alone.

A pin and a release are each decided by storing them in ``State.gateways``. Every runner performs them until the label is observed; the API
server accepts a change only for the version of the Gateway that was observed. Gateways are listed for each step that needs them, but
the state of their pods may be old. A Gateway that was in service before the upgrade counts until it is again, also if its label is changed
once more meanwhile: after another writer has moved the tag, or by a rollback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from injector.upgrade.document import rank_in
from injector.upgrade.state import PinnedGateway

if TYPE_CHECKING:
    from injector.upgrade.document import GatewayWave

SETTLE: Final = 10.0
"""Seconds for which a Gateway must be in service after a change of its label: istiod acts later, and its pods are observed later."""
LATE: Final = 30.0
"""Seconds for which a change that was decided may still be made by a late runner."""


@dataclass(frozen=True, slots=True)
class ObservedGateway:
    """A Gateway at one moment.

    Attributes:
        name: its namespace and name.
        label: its label ``istio.io/rev``; None if it has none.
        version: its resourceVersion.
        owners: the revisions that own it.
        owners_after: the revisions that would own it if the tag were written as the upgrade wants it now.
        fault: why it is not in service: its conditions, or the pods of its Deployment; empty if it is.
        deployment: the name of its Deployment; empty for none.
    """

    name: str
    label: str | None
    version: str = ""
    owners: tuple[str, ...] = ()
    owners_after: tuple[str, ...] = ()
    fault: str = ""
    deployment: str = ""


@dataclass(frozen=True, slots=True)
class LabelChange:
    """A label to write: the Gateway, its version, and the value of ``istio.io/rev``; None removes it."""

    name: str
    version: str
    label: str | None


@dataclass(frozen=True, slots=True)
class GatewayDecision:
    """The next pins, the labels to write, why it waits, and the faults by Gateway. It ``is_done`` if there is nothing left to do."""

    gateways: Mapping[str, PinnedGateway]
    changes: tuple[LabelChange, ...] = ()
    reason: str = ""
    faults: tuple[str, ...] = ()
    is_done: bool = False


def pin(
    wave: GatewayWave,
    pins: Mapping[str, PinnedGateway],
    gateways: Sequence[ObservedGateway],
    *,
    now: float,
    timeout: float,
    waits: bool,
) -> GatewayDecision:
    """Pin the Gateways whose owner changes with the tag. With ``waits``, only as many at a time as the wave allows."""
    views = {view.name: view for view in gateways}
    following, pending = dict(pins), dict[str, str]()
    for name, entry in pins.items():
        view = views.get(name)
        if view is None:
            continue
        if entry.moving:
            # A release that a late runner makes after the tag was written would change the owner.
            if view.label != entry.label and now - entry.since <= LATE:
                return GatewayDecision(pins, reason=f"waiting for Gateway {name}: its label is not written")
        elif view.label != entry.pin:
            # Else a user has changed the label, or the tag changes no owner any more.
            if view.label == entry.label and view.owners_after != view.owners == (entry.pin,):
                pending[name] = f"it is not pinned to {entry.pin}"
                if waits:
                    # A user has changed the label of one that was settled, and the time begins again.
                    is_settled = entry.ready and now - entry.ready > LATE
                    following[name] = replace(entry, since=now if is_settled else entry.since, ready=0.0)
        elif waits and not (entry.ready and now - entry.ready > LATE):  # a later fault has another cause
            following[name] = entry = _observe(entry, view, now)  # noqa: PLW2901
            if not entry.ready or now - entry.ready < SETTLE:
                pending[name] = view.fault or f"it was pinned to {entry.pin}"
    faults = [
        f"Gateway {name}: {what} after {int(timeout)} s"
        for name, what in pending.items()
        if waits and not following[name].ready and now - following[name].since > timeout
    ]
    overdue = [
        view
        for view in _in_order(wave, gateways)
        if view.owners_after != view.owners and len(view.owners) == 1 and view.name not in pending
    ]
    overdue.sort(key=lambda view: view.name not in pins)  # one that was being released is perhaps not in service
    room = max(wave.limit - len(pending), 0) if waits else len(overdue)
    for view in overdue[:room]:
        following[view.name] = _new_pin(view, pins.get(view.name), now, waits=waits)
    changes = tuple(
        LabelChange(name, views[name].version, following[name].pin)
        for name in (*pending, *(view.name for view in overdue[:room]))
        if views[name].label != following[name].pin
    )
    reason = next((f"waiting for Gateway {name}: {what}" for name, what in pending.items()), "")
    return GatewayDecision(following, changes, reason, tuple(faults), is_done=not pending and not overdue)


def _new_pin(view: ObservedGateway, before: PinnedGateway | None, now: float, *, waits: bool) -> PinnedGateway:
    """Return the pin of a Gateway to its owner. A rollback waits only for one whose change before is not complete."""
    in_service = not view.fault or (before is not None and before.in_service)
    is_complete = before is None or (bool(before.ready) and not before.moving)
    ready = now if is_complete and not waits else 0.0
    return PinnedGateway(view.label, view.owners[0], now, in_service=in_service, ready=ready)


def release(  # noqa: PLR0913 -- those of ``pin``, and the two ways
    wave: GatewayWave,
    pins: Mapping[str, PinnedGateway],
    gateways: Sequence[ObservedGateway],
    *,
    now: float,
    timeout: float,
    hold: str,
    is_back: bool,
) -> GatewayDecision:
    """Give the pinned Gateways their labels back, as many at a time as the wave allows, unless there is a reason to ``hold``.

    A rollback begins with those that are not in service, first with those that were being moved. One that does not recover holds up no
    other one.
    """
    views = {view.name: view for view in gateways}
    following: dict[str, PinnedGateway] = {}
    faults: dict[str, str] = {}
    reason = ""
    for name, entry in pins.items():
        view = views.get(name)
        if view is None or _needs_no_release(view, entry, now):
            continue
        if entry.moving:
            entry = _observe(entry, view, now)  # noqa: PLW2901
            if entry.ready and now - entry.ready >= max(wave.soak, SETTLE):
                continue
            if not entry.ready:
                what = view.fault if view.label == entry.label else "its label is not written"
                reason = f"waiting for Gateway {name}: {what}"
                if now - entry.since > timeout:
                    faults[name] = f"Gateway {name}: {what} after {int(timeout)} s"
        following[name] = entry
    moving = [name for name, entry in following.items() if entry.moving and not (is_back and name in faults)]
    waiting = [view for view in _in_order(wave, gateways) if view.name in following and not following[view.name].moving]
    unsettled = {view.name for view in waiting if _is_unsettled(view, following[view.name])}
    if is_back:
        waiting.sort(key=lambda view: (view.name not in unsettled, not view.fault))
    if faults and not (is_back and (moving or waiting)):
        return GatewayDecision(following, faults=tuple(faults.values()))
    released = set(moving)
    for view in () if hold else waiting:
        busy = released if view.name in unsettled else released | unsettled
        if len(busy) < wave.limit:
            following[view.name] = replace(following[view.name], since=now, moving=True, ready=0.0)
            released.add(view.name)
    changes = tuple(
        LabelChange(name, views[name].version, entry.label)
        for name, entry in following.items()
        if entry.moving and views[name].label == entry.pin and entry.pin != entry.label
    )
    reason = hold if hold and waiting and not moving else reason
    return GatewayDecision(following, changes, reason or ("soaking" if moving else ""), is_done=not following)


def _observe(entry: PinnedGateway, view: ObservedGateway, now: float) -> PinnedGateway:
    """Return the entry of a Gateway with the time since which it has its label, and is in service if it was before."""
    is_written = view.label == (entry.label if entry.moving else entry.pin)
    is_ready = is_written and not (view.fault and entry.in_service)
    return replace(entry, ready=(entry.ready or now) if is_ready else 0.0)


def _is_unsettled(view: ObservedGateway, entry: PinnedGateway) -> bool:
    """Tell whether a Gateway that is pinned is not in service because of a change before: its move, which a rollback has ended."""
    return bool(view.fault) and entry.in_service and not entry.ready


def _needs_no_release(view: ObservedGateway, entry: PinnedGateway, now: float) -> bool:
    """Tell whether a user has changed the label of a Gateway, or its pin was never written."""
    if view.label != entry.label:
        return view.label != entry.pin
    return not entry.moving and now - entry.since > LATE


def _in_order(wave: GatewayWave, gateways: Sequence[ObservedGateway]) -> list[ObservedGateway]:
    """Return Gateways in the order of the wave, which names namespaces, and Gateways by namespace and name."""
    return sorted(gateways, key=lambda view: (rank_in(wave.order, view.name), view.name))

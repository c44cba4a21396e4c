"""How an upgrade pins the Gateways whose owner a tag would change, and later lets them go, a few at a time. It does no I/O.

istiod decides by the label of a tag which Gateways are its own, so that the write of a tag moves all of them at once. Before an upgrade or
its rollback writes the tag, each of them gets the label ``istio.io/rev`` of the revision that owns it now: a *pin*. After the last
workloads, the Gateways are *released* in turn: each gets the label back that it had, follows the tag, and changes its owner alone.

A pin and a release are each decided by storing them in ``State.gateways``. Every runner performs them until the label is observed; the API
server accepts a change only for the version of the Gateway that was observed. Gateways are listed anew for each step that needs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from injector.upgrade.state import PinnedGateway

if TYPE_CHECKING:
    from injector.upgrade.document import GatewayWave

SETTLE: Final = 5.0
"""Seconds after a change of a label before which a Gateway does not count as in service: istiod has not acted on it yet."""
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
        elif waits and not entry.ready:
            if now - entry.since >= SETTLE and not (entry.in_service and view.fault):
                following[name] = replace(entry, ready=now)
            else:
                pending[name] = view.fault or f"it was pinned to {entry.pin}"
    faults = [
        f"Gateway {name}: {what} after {int(timeout)} s"
        for name, what in pending.items()
        if waits and now - pins[name].since > timeout
    ]
    overdue = [
        view
        for view in _in_order(wave, gateways)
        if view.owners_after != view.owners and len(view.owners) == 1 and view.name not in pending
    ]
    room = max(wave.limit - len(pending), 0) if waits else len(overdue)
    for view in overdue[:room]:
        following[view.name] = PinnedGateway(view.label, view.owners[0], now, in_service=not view.fault)
    changes = tuple(
        LabelChange(name, views[name].version, following[name].pin)
        for name in (*pending, *(view.name for view in overdue[:room]))
        if views[name].label != following[name].pin
    )
    reason = next((f"waiting for Gateway {name}: {what}" for name, what in pending.items()), "")
    return GatewayDecision(following, changes, reason, tuple(faults), is_done=not pending and not overdue)


def release(
    wave: GatewayWave,
    pins: Mapping[str, PinnedGateway],
    gateways: Sequence[ObservedGateway],
    *,
    now: float,
    timeout: float,
    hold: str,
) -> GatewayDecision:
    """Give the pinned Gateways their labels back, as many at a time as the wave allows, unless there is a reason to ``hold``."""
    views = {view.name: view for view in gateways}
    following: dict[str, PinnedGateway] = {}
    faults, reason = [], ""
    for name, entry in pins.items():
        view = views.get(name)
        if view is None or _is_released(view, entry, now, wave):
            continue
        if entry.moving and (view.fault or view.label != entry.label):
            entry = replace(entry, ready=0.0)  # noqa: PLW2901
            what = view.fault if view.label == entry.label else "its label is not written"
            reason = f"waiting for Gateway {name}: {what}"
            if now - entry.since > timeout:
                faults.append(f"Gateway {name}: {what} after {int(timeout)} s")
        elif entry.moving and not entry.ready:
            entry = replace(entry, ready=now)  # noqa: PLW2901
        following[name] = entry
    if faults:
        return GatewayDecision(following, faults=tuple(faults))
    moving = sum(entry.moving for entry in following.values())
    waiting = [view for view in _in_order(wave, gateways) if view.name in following and not following[view.name].moving]
    room = 0 if hold else max(wave.limit - moving, 0)
    for view in waiting[:room]:
        entry = following[view.name]
        following[view.name] = replace(entry, since=now, moving=True, ready=0.0, in_service=not view.fault)
    changes = tuple(
        LabelChange(name, views[name].version, entry.label)
        for name, entry in following.items()
        if entry.moving and views[name].label == entry.pin and entry.pin != entry.label
    )
    reason = hold if hold and waiting and not moving else reason
    return GatewayDecision(following, changes, reason or ("soaking" if moving else ""), is_done=not following)


def _is_released(view: ObservedGateway, entry: PinnedGateway, now: float, wave: GatewayWave) -> bool:
    """Tell whether nothing is left to do for a Gateway: it has its label again and is in service, or a user has changed its label."""
    if view.label != entry.label:
        return view.label != entry.pin
    if not entry.moving:
        return now - entry.since > LATE  # the pin was never written, or a user has removed it
    if entry.in_service or not view.fault:
        return bool(entry.ready) and now - entry.ready >= max(wave.soak, SETTLE)
    return now - entry.since >= max(wave.soak, SETTLE)


def _in_order(wave: GatewayWave, gateways: Sequence[ObservedGateway]) -> list[ObservedGateway]:
    """Return Gateways in the order of the wave, which names namespaces, and Gateways by namespace and name."""

    def rank(view: ObservedGateway) -> tuple[int, str]:
        names = (view.name, view.name.partition("/")[0])
        return next((index for index, name in enumerate(wave.order) if name in names), len(wave.order)), view.name

    return sorted(gateways, key=rank)

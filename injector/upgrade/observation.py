"""The cluster as one step of an upgrade sees it: the workloads, the tag, the results of gates, and the work that is left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from injector.revisions.tags import Tag
    from injector.upgrade.gatewaywave import ObservedGateway
    from injector.upgrade.plan import Key
    from injector.upgrade.state import Remaining

FAILED: Final = "fail"
PASSED: Final = "pass"
NO_DATA: Final = "no data"


@dataclass(frozen=True, slots=True)
class ObservedWorkload:
    """A workload of the plan, as it was observed.

    Attributes:
        action: what the plan says of it, one of ``plan.ACTIONS``.
        wave: the index of its wave.
        complete: whether its rollout has ended: all its pods have the newest template, and are available.
        budgets: the PodDisruptionBudgets of its pods.
        desired: the pods that it should have.
        disrupts: the pods that a restart takes away at once.
        mark: the mark of its last restart by an upgrade; empty for none.
        new: its running pods with a sidecar of the new revision.
        old: its running pods with a sidecar of another revision.
        unavailable: the pods that it should have, and that are not available.
        fault: why its new pods do not work; empty if they do.
        starting: why a new pod does not start yet, although it may still do so by itself.
        rollout_fault: why its controller gave up the last rollout; empty if it did not.
        trouble: why its pods are not available, for people; empty if it is not known.
        broken: its pods that are not ready, if it is a StatefulSet whose controller waits for each pod.
        stuck: those of them that have another template than the newest one, so that their controller does not replace them.
        quiet: the seconds since this runner saw a change of the workload or its pods.
        incomplete: the seconds since this runner saw all its pods available.
    """

    key: Key
    action: str = ""
    wave: int = 0
    desired: int = 0
    disrupts: int = 0
    mark: str = ""
    complete: bool = True
    new: int = 0
    old: int = 0
    unavailable: int = 0
    fault: str = ""
    starting: str = ""
    rollout_fault: str = ""
    trouble: str = ""
    budgets: frozenset[str] = frozenset()
    broken: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()
    quiet: float = 0.0
    incomplete: float = 0.0

    @property
    def name(self) -> str:
        """Its name as the state stores it."""
        return str(self.key)

    @property
    def further(self) -> int:
        """The pods that a restart takes away besides those that are not available already."""
        return max(self.disrupts - self.unavailable, 0)


@dataclass(frozen=True, slots=True)
class GateResult:
    """The result of a gate: ``pass``, ``fail`` or ``no data``, with the value or the reason."""

    name: str
    result: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """The cluster at one moment.

    Attributes:
        workloads: the workloads of all waves, and those that are being restarted.
        blind: why the workloads cannot be observed; empty if they can.
        tag: the tag of the upgrade; None if it has none, or if it cannot be read.
        tag_fault: why the tag cannot be read, with the remedy; empty if it can.
        tag_writer: the field managers that changed the tag, besides the injector's own.
        tag_before: the tag before the upgrade.
        rival: another upgrade that excludes this one, and began earlier; empty for none.
        exhausted: the PodDisruptionBudgets that allow no disruption.
        hold: why no workload may be restarted now, such as a control plane without endpoints; empty if they may.
        refused: the reasons of restarts with the present mark that the API server refused, by workload.
        preflight: the faults that the preflight found; None if it was not made.
        gates: the results of the gates; None if they were not evaluated.
        remaining: the work that a survey for the end finds; None if it was not made.
        gateways: the Gateways that Istio serves, if the step needs them, see ``wants_gateways``.
    """

    now: float
    workloads: Sequence[ObservedWorkload]
    blind: str = ""
    tag: Tag | None = None
    tag_fault: str = ""
    tag_writer: str = ""
    tag_before: Tag | None = None
    rival: str = ""
    exhausted: frozenset[str] = frozenset()
    hold: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    preflight: tuple[str, ...] | None = None
    gates: tuple[GateResult, ...] | None = None
    remaining: tuple[Remaining, ...] | None = None
    gateways: Sequence[ObservedGateway] = ()

"""How Gateways are pinned before the tag moves, and released one at a time."""

from __future__ import annotations

from dataclasses import replace

from injector.upgrade.document import GatewayWave
from injector.upgrade.gatewaywave import GatewayDecision, LabelChange, ObservedGateway, pin, release
from injector.upgrade.state import PinnedGateway

OLD, NEW = "1-28", "1-30"
A = ObservedGateway("edge/a", None, "7", (OLD,), (NEW,))
B = ObservedGateway("shop/b", "prod", "9", (OLD,), (NEW,))
STAYS = ObservedGateway("edge/c", OLD, "3", (OLD,), (OLD,))
WAVE = GatewayWave()
PINNED = {
    "edge/a": PinnedGateway(None, OLD, 100.0, ready=105.0),
    "shop/b": PinnedGateway("prod", OLD, 110.0, ready=116.0),
}
A_PINNED, B_PINNED = replace(A, label=OLD, owners_after=(OLD,)), replace(B, label=OLD, owners_after=(OLD,))


def pinned(
    pins: dict[str, PinnedGateway], *gateways: ObservedGateway, now: float, waits: bool = True
) -> GatewayDecision:
    return pin(WAVE, pins, gateways, now=now, timeout=600.0, waits=waits)


def released(
    pins: dict[str, PinnedGateway], *gateways: ObservedGateway, now: float, wave: GatewayWave = WAVE, hold: str = ""
) -> GatewayDecision:
    return release(wave, pins, gateways, now=now, timeout=600.0, hold=hold)


def test_gateways_whose_owner_would_change_are_pinned_one_after_the_other() -> None:
    first = pinned({}, A, B, STAYS, now=100.0)
    assert first.changes == (LabelChange("edge/a", "7", OLD),)
    assert first.gateways == {"edge/a": PinnedGateway(None, OLD, 100.0)}

    again = pinned(dict(first.gateways), A, B, STAYS, now=102.0)
    assert (again.changes, again.reason) == (first.changes, "waiting for Gateway edge/a: it is not pinned to 1-28")
    rolling = replace(A_PINNED, fault="pods of its Deployment that are not available: 1 of 2")
    waiting = pinned(dict(first.gateways), rolling, B, STAYS, now=107.0)
    assert (waiting.changes, waiting.is_done) == ((), False)
    assert waiting.reason == "waiting for Gateway edge/a: pods of its Deployment that are not available: 1 of 2"

    second = pinned(dict(first.gateways), A_PINNED, B, STAYS, now=109.0)
    assert second.changes == (LabelChange("shop/b", "9", OLD),)
    done = pinned(dict(second.gateways), A_PINNED, B_PINNED, STAYS, now=120.0)
    assert (done.changes, done.is_done, sorted(done.gateways)) == ((), True, ["edge/a", "shop/b"])


def test_a_pin_that_breaks_a_gateway_is_a_fault() -> None:
    broken = replace(A_PINNED, fault="it is not Programmed: no address")
    entry = PinnedGateway(None, OLD, 100.0)

    late = pinned({"edge/a": entry}, broken, now=701.0)
    assert late.faults == ("Gateway edge/a: it is not Programmed: no address after 600 s",)
    assert pinned({"edge/a": replace(entry, in_service=False)}, broken, now=106.0).is_done


def test_a_rollback_pins_all_at_once_to_the_revision_that_owns_them_now() -> None:
    forward, back = replace(A, owners=(NEW,), owners_after=(OLD,)), replace(B, owners=(NEW,), owners_after=(OLD,))
    moving = {"edge/a": PinnedGateway(None, OLD, 100.0, moving=True)}

    decision = pinned(moving, forward, back, now=140.0, waits=False)
    assert decision.changes == (LabelChange("edge/a", "7", NEW), LabelChange("shop/b", "9", NEW))
    assert decision.gateways["edge/a"] == PinnedGateway(None, NEW, 140.0)
    assert not decision.is_done


def test_a_rollback_waits_for_the_release_of_a_late_runner() -> None:
    moving = {"edge/a": PinnedGateway(None, OLD, 100.0, moving=True)}

    waiting = pinned(moving, A_PINNED, now=130.0, waits=False)
    assert (waiting.is_done, waiting.reason) == (False, "waiting for Gateway edge/a: its label is not written")
    assert pinned(moving, A_PINNED, now=131.0, waits=False).is_done


def test_gateways_with_several_owners_or_none_are_not_pinned() -> None:
    both, nobody = replace(A, owners=(OLD, NEW)), replace(B, owners=())

    assert pinned({}, both, nobody, now=1.0).is_done


def test_gateways_are_released_one_at_a_time_in_the_order_of_the_wave() -> None:
    wave = GatewayWave(order=("shop",), soak=10.0)
    first = released(PINNED, A_PINNED, B_PINNED, now=200.0, wave=wave)
    assert first.changes == (LabelChange("shop/b", "9", "prod"),)
    assert first.gateways["shop/b"].moving

    owned = replace(B, owners=(NEW,), fault="it is not Programmed: x")
    waiting = released(dict(first.gateways), A_PINNED, owned, now=202.0, wave=wave)
    assert (waiting.changes, waiting.reason) == ((), "waiting for Gateway shop/b: it is not Programmed: x")
    ready = released(dict(waiting.gateways), A_PINNED, replace(owned, fault=""), now=204.0, wave=wave)
    assert (ready.changes, ready.reason) == ((), "soaking")

    second = released(dict(ready.gateways), A_PINNED, replace(owned, fault=""), now=214.0, wave=wave)
    assert second.changes == (LabelChange("edge/a", "7", None),)
    assert list(second.gateways) == ["edge/a"]


def test_a_gateway_that_is_not_in_service_again_is_a_fault() -> None:
    moving = {"edge/a": PinnedGateway(None, OLD, 100.0, moving=True)}
    broken = replace(A, owners=(NEW,), fault="it is not Programmed: x")

    assert released(moving, broken, now=701.0).faults == ("Gateway edge/a: it is not Programmed: x after 600 s",)
    assert released({"edge/a": replace(moving["edge/a"], in_service=False)}, broken, now=140.0).is_done


def test_nothing_is_released_while_there_is_a_reason_to_hold() -> None:
    held = released(PINNED, A_PINNED, B_PINNED, now=200.0, hold="waiting for a window")

    assert (held.changes, held.reason, held.gateways) == ((), "waiting for a window", PINNED)


def test_gateways_that_are_gone_or_relabelled_are_left_alone() -> None:
    assert released(PINNED, replace(A_PINNED, label="other"), now=200.0).is_done
    assert released(PINNED, A, now=200.0).is_done


def test_a_limit_allows_several_at_a_time() -> None:
    both = released(PINNED, A_PINNED, B_PINNED, now=200.0, wave=GatewayWave(limit=2))

    assert len(both.changes) == 2

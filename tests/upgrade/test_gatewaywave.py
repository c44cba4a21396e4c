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
    pins: dict[str, PinnedGateway],
    *gateways: ObservedGateway,
    now: float,
    wave: GatewayWave = WAVE,
    hold: str = "",
    is_back: bool = False,
) -> GatewayDecision:
    return release(wave, pins, gateways, now=now, timeout=600.0, hold=hold, is_back=is_back)


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

    ready = pinned(dict(waiting.gateways), A_PINNED, B, STAYS, now=109.0)
    assert (ready.changes, ready.is_done) == ((), False)
    second = pinned(dict(ready.gateways), A_PINNED, B, STAYS, now=119.0)
    assert second.changes == (LabelChange("shop/b", "9", OLD),)
    written = pinned(dict(second.gateways), A_PINNED, B_PINNED, STAYS, now=121.0)
    done = pinned(dict(written.gateways), A_PINNED, B_PINNED, STAYS, now=131.0)
    assert (done.changes, done.is_done, sorted(done.gateways)) == ((), True, ["edge/a", "shop/b"])


def test_a_pin_that_is_written_late_counts_from_its_observation() -> None:
    decided = pinned({}, A, B, now=100.0)

    written = pinned(dict(decided.gateways), A_PINNED, B, now=160.0)
    assert (written.changes, written.gateways["edge/a"].ready) == ((), 160.0)
    broken = pinned(dict(written.gateways), replace(A_PINNED, fault="it is not Programmed: x"), B, now=172.0)
    assert (broken.changes, broken.gateways["edge/a"].ready) == ((), 0.0)


def test_a_pin_that_breaks_a_gateway_is_a_fault() -> None:
    broken = replace(A_PINNED, fault="it is not Programmed: no address")
    entry = PinnedGateway(None, OLD, 100.0)

    late = pinned({"edge/a": entry}, broken, now=701.0)
    assert late.faults == ("Gateway edge/a: it is not Programmed: no address after 600 s",)
    was_broken = replace(entry, in_service=False, ready=101.0)
    assert pinned({"edge/a": was_broken}, broken, now=111.0).is_done
    assert pinned({"edge/a": replace(entry, ready=101.0)}, broken, now=140.0).is_done  # another cause broke it later


def test_a_pin_that_is_in_service_shortly_before_its_timeout_is_no_fault() -> None:
    decided = {"edge/a": PinnedGateway(None, OLD, 100.0)}

    ready = pinned(decided, A_PINNED, now=696.0)
    assert (ready.faults, ready.is_done) == ((), False)
    settling = pinned(dict(ready.gateways), A_PINNED, now=702.0)
    assert (settling.faults, settling.reason) == ((), "waiting for Gateway edge/a: it was pinned to 1-28")
    assert pinned(dict(settling.gateways), A_PINNED, now=706.0).is_done
    broken = replace(A_PINNED, fault="it is not Programmed: x")
    assert pinned(dict(settling.gateways), broken, now=704.0).faults


def test_a_pin_whose_label_a_user_removes_later_has_the_whole_timeout_again() -> None:
    unlabelled = replace(A, owners_after=(NEW,))

    again = pinned(PINNED, unlabelled, B_PINNED, now=800.0)
    assert (again.faults, again.changes) == ((), (LabelChange("edge/a", "7", OLD),))
    waiting = pinned(dict(again.gateways), unlabelled, B_PINNED, now=1400.0)
    assert (waiting.faults, waiting.changes) == ((), again.changes)
    late = pinned(dict(waiting.gateways), unlabelled, B_PINNED, now=1401.0)
    assert late.faults == ("Gateway edge/a: it is not pinned to 1-28 after 600 s",)


def test_a_label_that_another_writer_removes_again_and_again_is_a_fault() -> None:
    pins = {"edge/a": PinnedGateway(None, OLD, 100.0)}
    for now in range(110, 700, 20):
        view = A if now % 40 else A_PINNED
        decision = pinned(pins, view, now=float(now))
        assert not decision.faults
        pins = dict(decision.gateways)

    assert pinned(pins, A, now=710.0).faults == ("Gateway edge/a: it is not pinned to 1-28 after 600 s",)


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
    was_broken = replace(moving["edge/a"], in_service=False, ready=101.0)
    assert released({"edge/a": was_broken}, broken, now=131.0).is_done


def test_a_gateway_that_breaks_at_the_end_of_its_soak_holds_up_the_next_one() -> None:
    pins = {**PINNED, "edge/a": PinnedGateway(None, OLD, 100.0, moving=True, ready=105.0)}
    broken = replace(A, owners=(NEW,), fault="it is not Programmed: x")

    decision = released(pins, broken, B_PINNED, now=140.0)
    assert (decision.changes, decision.gateways["edge/a"].ready) == ((), 0.0)


def test_a_gateway_that_is_pinned_again_during_its_move_still_has_to_be_in_service() -> None:
    """Another writer moves the tag back while the Gateway is released, and a user resumes the upgrade."""
    pins = {"edge/a": PinnedGateway(None, OLD, 100.0, moving=True), "shop/b": PINNED["shop/b"]}
    broken = replace(A, fault="it is not Programmed: x")

    again = pinned(pins, broken, B_PINNED, now=140.0)
    assert again.changes == (LabelChange("edge/a", "7", OLD),)
    broken_pin = replace(A_PINNED, version="8", fault=broken.fault)
    waiting = pinned(dict(again.gateways), broken_pin, B_PINNED, now=160.0)
    assert (waiting.is_done, waiting.reason) == (False, "waiting for Gateway edge/a: it is not Programmed: x")

    back = pinned(pins, broken, replace(B_PINNED, owners_after=(OLD,)), now=140.0, waits=False)
    first = released(dict(back.gateways), broken_pin, B_PINNED, now=180.0, is_back=True)
    assert first.changes == (LabelChange("edge/a", "8", None),)
    released_again = replace(broken, version="9")
    second = released(dict(first.gateways), released_again, B_PINNED, now=300.0, is_back=True)
    assert (second.changes, second.reason) == ((), "waiting for Gateway edge/a: it is not Programmed: x")


def test_a_rollback_begins_with_a_broken_gateway_which_holds_up_no_other_one() -> None:
    pins = {name: replace(entry, pin=NEW, ready=0.0) for name, entry in PINNED.items()}
    good, broken = replace(A, label=NEW), replace(B, label=NEW, fault="it is not Programmed: x")

    first = released(pins, good, broken, now=200.0, is_back=True)
    assert first.changes == (LabelChange("shop/b", "9", "prod"),)
    still = replace(broken, label="prod")
    late = released(dict(first.gateways), good, still, now=801.0, is_back=True)
    assert (late.changes, late.faults) == ((LabelChange("edge/a", "7", None),), ())
    over = replace(late.gateways["edge/a"], ready=802.0)
    end = released({**late.gateways, "edge/a": over}, A, still, now=832.0, is_back=True)
    assert (end.faults, list(end.gateways)) == (("Gateway shop/b: it is not Programmed: x after 600 s",), ["shop/b"])


def test_the_gateway_that_was_being_released_is_pinned_first() -> None:
    pins = {"shop/b": PinnedGateway("prod", OLD, 100.0, moving=True, ready=105.0)}
    again = pinned(pins, A, B, now=140.0)

    assert again.changes == (LabelChange("shop/b", "9", OLD),)


def test_nothing_is_released_while_there_is_a_reason_to_hold() -> None:
    held = released(PINNED, A_PINNED, B_PINNED, now=200.0, hold="waiting for a window")

    assert (held.changes, held.reason, held.gateways) == ((), "waiting for a window", PINNED)


def test_gateways_that_are_gone_or_relabelled_are_left_alone() -> None:
    assert released(PINNED, replace(A_PINNED, label="other"), now=200.0).is_done
    assert released(PINNED, A, now=200.0).is_done


def test_a_limit_allows_several_at_a_time() -> None:
    both = released(PINNED, A_PINNED, B_PINNED, now=200.0, wave=GatewayWave(limit=2))

    assert len(both.changes) == 2


def test_a_rollback_moves_no_second_gateway_beside_one_that_was_being_moved() -> None:
    """Their pins have broken all of them for a moment, and the one that was being moved comes first."""
    pins = {"shop/b": PinnedGateway("prod", OLD, 100.0, moving=True)}
    moved, other = replace(B, owners=(NEW,), fault="x"), replace(A, owners=(NEW,), owners_after=(OLD,))
    back = pinned(pins, other, replace(moved, owners_after=(OLD,)), now=140.0, waits=False)
    assert {name: entry.ready for name, entry in back.gateways.items()} == {"shop/b": 0.0, "edge/a": 140.0}

    broken, still = replace(other, label=NEW, fault="x"), replace(moved, label=NEW)
    for view in (broken, replace(broken, fault="")):
        first = released(dict(back.gateways), view, still, now=180.0, is_back=True)
        assert first.changes == (LabelChange("shop/b", "9", "prod"),)
    both = released(dict(back.gateways), broken, still, now=180.0, wave=GatewayWave(limit=2), is_back=True)
    assert {change.name for change in both.changes} == {"edge/a", "shop/b"}

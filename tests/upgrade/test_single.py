"""The commands for one workload: which one is meant, and when it is skipped or tried again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from injector.errors import DataError, TagError, UsageError
from injector.fleet.gateways import Gateway, GatewayView
from injector.upgrade.commands import apply_command
from injector.upgrade.plan import Restart, make_plan
from injector.upgrade.single import abort, change_workload, find_entry
from injector.upgrade.state import (
    ABORTED,
    GATEWAYS,
    INCOMPLETE,
    RESTARTING,
    ROLLING_BACK,
    PinnedGateway,
    PlannedRestart,
    Remaining,
    State,
    new_state,
)
from injector.upgrade.store import UPGRADES, Store
from injector.upgrade.tag import tag_data
from tests.cluster.fakeapi import FakeApi
from tests.revisions.fakes import WITH_GATEWAY, revision_of
from tests.upgrade.fleets import DOCUMENT, NEW, OLD, PROD, FakeSurveyor, fleet, upgrade, workload

OF_GATEWAYS = {name: revision_of(minor, WITH_GATEWAY, name=name) for name, minor in ((OLD, 28), (NEW, 30))}
WAVES = [{"name": "shop", "namespaces": ["shop"]}, {"name": "rest"}]
WORKLOADS = (
    workload("web"),
    workload("api"),
    workload("done", has=NEW),
    workload("crashing", has=NEW, restart=Restart("", 1, {}, "pods that are not available already: 2 of 2")),
    workload("paused", restart=Restart("its rollout is paused: resume it")),
    workload("pinned", pin=OLD, pods=Counter({OLD: 1})),
    workload("later", "pay"),
)


async def started(**fields: Any) -> Store:
    """Return an upgrade that restarts its first wave; keywords change its state."""
    api = FakeApi()
    api.put(UPGRADES, {**DOCUMENT, "spec": {**DOCUMENT["spec"], "waves": WAVES}})
    store = Store(api, "up", "runner", lambda: 100.0)
    stored = await store.load()
    begun = new_state(stored.upgrade, 100.0, tag_data(PROD), (OLD, NEW), pins=(OLD,)).at(RESTARTING, 100.0, token=100.0)
    await store.save(stored, replace(begun, **fields))
    return store


async def change(verb: str, text: str, **fields: Any) -> State:
    """Return the state after a command of an upgrade that restarts its first wave; keywords change its state."""
    store = await started(**fields)
    changed, _ = await change_workload(store, FakeSurveyor(lambda: WORKLOADS), verb, text, 200.0)
    assert changed.state is not None
    return changed.state


@pytest.mark.parametrize(
    "text", ["shop/Deployment/web", "shop/deployment/web", "shop/deploy/web", "Deployment shop/web", "deploy shop/web"]
)
def test_a_workload_is_named_as_a_path_or_as_in_the_status(text: str) -> None:
    assert find_entry(make_plan(upgrade(), PROD, fleet(WORKLOADS)), text).key == ("shop", "Deployment", "web")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "shop/Deployment/wbe",
            r"no workload 'shop/Deployment/wbe' \(did you mean shop/Deployment/web\?\); name it as",
        ),
        ("sohp/Deployment/web", r"\(did you mean shop/Deployment/web\?\)"),
        ("shop/StatefulSet/web", r"\(did you mean shop/Deployment/web\?\)"),
        ("web", "no workload 'web'"),
        ("", "no workload ''"),
    ],
)
def test_an_unknown_workload_is_refused_with_a_similar_name(text: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        find_entry(make_plan(upgrade(), PROD, fleet(WORKLOADS)), text)


async def test_a_workload_is_skipped_in_this_wave_or_a_later_one() -> None:
    assert (await change("skip", "shop/deployment/web")).skipped == ("Deployment shop/web",)
    assert (await change("skip", "Deployment pay/later")).skipped == ("Deployment pay/later",)
    assert (await change("skip", "shop/deployment/crashing")).skipped == ("Deployment shop/crashing",)
    assert (await change("skip", "shop/deployment/paused")).skipped == ("Deployment shop/paused",)


@pytest.mark.parametrize(
    ("verb", "text", "says"),
    [
        ("skip", "shop/deployment/done", "Deployment shop/done is done: its pods have the new revision"),
        ("retry", "shop/deployment/done", "Deployment shop/done is done"),
        ("skip", "shop/deployment/pinned", "is not moved by the upgrade: its pods are pinned to 1-28"),
        ("retry", "shop/deployment/pinned", "is not moved by the upgrade: its pods are pinned to 1-28"),
        ("retry", "shop/deployment/paused", "is still blocked: its rollout is paused: resume it"),
        ("retry", "pay/deployment/later", "Deployment pay/later is in wave rest, which has not begun"),
    ],
)
async def test_a_command_that_does_not_fit_the_workload_says_why(verb: str, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        await change(verb, text)


async def test_a_workload_is_tried_again_and_a_skipped_one_is_taken_back() -> None:
    for name in ("web", "crashing"):
        state = await change("retry", f"shop/deployment/{name}")
        assert dict(state.retries) == {f"Deployment shop/{name}": 200.0}
    skipped = ("Deployment pay/later", "Deployment shop/web")
    later = await change("retry", "pay/deployment/later", skipped=skipped)
    assert (later.skipped, dict(later.retries)) == (("Deployment shop/web",), {})
    now = await change("retry", "shop/deployment/web", skipped=skipped)
    assert (now.skipped, dict(now.retries)) == (("Deployment pay/later",), {"Deployment shop/web": 200.0})


async def test_in_a_rollback_workloads_with_the_new_revision_are_skipped_or_tried_again() -> None:
    assert (await change("skip", "shop/deployment/done", back=True)).skipped == ("Deployment shop/done",)
    assert dict((await change("retry", "shop/deployment/done", back=True)).retries) == {"Deployment shop/done": 200.0}
    with pytest.raises(UsageError, match="is done: no pod has revision 1-30"):
        await change("retry", "shop/deployment/web", back=True)


async def test_after_an_incomplete_end_a_workload_can_be_tried_again_but_not_skipped() -> None:
    assert (await change("retry", "shop/deployment/web", phase=INCOMPLETE, wave=1)).phase == "Running"
    with pytest.raises(UsageError, match="the upgrade up has ended: it is Incomplete"):
        await change("skip", "shop/deployment/web", phase=INCOMPLETE, wave=1)


async def test_a_skipped_gateway_whose_wave_never_began_is_tried_again_after_the_end() -> None:
    known: dict[str, Any] = {"source": OF_GATEWAYS[OLD], "target": OF_GATEWAYS[NEW]}
    surveyor = FakeSurveyor(lambda: [*WORKLOADS, workload("public", "edge", templates="gateway")], **known)
    remaining = (Remaining("Deployment edge/public", "skipped", "retry"),)
    skipped = ("Deployment edge/public",)
    store = await started(
        phase=INCOMPLETE, step="Checking", wave=1, skipped=skipped, approved=True, remaining=remaining
    )

    changed, _ = await change_workload(store, surveyor, "retry", "edge/deployment/public", 200.0)
    assert changed.state is not None
    assert (changed.state.phase, changed.state.step, changed.state.wave) == ("Running", "Preflight", 2)
    assert (changed.state.approved, changed.state.skipped, changed.state.remaining) == (False, (), ())


async def test_an_upgrade_that_was_not_started_has_no_workload_to_skip() -> None:
    api = FakeApi()
    api.put(UPGRADES, DOCUMENT)
    store = Store(api, "up")
    with pytest.raises(UsageError, match="the upgrade up was not started"):
        await change_workload(store, FakeSurveyor(lambda: WORKLOADS), "skip", "shop/deployment/web", 1.0)


PINS = {"edge/a": PinnedGateway(None, OLD, 90.0, ready=95.0), "shop/b": PinnedGateway("prod", OLD, 90.0, moving=True)}
LABEL = "kubectl label gateways.gateway.networking.k8s.io"
A_LEFT = (
    "Gateway edge/a",
    "it is pinned to revision 1-28",
    f"`{LABEL} a -n edge istio.io/rev-` lets it follow its tag",
)
B_LEFT = (
    "Gateway shop/b",
    "it is pinned to revision 1-28",
    f"`{LABEL} b -n shop istio.io/rev=prod --overwrite` lets it follow its tag",
)
AFTER_RESTART = (
    "if it has a rollout, wait for it; if pods with revision 1-28 remain, `injector upgrade run up --again` restarts it"
)
B_UNKNOWN = (B_LEFT[0], "it was being released, and may still be pinned to revision 1-28", B_LEFT[2])


def listed(state: State) -> list[tuple[str, str, str]]:
    return [(item.workload, item.reason, item.remedy) for item in state.remaining]


async def abort_with(surveyor: FakeSurveyor, **fields: Any) -> tuple[State, str]:
    stored, fault = await abort(await started(**fields), surveyor, 200.0)
    assert stored.state is not None
    return stored.state, fault


async def test_an_aborted_upgrade_names_what_is_left_with_commands_that_it_accepts() -> None:
    stuck, gone = workload("db", unready=("db-1",)), workload("gone", requested=OLD)
    api = workload("api", pods=Counter({OLD: 1}), restart=Restart("", 1, {}, "pods not available: 1 of 2"))
    refused = workload("refused", restart=Restart("its rollout is paused: resume it"))
    workloads = workload("web"), api, workload("done", has=NEW), gone, stuck, refused
    restarting = {f"Deployment shop/{name}": PlannedRestart(100.0, 100.0) for name in ("api", "db", "refused")}
    fields = {"restarting": restarting, "namespaces": ("shop",)}
    state, fault = await abort_with(FakeSurveyor(lambda: workloads), **fields)

    assert (state.phase, fault) == (ABORTED, "")
    assert state.reason.endswith("; left: Deployment shop/api, Deployment shop/db, Deployment shop/gone and 2 more")
    delete = "if it does not become ready, repair the cause and run `kubectl delete pod"
    label = "`kubectl label namespace shop istio-injection- istio.io/rev=prod --overwrite`"
    why = "pods with revision 1-28: 2: its namespace leads to 1-28 instead of prod"
    assert listed(state) == [
        (
            "Deployment shop/api",
            "pods with revision 1-28: 1: its restart was decided, and was not complete; pods not available: 1 of 2",
            AFTER_RESTART,
        ),
        (
            "Deployment shop/db",
            "pods with revision 1-28: 2: its rollout waits for db-1 to be ready",
            f"{delete} db-1 -n shop`; then `injector upgrade run up --again` restarts it",
        ),
        ("Deployment shop/gone", why, f"{label}, and then `injector upgrade run up --again`"),
        ("Deployment shop/refused", "pods with revision 1-28: 2: its rollout is paused", "resume it"),
        ("Deployment shop/web", "pods with revision 1-28: 2: it was not restarted", "`injector upgrade run up --again` restarts it"),
    ]  # fmt: skip


async def test_a_restart_that_an_aborted_rollback_leaves_names_the_command() -> None:
    restarting = {"Deployment shop/done": PlannedRestart(100.0, 100.0)}
    state, _ = await abort_with(FakeSurveyor(lambda: WORKLOADS[:3]), back=True, restarting=restarting)

    remedy = "if it has a rollout, wait for it; if pods with revision 1-30 remain, `injector upgrade rollback up` restarts it"
    reason = "pods with revision 1-30: 2: its restart was decided, and was not complete"
    assert listed(state) == [("Deployment shop/done", reason, remedy)]


async def test_an_aborted_rollback_names_what_is_left_and_can_go_back_again() -> None:
    state, _ = await abort_with(FakeSurveyor(lambda: WORKLOADS[:3]), back=True)

    reason = "pods with revision 1-30: 2: it was not restarted"
    assert listed(state) == [("Deployment shop/done", reason, "`injector upgrade rollback up` restarts it")]
    assert apply_command(state, "rollback", upgrade(), 300.0).phase == ROLLING_BACK


@pytest.mark.parametrize(
    ("labels", "remaining"),
    [
        ({"edge/a": OLD, "shop/b": OLD}, [A_LEFT, B_LEFT]),
        ({"edge/a": OLD, "shop/b": "prod"}, [A_LEFT]),
        ({"shop/b": "other"}, []),
        (None, [A_LEFT, B_UNKNOWN]),
    ],
)
async def test_an_aborted_upgrade_names_the_gateways_that_are_pinned(
    labels: dict[str, str] | None, remaining: list[tuple[str, str, str]]
) -> None:
    split = [(*name.split("/", 1), label) for name, label in (labels or {}).items()]
    gateways = [Gateway(place, name, "istio", {"istio.io/rev": label}) for place, name, label in split]
    view = GatewayView(tuple(gateways), unknown="" if labels is not None else "no list")
    state, _ = await abort_with(FakeSurveyor(list, gateways=view), gateways=PINS, step=GATEWAYS)

    assert listed(state) == remaining


async def test_an_upgrade_is_aborted_although_the_cluster_cannot_be_read() -> None:
    def fail() -> list[Any]:
        raise TagError("the tag is gone")

    restarting = {"Deployment shop/api": PlannedRestart(100.0, 100.0)}
    state, fault = await abort_with(FakeSurveyor(fail), gateways=PINS, restarting=restarting)

    api = ("Deployment shop/api", "its restart was decided, and was not complete", AFTER_RESTART)
    assert (state.phase, fault, listed(state)) == (ABORTED, "the tag is gone", [A_LEFT, B_UNKNOWN, api])


def test_what_is_left_of_an_accepted_upgrade_has_no_command_that_it_refuses() -> None:
    resume = "`injector upgrade resume up` releases it"
    remaining = Remaining("Deployment shop/web", "why", "resume it"), Remaining("Deployment shop/api", "why", resume)
    state = State(phase=INCOMPLETE, gateways={"edge/a": PINS["edge/a"]})
    state = state.with_remaining((*remaining, Remaining("Gateway edge/a", "it is pinned to revision 1-28", resume)))

    assert listed(apply_command(state, "accept", upgrade(), 1.0)) == [
        ("Deployment shop/web", "why", "resume it"),
        ("Deployment shop/api", "why", "accepted by a user"),
        A_LEFT,
    ]

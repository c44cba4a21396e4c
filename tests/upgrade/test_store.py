"""Where an upgrade is stored: its resource, with the state in the status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from injector.cluster.resources import Resource
from injector.errors import ClusterError, ConfigError, DataError, UsageError
from injector.revisions.tags import Tag
from injector.upgrade.state import (
    ABORTED,
    COMPLETED,
    INCOMPLETE,
    PAUSED,
    RESTARTING,
    ROLLING_BACK,
    RUNNING,
    State,
    new_state,
)
from injector.upgrade.store import UPGRADES, Store, Stored, list_upgrades, read_stored
from injector.upgrade.tag import tag_before, tag_data
from tests.cluster.fakeapi import FakeApi, refusal
from tests.upgrade.fleets import DOCUMENT, NEW, OLD, PROD, upgrade


def document(name: str = "up", **spec: Any) -> dict[str, Any]:
    return {**DOCUMENT, "metadata": {"name": name}, "spec": {**DOCUMENT["spec"], **spec}}


def new_store(*documents: dict[str, Any]) -> Store:
    api = FakeApi()
    api.put(UPGRADES, *(documents or (document(),)))
    return Store(api, "up", "runner", lambda: 100.0)


async def started(store: Store, now: float = 100.0, before: Tag | None = PROD, **fields: Any) -> Stored:
    stored = await store.load()
    state = replace(new_state(stored.upgrade, now, tag_data(before), (OLD, NEW)), **fields)
    return await store.save(stored, state)


def state_of(stored: Stored) -> State:
    assert stored.state is not None
    return stored.state


async def test_an_unknown_upgrade_says_how_to_see_and_start_one() -> None:
    with pytest.raises(UsageError, match="no upgrade is called other; `injector upgrade list` shows"):
        await Store(new_store().client, "other").load()


async def test_a_cluster_without_the_resource_says_the_command_that_installs_it() -> None:
    store = Store(FakeApi(), "up")
    for request in (store.load(), store.adopt(DOCUMENT)):
        with pytest.raises(ConfigError, match=r"run `injector upgrade crd \| kubectl apply -f -`"):
            await request


async def test_an_older_definition_of_the_resource_says_the_command_that_updates_it() -> None:
    store, api = new_store(), FakeApi()
    assert isinstance(store.client, FakeApi)
    what = 'the API server refuses it (HTTP 400): strict decoding error: unknown field "status.pins", unknown field "status.x"'
    store.client.fault_of["replace"] = ClusterError(what, reason="refused", status=400)
    api.fault_of["create"] = ClusterError(what.replace("status", "spec"), reason="refused", status=400)
    api.put(UPGRADES, document("other"))

    said = r'is older than this injector: unknown field "{0}.pins", unknown field "{0}.x"; run `injector upgrade crd \| kubectl'
    with pytest.raises(ConfigError, match=said.format("status")):
        await started(store)
    with pytest.raises(ConfigError, match=said.format("spec")):
        await Store(api, "up").adopt(document())
    store.client.fault_of["replace"] = ClusterError('unknown field "metadata.x"', reason="refused", status=400)
    with pytest.raises(ClusterError, match=r"metadata\.x"):
        await store.adopt(document(soak="1s"))


class OldDefinition(FakeApi):
    """A cluster whose definition of the resource lacks some fields of the status."""

    lacks: tuple[str, ...] = ()

    async def replace(
        self, resource: Resource, manifest: Mapping[str, Any], *, manager: str, subresource: str = ""
    ) -> dict[str, Any]:
        unknown = [f'unknown field "status.{name}"' for name in self.lacks if name in manifest.get("status", {})]
        if unknown:
            raise ClusterError(f"strict decoding error: {', '.join(unknown)}", reason="refused", status=400)
        return await super().replace(resource, manifest, manager=manager, subresource=subresource)


@pytest.mark.parametrize("verb", ["pause", "abort", "rollback"])
async def test_an_upgrade_can_be_stopped_and_go_back_with_an_older_definition(verb: str) -> None:
    api = OldDefinition()
    api.put(UPGRADES, document())
    store = Store(api, "up", "runner", lambda: 100.0)
    await started(store, step=RESTARTING)
    api.lacks = ("rollbackReason", "approved", "retries", "injectedGateways", "runner")
    begun = await store.load()
    with pytest.raises(ConfigError, match=r'unknown field "status\.approved"'):
        await store.save(begun, state_of(begun))
    with pytest.raises(ConfigError, match=r'unknown field "status\.approved"'):
        await store.command("resume", 200.0)

    stored = await store.command(verb, 200.0)
    assert (await store.load()).state == replace(state_of(stored), rollback_reason="")
    assert not {*api.lacks} & {*api.objects["upgrades", "", "up"]["status"]}
    if verb == "rollback":
        await store.save(await store.load(), replace(state_of(stored), injected_gateways=True))
    with pytest.raises(ConfigError, match=r'unknown field "status\.retries"'):
        await store.save(await store.load(), replace(state_of(stored), retries={"Deployment shop/web": 7.0}))


async def test_a_file_is_adopted_although_a_runner_or_another_command_writes_meanwhile() -> None:
    class Busy(FakeApi):
        remaining = 2

        async def replace(
            self, resource: Resource, manifest: Mapping[str, Any], *, manager: str, subresource: str = ""
        ) -> dict[str, Any]:
            if self.remaining and not subresource:
                self.remaining -= 1
                await store.save(await store.load(), state_of(await store.load()))
            return await super().replace(resource, manifest, manager=manager, subresource=subresource)

        async def create(
            self, resource: Resource, manifest: Mapping[str, Any], *, manager: str, dry_run: bool = False
        ) -> dict[str, Any]:
            await super().create(resource, manifest, manager=manager, dry_run=dry_run)
            raise refusal("conflict", 409)

    api = Busy()
    api.put(UPGRADES, document("other"))
    store = Store(api, "up", "runner", lambda: 100.0)
    assert (await store.adopt(document())).is_new, "another command has created it"
    await started(store)
    assert (await store.adopt(document(limits={"workloads": 9}))).upgrade.limits.workloads == 9
    assert api.remaining == 0


async def test_a_run_that_is_asked_for_is_a_later_one_than_any() -> None:
    store = new_store()
    await started(store, phase=COMPLETED, run=3)

    assert (await store.again()).upgrade.run == 4
    assert (await store.again(document(run=7))).upgrade.run == 7


async def test_a_started_upgrade_is_read_with_its_document_and_the_tag_before() -> None:
    store = new_store()
    assert (await store.load()).is_new
    weighted = Tag("prod", ((OLD, 90), (NEW, 10)), salt="x", namespaces={"pay": ((OLD, 1),)})
    begun = await started(store, before=weighted)

    loaded = await store.load()
    assert (loaded.upgrade, loaded.state, loaded.is_new, loaded.is_due) == (upgrade(), begun.state, False, True)
    assert tag_before(loaded.upgrade, state_of(loaded)) == weighted
    assert tag_before(upgrade(tag=None), State()) is None
    assert (state_of(loaded).started, state_of(loaded).deadline) == (100.0, 100.0 + 86400)
    assert loaded.item["status"]["progress"] == "wave all, Preflight"


async def test_only_the_version_that_was_read_is_changed() -> None:
    store = new_store()
    first = await started(store)
    second = await store.load()

    saved = await store.save(second, replace(state_of(second), phase=PAUSED))
    assert state_of(await store.load()).phase == PAUSED
    with pytest.raises(ClusterError) as caught:
        await store.save(first, state_of(first))
    assert caught.value.reason == "conflict"
    await store.save(saved, state_of(first))


async def test_a_file_creates_or_adopts_its_resource_and_may_change_its_limits() -> None:
    store = new_store(document("other"))
    created = await store.adopt(document(limits={"workloads": 7}))
    assert (created.upgrade.limits.workloads, created.is_new) == (7, True)

    begun = await started(store)
    again = await store.adopt(document(limits={"workloads": 9}))
    assert (again.state, (await store.load()).upgrade.limits.workloads) == (begun.state, 9)
    with pytest.raises(UsageError, match="the upgrade up is under way with another `waves`"):
        await store.adopt(document(waves=[{"weight": 10}]))


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"injectedGateways": {"last": False}}, "injectedGateways.last"),
        ({"importanceLabel": "example.com/importance"}, "importanceLabel"),
        ({"tag": "dev"}, "tag"),
    ],
)
async def test_a_field_that_decides_the_wave_of_a_workload_stays_while_it_is_under_way(
    spec: dict[str, Any], field: str
) -> None:
    store = new_store()
    await started(store)
    same: dict[str, Any] = {
        "injectedGateways": {"last": True, "soak": "1m"},
        "importanceLabel": "revision-injector.dev/importance",
    }
    assert (await store.adopt(document(**same))).is_under_way

    with pytest.raises(UsageError, match=f"the upgrade up is under way with another `{field}`"):
        await store.adopt(document(**spec))


@pytest.mark.parametrize("phase", [COMPLETED, INCOMPLETE, ABORTED])
async def test_an_upgrade_that_has_ended_is_not_started_again_unless_it_is_asked_for(phase: str) -> None:
    store = new_store()
    await started(store, phase=phase, token=900.0)

    unchanged = await store.adopt(document(waves=[{"weight": 10}]))
    assert (unchanged.is_due, unchanged.upgrade.waves) == (False, upgrade().waves)
    again = await store.again(document(waves=[{"weight": 10}]))
    assert (again.is_new, again.is_due, again.upgrade.run) == (True, True, 2)
    assert again.upgrade.waves == upgrade({"weight": 10}).waves
    state = new_state(again.upgrade, 200.0, {}, before=again.state)
    assert (state.run, state.next_token(200.0) > 900.0) == (2, True), (
        "marks of the run before are not taken for its own"
    )
    begun = await store.save(again, state)
    adopted = await store.adopt(document(waves=[{"weight": 10}]))
    assert (adopted.is_new, adopted.upgrade.run, begun.is_due) == (False, 2, True), (
        "a file without `run` undoes nothing"
    )


async def test_why_an_upgrade_cannot_start_or_go_on_is_stored_once() -> None:
    store = new_store()
    assert (await store.note("no such tag"), await store.note("no such tag")) == (True, False)
    stored = await store.load()
    assert (stored.state, stored.heartbeat.error, stored.item["status"]["reason"]) == (
        None,
        "no such tag",
        "no such tag",
    )

    begun = await started(store)
    assert begun.heartbeat.error == ""
    await store.note("why")
    stored = await store.load()
    assert (stored.state, stored.heartbeat.error, stored.heartbeat.runner) == (begun.state, "why", "runner")


async def test_a_dead_runner_is_named_with_its_error_and_the_next_command() -> None:
    store = new_store()
    await started(store)
    await store.note("the token has expired")
    stored = await store.load()

    assert stored.dead_text(150.0) == ""
    assert stored.dead_text(500.0) == (
        "no runner since 1970-01-01T00:01:40Z (runner, with the error: the token has expired): start one with "
        "`injector upgrade run up`, or see the log of `injector serve --upgrades`"
    )
    for phase in (PAUSED, COMPLETED):
        with_end = await store.save(stored, replace(state_of(stored), phase=phase))
        assert with_end.dead_text(500.0) == ""
        stored = with_end


async def test_a_state_that_cannot_be_read_says_how_to_start_again() -> None:
    api = FakeApi()
    api.put(UPGRADES, {**DOCUMENT, "status": {"phase": "Walking"}})

    with pytest.raises(DataError, match=r"Upgrade up: the state of the upgrade cannot be read: .* create it again"):
        await Store(api, "up").load()


@pytest.mark.parametrize("changes", [2, 9])
async def test_a_command_is_tried_again_if_a_runner_stores_a_state_meanwhile(
    monkeypatch: pytest.MonkeyPatch, changes: int
) -> None:
    store = new_store()
    await started(store)
    save, remaining = Store.save, [changes]

    async def late(own: Store, stored: Stored, state: State, *, error: str = "") -> Stored:
        if remaining[0]:
            remaining[0] -= 1
            other = await own.load()
            await save(own, other, replace(state_of(other), total=remaining[0]))
        return await save(own, stored, state, error=error)

    monkeypatch.setattr(Store, "save", late)
    if changes == 2:
        assert state_of(await store.command("pause", 200.0)).phase == state_of(await store.load()).phase == PAUSED
    else:
        with pytest.raises(ClusterError, match="conflict"):
            await store.command("pause", 200.0)


async def test_a_command_before_the_start_is_refused() -> None:
    with pytest.raises(UsageError, match="the upgrade up was not started"):
        await new_store().command("pause", 100.0)


async def test_a_tag_before_whose_revision_was_removed_by_hand_is_refused() -> None:
    with pytest.raises(DataError, match="cannot name a revision"):
        tag_before(upgrade(), State(tag_before={"annotations": {}}))


async def test_a_second_upgrade_of_a_tag_has_the_first_as_its_rival() -> None:
    store = new_store(document(), document("second"), document("elsewhere", tag="dev"))
    second = Store(store.client, "second", "runner", lambda: 200.0)
    assert await second.rival(await second.load()) == ""
    begun = await started(store)
    await started(Store(store.client, "elsewhere", "runner", lambda: 50.0), now=50.0)

    assert await second.rival(await second.load()) == "up"
    both = await started(second, now=200.0)
    assert (await second.rival(both), await store.rival(begun)) == ("up", ""), "one of two that began at once gives way"
    await store.save(begun, replace(state_of(begun), phase=COMPLETED))
    assert await second.rival(both) == ""


PLACES = {"namespaces": ["shop", "pay"]}


@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [
        ({}, {}, True),
        ({"waves": [PLACES]}, {"waves": [PLACES]}, True),
        ({"waves": [PLACES]}, {"waves": [{"namespaces": ["dev"]}, {"namespaces": ["pay"]}]}, True),
        ({"waves": [PLACES]}, {"waves": [{"namespaces": ["dev"]}]}, False),
        ({"waves": [PLACES]}, {"waves": [{"namespaces": ["dev"]}, {"name": "rest"}]}, True),
        ({"waves": [{"importance": "low"}]}, {"waves": [{"importance": "high"}]}, True),
        ({"from": NEW}, {"from": OLD}, True),
        ({"from": NEW, "waves": [PLACES]}, {"from": NEW, "waves": [{"namespaces": ["dev"]}]}, False),
        ({}, {"from": NEW, "to": OLD}, False),
        ({}, {"tag": "prod"}, False),
        ({"tag": "prod"}, {}, False),
    ],
)
async def test_upgrades_without_a_tag_that_may_share_a_workload_are_not_under_way_at_once(
    first: dict[str, Any], second: dict[str, Any], is_refused: bool
) -> None:
    documents = document(**{"tag": None, **first}), document("second", **{"tag": None, **second})
    store = new_store(*documents)
    later = Store(store.client, "second", "runner", lambda: 200.0)
    begun = await started(store, before=None, phase=PAUSED)

    assert await store.rival(begun) == ""
    assert await later.rival(await later.load()) == ("up" if is_refused else "")
    assert await later.rival(await started(later, now=200.0, before=None)) == ("up" if is_refused else "")


async def test_an_upgrade_without_a_tag_goes_on_after_its_end_only_beside_no_later_one() -> None:
    store = new_store(document(tag=None), document("later", tag=None))
    await started(store, before=None, phase=INCOMPLETE)
    later = Store(store.client, "later", "runner", lambda: 200.0)
    begun = await started(later, now=200.0, before=None)

    with pytest.raises(UsageError, match="upgrade later of revision 1-30 is under way; wait for its end, or end it"):
        await store.command("resume", 300.0)
    await later.save(begun, replace(state_of(begun), phase=COMPLETED))
    assert state_of(await store.command("resume", 300.0)).phase == RUNNING


async def test_a_refused_upgrade_is_neither_created_nor_changed_and_never_starts() -> None:
    store = new_store(document(), document("waiting"), document("ended"))
    await started(store)
    unstarted, completed = (Store(store.client, name, "runner", lambda: 200.0) for name in ("waiting", "ended"))
    await started(completed, now=50.0, phase=COMPLETED)
    second = Store(store.client, "second", "runner", lambda: 200.0)

    for request in (
        second.adopt(document("second")),
        unstarted.adopt(document("waiting", soak="1s")),
        completed.again(),
        completed.again(document("ended", soak="1s")),
    ):
        with pytest.raises(UsageError, match="upgrade up of tag prod is under way; wait for its end, or end it with"):
            await request
    assert await second.find() is None
    assert ((await unstarted.load()).upgrade.soak, (await completed.load()).upgrade.run) == (300.0, 1)
    assert (await second.adopt(document("second", tag="dev"))).is_new


async def test_an_ended_upgrade_goes_back_only_if_no_later_one_has_moved_the_tag() -> None:
    store = new_store(document(), document("later"))
    await started(store, phase=COMPLETED)
    later = Store(store.client, "later", "runner", lambda: 200.0)
    await started(later, now=200.0, phase=COMPLETED)

    with pytest.raises(
        UsageError, match="upgrade later of tag prod began after up; use `injector upgrade rollback later`"
    ):
        await store.command("rollback", 300.0)
    assert state_of(await later.command("rollback", 300.0)).phase == ROLLING_BACK


async def test_upgrades_are_listed_by_name_with_the_faults_of_those_that_cannot_be_read() -> None:
    store = new_store(document("b"), document("a"), {**document("bad"), "spec": {}})

    upgrades, faults = await list_upgrades(store.client)
    assert [stored.upgrade.name for stored in upgrades] == ["a", "b"]
    assert [fault.partition(";")[0] for fault in faults] == ["Upgrade bad: spec.from: it is missing"]
    assert read_stored(document()).state is None
    assert State().phase == RUNNING

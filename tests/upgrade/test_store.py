"""Where the state of an upgrade is: a ConfigMap, or the status of its resource."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from injector.cluster.resources import CONFIG_MAPS, WEBHOOKS
from injector.errors import ClusterError, DataError, UsageError
from injector.revisions.tags import Tag
from injector.upgrade.state import COMPLETED, PAUSED, State
from injector.upgrade.store import (
    UPGRADES,
    ConfigMapStore,
    ResourceStore,
    Store,
    Stored,
    find_store,
    tag_before,
    write_tag,
)
from tests.cli.clusters import revision, tag
from tests.cluster.fakeapi import Direct, FakeApi
from tests.upgrade.fleets import DOCUMENT, NEW, OLD, PROD, upgrade

HOME = "istio-system"


def document(**spec: Any) -> dict[str, Any]:
    return {**DOCUMENT, "spec": {**DOCUMENT["spec"], **spec}}


def new_store() -> ConfigMapStore:
    return ConfigMapStore(FakeApi(), HOME, "up")


def new_resource(**spec: Any) -> ResourceStore:
    api = FakeApi()
    api.put(UPGRADES, document(**spec))
    return ResourceStore(api, HOME, "up")


async def started(
    store: Store, raw: dict[str, Any] = DOCUMENT, now: float = 100.0, before: Tag | None = PROD
) -> Stored:
    async def tag_now() -> Tag | None:
        return before

    if isinstance(store, ResourceStore):
        raw = await store.client.get(UPGRADES, store.name)
    return await store.start(raw, upgrade(**raw["spec"]), tag_now, now)


@pytest.fixture(params=[new_store, new_resource])
def store(request: pytest.FixtureRequest) -> Store:
    made: Store = request.param()
    return made


async def test_an_upgrade_that_was_never_started_is_unknown(store: Store) -> None:
    assert await store.load() is None
    with pytest.raises(UsageError, match="no upgrade is called up"):
        await store.existing()


async def test_a_started_upgrade_is_read_with_its_document_and_the_tag_before(store: Store) -> None:
    weighted = Tag("prod", ((OLD, 90), (NEW, 10)), salt="x", namespaces={"pay": ((OLD, 1),)})
    begun = await started(store, before=weighted)

    found = await store.existing()
    assert (found.upgrade, found.state) == (upgrade(), begun.state)
    assert tag_before(found) == weighted
    assert (found.state.started, found.state.deadline) == (100.0, 100.0 + 86400)
    assert type(await find_store(store.client, HOME, "up")) is type(store)
    assert tag_before(await started(new_store(), document(tag=None), before=None)) is None


async def test_only_the_version_that_was_read_is_changed(store: Store) -> None:
    first = await started(store)
    second = await store.existing()

    saved = await store.save(second, replace(second.state, phase=PAUSED))
    assert (await store.existing()).state.phase == PAUSED
    with pytest.raises(ClusterError) as caught:
        await store.save(first, first.state)
    assert caught.value.reason == "conflict"
    await store.save(saved, first.state)


async def test_a_second_start_goes_on_and_may_change_limits_but_not_waves() -> None:
    store = new_store()
    begun = await started(store)

    again = await started(store, document(limits={"workloads": 9}), now=200.0)
    assert (again.state, (await store.existing()).upgrade.limits.workloads) == (begun.state, 9)
    with pytest.raises(UsageError, match="the upgrade up is under way with another `waves`"):
        await started(store, document(waves=[{"weight": 10}]))


async def test_of_two_runners_that_start_an_upgrade_at_once_one_does(store: Store) -> None:
    first, second = await asyncio.gather(started(store), started(store, now=200.0))

    assert first.state == second.state == (await store.existing()).state


async def test_a_resource_that_is_changed_while_it_is_started_is_a_conflict() -> None:
    store = new_resource()
    raw = await store.client.get(UPGRADES, "up")

    async def slow_tag() -> Tag | None:
        assert isinstance(store.client, FakeApi)
        store.client.put(UPGRADES, {**raw, "metadata": {**raw["metadata"], "labels": {"team": "a"}}})
        return PROD

    with pytest.raises(ClusterError) as caught:
        await store.start(raw, upgrade(), slow_tag, 100.0)
    assert caught.value.reason == "conflict"
    assert (await started(store)).state.started == 100.0


async def test_after_the_end_an_upgrade_starts_again_with_later_marks() -> None:
    store = new_store()
    begun = await started(store)
    await store.save(begun, replace(begun.state, phase=COMPLETED, token=900.0))

    again = await started(store, document(waves=[{"weight": 10}]), now=200.0)
    assert (again.state.phase, again.state.wave) == ("Running", 0)
    assert again.state.next_token(200.0) > 900.0


async def test_a_resource_runs_once_and_shows_its_progress_or_why_it_cannot_start() -> None:
    store = new_resource()
    assert (await store.note("no such tag"), await store.note("no such tag")) == (True, False)
    assert (await store.client.get(UPGRADES, "up"))["status"] == {"reason": "no such tag"}
    assert await store.load() is None

    begun = await started(store)
    assert begun.item["status"]["progress"] == "wave all, Preflight"
    await store.note("why")
    begun = await store.existing()
    assert (begun.state.reason, begun.state.started) == ("why", 100.0)
    ended = await store.save(begun, replace(begun.state, phase=COMPLETED))
    assert (await started(store, now=900.0)).state == ended.state


async def test_a_stored_state_that_is_not_json_says_how_to_start_again() -> None:
    store = new_store()
    begun = await started(store)
    data = {**begun.item["data"], "state": "{"}
    await store.client.replace(CONFIG_MAPS, {**begun.item, "data": data}, manager="hand")

    with pytest.raises(DataError, match=r"upgrade-up: state: json: .*: delete it to start again"):
        await store.load()


@pytest.mark.parametrize("data", [{}, {"upgrade": "{}", "state": "{}"}, {"upgrade": "no"}])
async def test_a_config_map_that_was_changed_by_hand_is_refused(data: dict[str, str]) -> None:
    store = new_store()
    begun = await started(store)
    await store.client.replace(CONFIG_MAPS, {**begun.item, "data": data}, manager="hand")

    with pytest.raises(DataError) as caught:
        await store.load()
    assert "ConfigMap istio-system/upgrade-up" in caught.value.where


@pytest.mark.parametrize("changes", [2, 9])
async def test_a_command_is_tried_again_if_a_runner_stores_a_state_meanwhile(
    store: Store, monkeypatch: pytest.MonkeyPatch, changes: int
) -> None:
    await started(store)
    save, left = type(store).save, [changes]

    async def late(own: Store, stored: Stored, state: State) -> Stored:
        if left[0]:
            left[0] -= 1
            other = await own.existing()
            await save(own, other, replace(other.state, total=left[0]))
        return await save(own, stored, state)

    monkeypatch.setattr(type(store), "save", late)
    if changes == 2:
        assert (await store.command("pause", 200.0)).state.phase == (await store.existing()).state.phase == PAUSED
    else:
        with pytest.raises(ClusterError, match="conflict"):
            await store.command("pause", 200.0)


async def test_a_tag_before_whose_revision_was_removed_by_hand_is_refused(store: Store) -> None:
    begun = await started(store)

    with pytest.raises(DataError, match="cannot name a revision"):
        tag_before(replace(begun, state=replace(begun.state, tag_before={"annotations": {}})))


def test_a_tag_is_written_only_over_the_expected_one() -> None:
    api = FakeApi()
    for each in (*revision(OLD, "1.28.0"), *revision(NEW, "1.30.1"), tag("prod", OLD)):
        resource = CONFIG_MAPS if each["kind"] == "ConfigMap" else WEBHOOKS
        api.put(resource, each)
    moved = Tag("prod", ((OLD, 90), (NEW, 10)))

    with pytest.raises(ClusterError, match="changed by another writer"):
        write_tag(Direct(api), HOME, moved, moved)
    assert api.applied == []

    write_tag(Direct(api), HOME, moved, PROD)
    written = api.objects["mutatingwebhookconfigurations", "", "istio-revision-tag-prod"]["metadata"]
    assert json.loads(written["annotations"]["revision-injector/weights"]) == {OLD: 90, NEW: 10}

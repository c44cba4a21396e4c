"""The commands for one workload: which one is meant, and when it is skipped or tried again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from injector.errors import DataError, UsageError
from injector.upgrade.plan import Restart, make_plan
from injector.upgrade.single import change_workload, find_entry
from injector.upgrade.state import INCOMPLETE, RESTARTING, State, new_state
from injector.upgrade.store import UPGRADES, Store
from injector.upgrade.tag import tag_data
from tests.cluster.fakeapi import FakeApi
from tests.upgrade.fleets import DOCUMENT, NEW, OLD, PROD, FakeSurveyor, fleet, upgrade, workload

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


async def change(verb: str, text: str, **fields: Any) -> State:
    """Return the state after a command of an upgrade that restarts its first wave; keywords change its state."""
    api = FakeApi()
    api.put(UPGRADES, {**DOCUMENT, "spec": {**DOCUMENT["spec"], "waves": WAVES}})
    store = Store(api, "up", "runner", lambda: 100.0)
    stored = await store.load()
    begun = new_state(stored.upgrade, 100.0, tag_data(PROD), (OLD, NEW), pins=(OLD,)).at(RESTARTING, 100.0, token=100.0)
    await store.save(stored, replace(begun, **fields))
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


async def test_an_upgrade_that_was_not_started_has_no_workload_to_skip() -> None:
    api = FakeApi()
    api.put(UPGRADES, DOCUMENT)
    store = Store(api, "up")
    with pytest.raises(UsageError, match="the upgrade up was not started"):
        await change_workload(store, FakeSurveyor(lambda: WORKLOADS), "skip", "shop/deployment/web", 1.0)

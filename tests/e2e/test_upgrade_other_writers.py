"""Upgrades on a real API server while others delete their revisions, and change or delete their tag."""

from __future__ import annotations

from collections import Counter
from functools import partial

from tests.e2e.fleet import HOME, NEW, OLD, ONE_BY_ONE, PODS, WAVES, World


def begin_and_lose(world: World, name: str, revision: str) -> None:
    """Run an upgrade until two workloads are done, and kill its runner; then the ConfigMaps of a revision are deleted."""
    runner = world.start(world.document(name, *WAVES, limits=ONE_BY_ONE))
    world.until(partial(world.has_done, name, 2), runner)
    runner.kill()
    runner.communicate()
    for config_map in (f"istio-sidecar-injector-{revision}", f"istio-{revision}"):
        world.cluster.kubectl("delete", "configmap", config_map, "-n", HOME)


def test_a_rollback_needs_only_the_old_revision_and_nothing_starts_again_by_itself(world: World) -> None:
    begin_and_lose(world, "back", NEW)
    assert world.injector("upgrade", "rollback", "back").exit_code == 0
    document = world.document("back", *WAVES)
    code, said = world.run(document)
    assert (code, world.state("back")["phase"]) == (4, "RolledBack"), said
    assert world.revisions() == {OLD: PODS}
    assert world.condition("back", "RolledBack") == "True"

    before = world.templates()
    assert world.run(document)[0] == 4
    assert world.templates() == before


def test_an_upgrade_goes_on_without_the_old_revision(world: World) -> None:
    begin_and_lose(world, "on", OLD)
    code, said = world.run(world.document("on", *WAVES))
    assert (code, world.state("on")["phase"]) == (0, "Completed"), said
    assert world.revisions() == {NEW: PODS}


def test_a_tag_that_kubectl_changed_pauses_and_a_rollback_overwrites_it(world: World) -> None:
    document = world.document("weights", {"weight": 60}, {"weight": 100}, limits=ONE_BY_ONE)
    runner = world.start(document)
    world.until(partial(world.has_done, "weights", 1), runner)
    world.cluster.kubectl(
        "label", "mutatingwebhookconfiguration", "istio-revision-tag-prod", f"istio.io/rev={OLD}", "--overwrite"
    )
    said, _ = runner.communicate(timeout=600)
    reason = world.state("weights")["reason"]
    assert (runner.returncode, world.state("weights")["phase"]) == (3, "Paused"), said
    assert reason.startswith("tag prod was changed by another writer (kubectl-label): "), reason

    assert world.injector("upgrade", "rollback", "weights").exit_code == 0
    code, said = world.run(document)
    assert (code, world.state("weights")["phase"]) == (4, "RolledBack"), said
    assert world.revisions() == {OLD: PODS}


def test_a_tag_that_was_deleted_pauses_and_a_rollback_writes_it_again(world: World) -> None:
    document = world.document("gone", limits=ONE_BY_ONE)
    runner = world.start(document)
    world.until(partial(world.has_done, "gone", 1), runner)
    world.cluster.kubectl("delete", "mutatingwebhookconfiguration", "istio-revision-tag-prod")
    said, _ = runner.communicate(timeout=600)
    assert (runner.returncode, world.state("gone")["phase"]) == (3, "Paused"), said
    assert "run `injector tag set prod --revision 1-28`" in world.state("gone")["reason"]

    assert world.injector("upgrade", "rollback", "gone").exit_code == 0
    code, said = world.run(document)
    # A workload whose pods were being replaced when the tag was deleted has some without a sidecar. It is named then.
    bare = world.revisions()[None]
    assert (code, world.state("gone")["phase"]) == ((6, "Incomplete") if bare else (4, "RolledBack")), said
    assert world.revisions() == +Counter({OLD: PODS - bare, None: bare})
    reasons = [item["reason"] for item in world.state("gone").get("remaining", ())]
    assert sum(int(reason.removeprefix("pods without a sidecar: ")) for reason in reasons) == bare

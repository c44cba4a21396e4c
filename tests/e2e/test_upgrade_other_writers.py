"""Upgrades on a real API server while others delete their revisions, and change or delete their tag."""

from __future__ import annotations

import subprocess
from functools import partial

from tests.e2e.fleet import HOME, NEW, OLD, ONE_BY_ONE, PODS, WAVES, World


def stop(process: subprocess.Popen[str]) -> str:
    """Kill a runner, and return what it said."""
    process.kill()
    return process.communicate()[0]


def remove_revision(world: World, revision: str) -> None:
    for name in (f"istio-sidecar-injector-{revision}", f"istio-{revision}"):
        world.cluster.kubectl("delete", "configmap", name, "-n", HOME)


def test_a_rollback_needs_only_the_old_revision_and_nothing_starts_again_by_itself(world: World) -> None:
    document = world.document("back", *WAVES, limits=ONE_BY_ONE)
    runner = world.start(document)
    world.until(partial(world.has_done, "back", 2), runner)
    stop(runner)
    remove_revision(world, NEW)
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
    document = world.document("on", *WAVES, limits=ONE_BY_ONE)
    runner = world.start(document)
    world.until(partial(world.has_done, "on", 2), runner)
    stop(runner)
    remove_revision(world, OLD)
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
    assert (code, world.state("gone")["phase"]) == (4, "RolledBack"), said
    assert world.revisions() == {OLD: PODS}

"""A canary upgrade from beginning to end, while pods keep being created: added, shadowed, weighted, rolled back, removed."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import Figure
from tests.e2e.load import Load, Pod, created_meanwhile
from tests.e2e.served import ROOT, Certificate, Injector, command, injector
from tests.e2e.webhooks import calling, written
from tests.manifests import BROKEN, account_of, namespace_of

OLD, NEW, TAG = "stable", "canary", "prod"
MOVES = 24
PODS_A_MOVE = 5
"""Pods that are created between two moves: some moves are overtaken by the next before they are served, most are not."""


@pytest.fixture
def revisions(tmp_path: Path) -> Path:
    """A folder with the old revision, which the tag leads to."""
    folder = tmp_path / "revisions"
    shutil.copytree(ROOT / "revisions" / OLD, folder / OLD)
    (folder / "tags.yaml").write_text(f"{TAG}: {OLD}\n")
    return folder


@pytest.fixture
def served(cluster: Cluster, trusted: Certificate, revisions: Path, tmp_path: Path) -> Iterator[Injector]:
    """The injector; the API server calls it for the namespaces with the tag, and creates nothing without it."""
    with injector(tmp_path, *trusted.flags, "--revisions-dir", str(revisions), "--keep-removed", "0") as running:
        webhooks = written("tag", TAG, "--revision", OLD, port=running.port, trusted=trusted)
        assert {webhook["failurePolicy"] for webhook in webhooks[0]["webhooks"]} == {"Fail"}
        with calling(cluster, webhooks):
            yield running


@pytest.fixture
def load(cluster: Cluster, request: pytest.FixtureRequest) -> Load:
    """Pods of many workloads, in a namespace with the tag."""
    home = request.node.name.split("_")[1]
    cluster.apply(namespace_of(home, {"istio.io/rev": TAG}), account_of(home))
    return Load(cluster, home)


class Rehearsal:
    """The steps of an upgrade, each done once the injector serves it and every workload had a pod after."""

    def __init__(self, revisions: Path, served: Injector, load: Load) -> None:
        self._revisions = revisions
        self._served = served
        self._load = load
        self.slowest = 0.0
        """Seconds from a move until it was served, at most."""

    def moved(self, weights: dict[str, int]) -> list[Pod]:
        """The pods that were created once the tag had these weights; one revision alone has no weight."""
        self._set(weights)
        took = self._served.until(lambda: self._served.tag(TAG)["weights"] == weights)
        self.slowest = max(self.slowest, took)
        return self._load.from_every_workload()

    def misled(self) -> list[Pod]:
        """The pods that were created while the tag gave a share to a revision that is broken."""
        broken = self._revisions / "broken"
        shutil.copytree(self._revisions / OLD, broken)
        (broken / "config").write_text(BROKEN)
        self._set({OLD: 90, broken.name: 10})
        self._served.until(lambda: broken.name in "".join(self._served.status()["tagErrors"]))
        pods = self._load.from_every_workload()
        self._set({OLD: 1})
        shutil.rmtree(broken)
        self._served.until(self._is_clean)
        return pods

    def shadowed(self, candidate: str) -> None:
        """Let a candidate be tried on every pod, until it was."""
        entry = f"{TAG}: {{revision: {OLD}, shadow: {{revision: {candidate}, sample: 100}}}}\n"
        (self._revisions / "tags.yaml").write_text(entry)
        self._served.until(lambda: (self._served.tag(TAG)["shadow"] or {}).get("revision") == candidate)
        self._served.until(lambda: self._served.total("injector_shadow_requests_total", revision=candidate) > 0)

    def added(self, name: str) -> None:
        """Add a revision, until it is served."""
        shutil.copytree(ROOT / "revisions" / name, self._revisions / name)
        self._served.until(lambda: name in self._names())

    def removed(self, name: str) -> None:
        """Remove a revision, until it is served no longer."""
        shutil.rmtree(self._revisions / name)
        self._served.until(lambda: name not in self._names())

    def _set(self, weights: dict[str, int]) -> None:
        shares = [text for name, weight in weights.items() for text in ("--weight", f"{name}={weight}")]
        target = shares if len(weights) > 1 else ["--revision", *weights]
        command("tag", "set", TAG, *target, "--overwrite", "--revisions-dir", self._revisions)

    def _is_clean(self) -> bool:
        status = self._served.status()
        return not status["tagErrors"] and all(row["valid"] for row in status["revisions"])

    def _names(self) -> list[str]:
        return [row["name"] for row in self._served.status()["revisions"] if row["served"]]


def revisions_of(pods: list[Pod]) -> dict[int, list[str]]:
    """The revisions that each workload had, in order, each as often as it changed."""
    histories: dict[int, list[str]] = defaultdict(list)
    for pod in pods:
        if histories[pod.workload][-1:] != [pod.revision]:
            histories[pod.workload].append(pod.revision)
    return histories


def share_of(name: str, pods: list[Pod]) -> float:
    """The part of the workloads that has a revision."""
    latest = {pod.workload: pod.revision for pod in pods}
    return sum(revision == name for revision in latest.values()) / len(latest)


def test_upgrade_while_pods_are_created_moves_each_workload_once_and_fails_none(
    revisions: Path, served: Injector, load: Load, figure: Figure
) -> None:
    rehearsal = Rehearsal(revisions, served, load)
    with created_meanwhile(load):
        load.from_every_workload()
        rehearsal.added(NEW)
        misled = rehearsal.misled()
        rehearsal.shadowed(NEW)
        before = load.from_every_workload()
        shares = [
            share_of(NEW, before),
            share_of(NEW, rehearsal.moved({OLD: 90, NEW: 10})),
            share_of(NEW, rehearsal.moved({OLD: 50, NEW: 50})),
            share_of(NEW, rehearsal.moved({NEW: 1})),
        ]
        way_up = list(load.pods)
        back = rehearsal.moved({OLD: 1})
        again = rehearsal.moved({OLD: 0, NEW: 100})
        rehearsal.removed(OLD)
        after = load.from_every_workload()
    figure(load.summary())
    parts = ", ".join(f"{share:.2f}" for share in shares)
    figure(
        f"{load.namespace}: part of {NEW} on the way up {parts}; a move was served after {rehearsal.slowest:.2f} s at most"
    )

    assert load.failures == []
    assert {pod.revision for pod in load.pods} == {OLD, NEW}
    assert set(map(tuple, revisions_of(way_up).values())) == {(OLD, NEW)}
    assert shares[0] == 0 < shares[1] < shares[2] < shares[3] == 1
    assert {pod.revision for pod in (*misled, *back)} == {OLD}
    assert {pod.revision for pod in (*again, *after)} == {NEW}
    assert served.tag(TAG)["weights"] == {NEW: 100}
    assert served.total("sidecar_injection_failure_total") == 0


def test_moves_of_a_tag_by_the_dozen_fail_no_pod_and_the_last_one_counts(
    revisions: Path, served: Injector, load: Load, figure: Figure
) -> None:
    Rehearsal(revisions, served, load).added(NEW)
    targets = [(NEW, OLD)[turn % 2] for turn in range(MOVES - 1)] + [NEW]

    with created_meanwhile(load):
        load.more(50)
        for target in targets:
            command("tag", "set", TAG, "-r", target, "--overwrite", "--revisions-dir", revisions)
            load.more(PODS_A_MOVE)
        served.until(lambda: served.tag(TAG)["weights"] == {NEW: 1})
        last = load.from_every_workload()
    figure(load.summary())
    figure(f"{load.namespace}: {len(targets)} moves, {served.total('injector_config_reloads_total'):.0f} reloads")

    assert load.failures == []
    assert {pod.revision for pod in load.pods} == {OLD, NEW}
    assert {pod.revision for pod in last} == {NEW}
    assert served.total("sidecar_injection_failure_total") == 0

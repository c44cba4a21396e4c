from __future__ import annotations

from typing import Any

import pytest

from injector.revisions.verify import KEEP, MAX_REVIEW, PODS, RecentPods


def meta_of(name: str, kind: str = "StatefulSet") -> dict[str, Any]:
    """The metadata of a pod that a workload made."""
    return {"generateName": f"{name}-", "ownerReferences": [{"kind": kind, "name": name, "controller": True}]}


def keep(recent: RecentPods, name: str, review: bytes = b"{}", *, revision: str = "a", namespace: str = "shop") -> None:
    """Keep a pod of the workload ``name``."""
    recent.keep(revision, review, pod={"metadata": meta_of(name)}, namespace=namespace, envs={})


def kept(recent: RecentPods, revision: str = "a") -> list[tuple[str, str, bytes]]:
    """What is kept of a revision."""
    return [(pod.namespace, pod.owner, pod.review) for pod in recent.snapshot().get(revision, ())]


def test_the_last_of_each_workload_are_kept_by_revision() -> None:
    recent = RecentPods()

    keep(recent, "db", b"1")
    keep(recent, "web", b"2")
    keep(recent, "db", b"3")
    keep(recent, "db", b"4", namespace="test")
    keep(recent, "db", b"5", revision="b")

    assert kept(recent) == [
        ("shop", "StatefulSet web", b"2"),
        ("shop", "StatefulSet db", b"3"),
        ("test", "StatefulSet db", b"4"),
    ]
    assert kept(recent, "b") == [("shop", "StatefulSet db", b"5")]


def test_no_more_than_a_few_are_kept_however_many_come() -> None:
    recent = RecentPods()

    for number in range(100):
        keep(recent, f"w{number}")

    assert [owner for _, owner, _ in kept(recent)] == [f"StatefulSet w{100 - PODS + i}" for i in range(PODS)]


@pytest.mark.parametrize(("size", "count"), [(MAX_REVIEW, 1), (MAX_REVIEW + 1, 0)])
def test_a_large_review_is_not_kept(size: int, count: int) -> None:
    recent = RecentPods()

    keep(recent, "db", b" " * size)

    assert len(kept(recent)) == count


def test_a_snapshot_does_not_change_with_what_comes() -> None:
    recent = RecentPods()
    keep(recent, "db")

    snapshot = recent.snapshot()
    keep(recent, "web")

    assert len(snapshot["a"]) == 1


def test_the_pods_of_revisions_that_are_gone_are_forgotten() -> None:
    recent = RecentPods()
    keep(recent, "db")
    keep(recent, "db", revision="b")

    recent.forget_others(["b", "c"])

    assert list(recent.snapshot()) == ["b"]


@pytest.mark.parametrize(
    ("pod", "named"),
    [
        ({"metadata": {"name": "hello"}}, "Pod hello in namespace shop"),
        ({"metadata": {"generateName": "job-"}}, "Pod job- in namespace shop"),
        ({"metadata": {"name": "a\n\x1b[31mb"}}, "Pod a??[31mb in namespace shop"),
        ({}, "Pod without a name in namespace shop"),
        ({"metadata": {"generateName": "a-", "ownerReferences": [None]}}, "a pod without a name in namespace shop"),
    ],
)
def test_a_pod_is_named_by_its_owner_on_one_line(pod: dict[str, Any], named: str) -> None:
    recent = RecentPods()

    recent.keep("a", b"{}", pod=pod, namespace="shop", envs={})

    assert [str(each) for each in recent.snapshot()["a"]] == [named]


def test_a_pod_is_forgotten_some_time_after_the_last_admission_of_its_workload() -> None:
    now = 0.0
    recent = RecentPods(clock=lambda: now)
    keep(recent, "old", b"1")
    keep(recent, "new", b"2")

    now = KEEP / 2
    keep(recent, "new", b"3")
    now = KEEP

    assert kept(recent) == [("shop", "StatefulSet new", b"3")]

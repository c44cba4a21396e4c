from __future__ import annotations

import subprocess
import sys
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from injector.errors import ManifestError
from injector.revisions.tags import choose, draw, sampled, workload_key
from tests.factories import make_pod

WORKLOADS = [("shop", "Deployment", f"web-{number}") for number in range(20_000)]
CHI_SQUARE = {1: 10.83, 2: 13.82, 3: 16.27}
"""The bound of the statistic in 999 of 1000 fair draws, by degrees of freedom."""

TIMELESS = settings(deadline=None)

names = st.text("abc-019", min_size=1, max_size=8)
keys = st.tuples(names, st.sampled_from(["Deployment", "CronJob", "Pod"]), names)
weightings = st.dictionaries(names, st.integers(0, 1000), min_size=2, max_size=5).filter(
    lambda found: any(found.values())
)


def chosen(weights: dict[str, int], key: tuple[str, str, str], salt: str = "prod") -> str:
    return choose(tuple(weights.items()), salt, key)


def owned(kind: str, owner: str, generated: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A pod as a controller makes it: its name is not there yet."""
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "1", "controller": True}
    return {"metadata": {"generateName": generated, "labels": labels or {}, "ownerReferences": [reference]}}


@pytest.mark.parametrize(
    "weights",
    [{"a": 90, "b": 10}, {"a": 50, "b": 50}, {"a": 1, "b": 2, "c": 5}, {"a": 97, "b": 1, "c": 1, "d": 1}],
    ids=str,
)
def test_each_revision_gets_its_share_of_many_workloads(weights: dict[str, int]) -> None:
    counts = Counter(chosen(weights, key) for key in WORKLOADS)

    expected = {name: len(WORKLOADS) * weight / sum(weights.values()) for name, weight in weights.items()}
    statistic = sum((counts[name] - wanted) ** 2 / wanted for name, wanted in expected.items())
    assert statistic < CHI_SQUARE[len(weights) - 1], counts


def test_a_weight_of_zero_receives_no_workloads() -> None:
    assert {chosen({"a": 1, "b": 0}, key) for key in WORKLOADS[:2000]} == {"a"}


@TIMELESS
@given(weightings, st.data(), keys, st.integers(1, 10_000))
def test_raising_a_weight_moves_workloads_only_to_its_revision(
    weights: dict[str, int], data: st.DataObject, key: tuple[str, str, str], more: int
) -> None:
    raised = data.draw(st.sampled_from(sorted(weights)))

    before, after = chosen(weights, key), chosen({**weights, raised: weights[raised] + more}, key)

    assert after in (before, raised)


@TIMELESS
@given(weightings, st.data(), keys)
def test_lowering_a_weight_moves_only_its_own_workloads(
    weights: dict[str, int], data: st.DataObject, key: tuple[str, str, str]
) -> None:
    lowered = data.draw(st.sampled_from(sorted(weights)))
    fewer = {**weights, lowered: weights[lowered] // 2}
    if not any(fewer.values()):
        return

    before, after = chosen(weights, key), chosen(fewer, key)

    assert before in (after, lowered)


@TIMELESS
@given(keys, st.lists(st.integers(0, 100), min_size=2, max_size=6))
def test_a_pair_that_is_shifted_step_by_step_moves_each_workload_once(
    key: tuple[str, str, str], steps: list[int]
) -> None:
    course = [chosen({"old": 100 - share, "new": share}, key) for share in sorted(steps)]

    assert course == sorted(course, reverse=True)


@TIMELESS
@given(keys, st.lists(st.integers(0, 1000), min_size=2, max_size=6), st.integers(1, 100), st.integers(1, 100))
def test_with_three_revisions_a_workload_moves_once_while_a_weight_grows(
    key: tuple[str, str, str], steps: list[int], first: int, second: int
) -> None:
    course = [chosen({"a": first, "b": second, "new": share}, key) for share in sorted(steps)]

    assert sum(one != other for one, other in pairwise(course)) <= 1


def test_ten_then_fifty_then_all_moves_each_workload_at_most_once() -> None:
    steps = [{"old": 90, "new": 10}, {"old": 50, "new": 50}, {"old": 0, "new": 100}]
    courses = Counter(tuple(chosen(weights, key) for weights in steps) for key in WORKLOADS)

    assert set(courses) == {("new", "new", "new"), ("old", "new", "new"), ("old", "old", "new")}


@TIMELESS
@given(weightings, keys)
def test_the_order_of_the_revisions_does_not_matter(weights: dict[str, int], key: tuple[str, str, str]) -> None:
    assert chosen(weights, key) == chosen(dict(reversed(weights.items())), key)


def test_another_salt_is_another_choice() -> None:
    weights = {"a": 50, "b": 50}
    same = sum(chosen(weights, key, "one") == chosen(weights, key, "two") for key in WORKLOADS)

    assert same / len(WORKLOADS) == pytest.approx(0.5, abs=0.02)


def test_another_process_chooses_the_same() -> None:
    program = (
        "from injector.revisions.tags import choose\n"
        "print(*(choose((('a', 2), ('b', 1)), 'prod', ('shop', 'Deployment', f'web-{n}')) for n in range(40)), sep='')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "".join(chosen({"a": 2, "b": 1}, key) for key in WORKLOADS[:40])


def test_another_release_chooses_the_same() -> None:
    """A change of the hash would move workloads by itself: it needs a line in the changelog, and a reason."""
    assert "".join(chosen({"a": 2, "b": 1}, key) for key in WORKLOADS[:24]) == "baaabbaaaabbaaaabaaaaaaa"


def test_draws_depend_on_word_boundaries() -> None:
    assert len({draw("ab", "c"), draw("a", "bc"), draw("abc"), draw("abc", "")}) == 4


@pytest.mark.parametrize("percent", [0, 0.5, 25, 100])
def test_a_sample_is_its_percentage_of_requests(percent: float) -> None:
    uids = [f"6f1d3c9e-{number}" for number in range(20_000)]

    assert sum(sampled(uid, percent) for uid in uids) / 200 == pytest.approx(percent, abs=1)
    assert percent not in {0, 100} or {sampled(uid, percent) for uid in uids} == {percent == 100}


@pytest.mark.parametrize(
    ("pod", "kind", "name"),
    [
        (owned("ReplicaSet", "web-5d9", "web-5d9-", {"pod-template-hash": "5d9"}), "Deployment", "web"),
        (owned("ReplicaSet", "web-7c4", "web-7c4-", {"pod-template-hash": "7c4"}), "Deployment", "web"),
        (owned("Job", "night-28912345", "night-28912345-"), "CronJob", "night"),
        (owned("Job", "once", "once-"), "Job", "once"),
        (owned("StatefulSet", "db", "db-"), "StatefulSet", "db"),
        (make_pod("alone"), "Pod", "alone"),
        ({"metadata": {"generateName": "alone-"}}, "Pod", "alone-"),
        ({"metadata": {"generateName": "alone-", "name": "alone-x7"}}, "Pod", "alone-"),
        ({}, "Pod", ""),
    ],
)
def test_a_pod_goes_by_the_workload_that_made_it(pod: dict[str, Any], kind: str, name: str) -> None:
    assert workload_key(pod, "shop") == ("shop", kind, name)


def test_a_pod_that_names_its_namespace_is_in_it() -> None:
    assert workload_key(make_pod(namespace="own"), "") == ("own", "Pod", "hello")


def test_metadata_that_cannot_be_read_is_refused_as_the_injection_would() -> None:
    with pytest.raises(ManifestError, match=r"metadata.name: json: cannot unmarshal number"):
        workload_key({"metadata": {"name": 5}}, "shop")

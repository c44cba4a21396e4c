"""The changes between two injected pods, by kind."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import Any

import pytest

from injector.errors import AnnotationError, DataError, InvalidPodError
from injector.injection.result import Injected, Skipped, Unanswered
from injector.injection.tools.podchanges import (
    ABSENT,
    HIDDEN,
    HIDDEN_ANNOTATIONS,
    KINDS,
    Change,
    changes,
    decision_of,
    differences,
    entries,
    hiding_of,
    order_changes,
    pod_changes,
)
from tests.cases import cases
from tests.factories import make_container, make_pod

PLAIN_POD = make_pod()
PRIVATE = "hunter2-hunter2"


def pod_with(proxy: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """The pod given with a proxy, whose fields are ``proxy``."""
    return make_pod(containers=[make_container(), make_container("istio-proxy", **(proxy or {}))], **spec)


def kinds_of(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, str]]:
    return [(change.kind, change.path) for change in pod_changes(old, new, PLAIN_POD)]


@cases("old", "new", "kind", "path")
def test_a_field_of_a_container_has_its_kind(old: dict[str, Any], new: dict[str, Any], kind: str, path: str) -> None:
    assert kinds_of(pod_with(old), pod_with(new)) == [(kind, f"containers[istio-proxy].{path}")]


@cases("before", "old", "new", "expected")
def test_changes_of_a_pod_are_told_by_kind_and_place(
    before: dict[str, Any], old: dict[str, Any], new: dict[str, Any], expected: list[list[Any]]
) -> None:
    results = pod_changes(make_pod(**old), make_pod(**new), make_pod(**before))

    assert [[change.kind, change.path, *map(format_value, (change.old, change.new))] for change in results] == expected


def format_value(value: Any) -> Any:
    """A value of a change as the cases have it: an absent one is null."""
    return None if value is ABSENT else value


@cases("old", "new", "expected")
def test_a_variable_of_the_proxy_is_shown(
    old: dict[str, Any], new: dict[str, Any], expected: tuple[str, Any, Any]
) -> None:
    (change,) = pod_changes(
        pod_with({"env": [{"name": "A", **old}]}), pod_with({"env": [{"name": "A", **new}]}), PLAIN_POD
    )

    assert (change.path, change.old, change.new) == (f"containers[istio-proxy].env[A]{expected[0]}", *expected[1:])


def test_changes_stand_in_the_order_of_the_kinds() -> None:
    old = pod_with({"image": "a:1", "args": ["1"]}, volumes=[{"name": "a"}], dnsPolicy="a")
    new = pod_with({"image": "a:2", "args": ["2"]}, dnsPolicy="b")

    results = [KINDS.index(kind) for kind, _ in kinds_of(old, new)]

    assert results == sorted(results)


INJECTED = Injected(pod_with(), b"[]", ("sidecar",))
SKIPPED = Skipped("label", "label says no")
ERROR = AnnotationError(f"bad {PRIVATE}", where="here")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (INJECTED, SKIPPED, ("injected", "skipped: label says no")),
        (SKIPPED, INJECTED, ("skipped: label says no", "injected")),
        (INJECTED, ERROR, ("injected", f"refused: here: bad {HIDDEN}")),
        (SKIPPED, ERROR, ("skipped: label says no", f"refused: here: bad {HIDDEN}")),
    ],
)
def test_another_decision_is_the_one_change(
    old: Injected | Skipped | DataError, new: Injected | Skipped | DataError, expected: tuple[str, str]
) -> None:
    pod = make_pod(containers=[make_container(env=[{"name": "A", "value": PRIVATE}])])

    assert changes(old, new, pod) == (Change("decision", "", *expected),)


@pytest.mark.parametrize("answer", [SKIPPED, ERROR, INJECTED])
def test_the_same_answer_twice_is_no_change(answer: Injected | Skipped | DataError) -> None:
    assert changes(answer, answer, PLAIN_POD) == ()


def test_pods_left_alone_for_different_reasons_do_not_differ() -> None:
    assert changes(SKIPPED, Skipped("host_network", "no"), PLAIN_POD) == ()


def test_two_injections_are_compared() -> None:
    other = Injected(pod_with({"image": "a"}), b"[]", ("sidecar",))

    assert [change.kind for change in changes(INJECTED, other, PLAIN_POD)] == ["image"]


def test_that_each_pod_carries_the_name_of_its_revision_is_no_change() -> None:
    old, new = (
        Injected(
            make_pod(
                labels={"istio.io/rev": rev, "own": rev},
                annotations={"istio.io/rev": rev, "sidecar.istio.io/status": json.dumps({"revision": rev})},
            ),
            b"[]",
            ("sidecar",),
        )
        for rev in ("1-24", "1-30")
    )

    assert changes(old, new, PLAIN_POD, ("1-24", "1-30")) == (
        Change("metadata", "metadata.labels.own", "1-24", "1-30"),
    )
    assert len(changes(old, new, PLAIN_POD, ("1-24", "other"))) == 4


def test_an_answer_in_a_word() -> None:
    assert [decision_of(result) for result in (INJECTED, SKIPPED, ERROR)] == ["injected", "skipped", "refused"]


def changed_values(old: Any, new: Any, path: str = "x", **options: Any) -> list[tuple[str, Any, Any]]:
    """The differences but for those of order."""
    changes = differences("k", path, old, new, **options)
    return [(change.path, change.old, change.new) for change in changes if change.kind == "k"]


@cases(
    "old",
    "new",
    "expected",
    also=[
        ({"a": 1}, {}, [("x.a", 1, ABSENT)]),
        ({}, {"a": None}, [("x.a", ABSENT, None)]),
        ([1, 2, 3], [1, 3], [("x", [2], ABSENT)]),
        (["--log", "a", "--x"], ["--log", "b", "--x", "--y"], [("x", ["a"], ["b"]), ("x", ABSENT, ["--y"])]),
        (
            [{"name": "a", "v": 1}],
            [{"name": "b"}, {"name": "a", "v": 2}],
            [("x[a].v", 1, 2), ("x[b]", ABSENT, {"name": "b"})],
        ),
    ],
)
def test_trees_differ_leaf_by_leaf(old: Any, new: Any, expected: list[Any]) -> None:
    assert changed_values(old, new) == [tuple(row) for row in expected]


@cases("path", "entry", "name")
def test_entries_of_a_list_are_told_by_what_names_them(path: str, entry: dict[str, Any], name: str) -> None:
    assert changed_values([{**entry, "x": 1}], [{**entry, "x": 2}], path) == [(f"{path}[{name}].x", 1, 2)]


def test_the_same_entries_in_another_order_are_one_difference() -> None:
    old = [{"name": name} for name in "abcd"]
    new = [{"name": name} for name in "acbd"]

    assert list(differences("k", "x", old, new)) == [Change("order", "x", ["b", "c"], ["c", "b"])]


@cases("old", "new", "expected")
def test_order_is_shown_from_the_first_to_the_last_out_of_place(
    old: str, new: str, expected: tuple[str, str] | None
) -> None:
    changes = [("".join(order_change.old), "".join(order_change.new)) for order_change in order_changes("x", old, new)]

    assert changes == ([expected] if expected else [])


def test_an_opaque_key_differs_without_its_values() -> None:
    old, new = {"a": "one", "b": {"a": "s"}}, {"a": "two", "b": {}}

    assert changed_values(old, new, opaque={"a"}) == [("x.a", HIDDEN, HIDDEN), ("x.b.a", HIDDEN, ABSENT)]


def test_further_entries_of_one_name_are_counted() -> None:
    assert entries(["a", "b", "a", "a"], str) == {"a": "a", "b": "b", "a#2": "a", "a#3": "a"}
    assert list(entries(["a#2", "a", "a", "a"], str)) == ["a#2", "a", "a#3", "a#4"]


def test_very_many_entries_take_no_longer_for_each() -> None:
    start = time.thread_time()

    assert len(entries(["a"] * 40_000, str)) == 40_000

    assert time.thread_time() - start < 5


def test_an_absent_value_prints_its_name() -> None:
    assert repr(ABSENT) == "ABSENT"


def env(**variables: str) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in variables.items()]


def test_every_variable_of_the_users_own_container_is_hidden() -> None:
    pod = make_pod(containers=[make_container(env=env(TOKEN=PRIVATE))])
    injected = make_container(env=[*env(TOKEN=PRIVATE, ADDED=PRIVATE), {"name": "REF", "valueFrom": {"a": "b"}}])

    assert hiding_of(pod).container(injected)["env"] == [
        {"name": "TOKEN", "value": HIDDEN},
        {"name": "ADDED", "value": HIDDEN},
        {"name": "REF", "valueFrom": {"a": "b"}},
    ]


def test_of_the_proxy_only_what_the_user_wrote_is_hidden() -> None:
    pod = make_pod(containers=[make_container(), make_container("istio-proxy", env=env(MINE=PRIVATE))])

    hidden = hiding_of(pod).container(make_container("istio-proxy", env=env(MINE=PRIVATE, ISTIOS="shown")))

    assert hidden["env"] == env(MINE=HIDDEN, ISTIOS="shown")


def test_a_container_that_the_injection_adds_is_shown() -> None:
    container = make_container("istio-proxy", env=env(A="b"))

    assert hiding_of(make_pod()).container(container) == container


@pytest.mark.parametrize("kind", ["containers", "initContainers", "ephemeralContainers"])
def test_a_whole_pod_shows_no_secret_wherever_it_stands(kind: str) -> None:
    pod = make_pod(annotations={name: json.dumps({"env": PRIVATE}) for name in HIDDEN_ANNOTATIONS} | {"a": "b"})
    pod["spec"][kind] = [make_container("mine", env=env(TOKEN=PRIVATE))]

    hidden = hiding_of(pod).pod(pod)

    assert PRIVATE not in json.dumps(hidden)
    assert hidden["metadata"]["annotations"] == {**dict.fromkeys(HIDDEN_ANNOTATIONS, HIDDEN), "a": "b"}
    assert PRIVATE in json.dumps(pod)


def test_a_message_loses_the_values_it_quotes_the_longest_first() -> None:
    pod = make_pod(containers=[make_container(env=env(A="secret", B="secret-long", C="abc", D=""))])

    assert hiding_of(pod).without_values("abc: secret-long, secret") == f"abc: {HIDDEN}, {HIDDEN}"


@pytest.mark.parametrize("quoted", ['a "b"  c\nd', 'a "b" c d', r"a \"b\"  c\nd", r'a "b"  c\nd'])
def test_a_message_loses_a_value_in_every_form_that_it_quotes(quoted: str) -> None:
    pod = make_pod(containers=[make_container(env=env(A='a "b"  c\nd'))])

    assert hiding_of(pod).without_values(f"of {quoted}, twice") == f"of {HIDDEN}, twice"


@pytest.mark.parametrize("answer", [Skipped("r", "because of secret"), Unanswered("because of secret")])
def test_a_reason_loses_the_values_it_quotes(answer: Skipped | Unanswered) -> None:
    pod = make_pod(containers=[make_container(env=env(A="secret"))])

    (change,) = changes(answer, InvalidPodError("no"), pod)

    assert change.old == f"{decision_of(answer)}: because of {HIDDEN}"


def test_an_entry_shows_where_its_value_is_from_and_never_the_value() -> None:
    entries = [[], *([{"name": "A", **value}] for value in ({"value": PRIVATE}, {}, {"valueFrom": {"x": 1}}))]
    pods = [make_pod(containers=[make_container(env=entry)]) for entry in entries]

    results = [
        [(pod_change.old, pod_change.new) for pod_change in pod_changes(one, other, PLAIN_POD)]
        for one, other in pairwise(pods)
    ]

    source = {"valueFrom": {"x": 1}}
    assert results == [[(ABSENT, HIDDEN)], [(HIDDEN, HIDDEN)], [(HIDDEN, source)]]


def test_null_among_containers_and_variables_has_nothing_to_hide() -> None:
    pod = make_pod()
    pod["spec"]["containers"] = [None, make_container(env=[None, *env(A=PRIVATE)])]

    assert hiding_of(pod) == hiding_of(make_pod(containers=[make_container(env=env(A=PRIVATE))]))


def test_a_variable_that_stands_twice_is_hidden_twice() -> None:
    hiding = hiding_of(make_pod(containers=[make_container("istio-proxy", env=[*env(A="1"), *env(A="2")])]))

    assert hiding.hides("istio-proxy", "A#2")
    assert not hiding.hides("istio-proxy", "B")

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from injector.injection.plans import MAX_BYTES, MAX_PLAN, PLANS, SEEN, Asked, Plan, Plans, is_telling
from injector.injection.result import RequestFacts
from injector.istio.leaves import Leaf
from injector.kube.pods import WorkloadMeta
from injector.revisions.build import build
from tests.factories import make_container, make_pod
from tests.revisions.fakes import CONFIG, make_raw

FACTS = RequestFacts("shop")
PLAN = Plan((b"[", b",", b"]"), (1, 0), frozenset({"istio-proxy"}), ("sidecar",), ())


def plans(**settings: Any) -> Plans:
    """The plans of a revision of 1.30."""
    return Plans(build(make_raw("rev", settings={"istioVersion": "1.30", **settings})))


def kind(number: int, *texts: str, names: tuple[str, ...] = ()) -> Asked:
    """A pod of a kind of its own."""
    return Asked({}, WorkloadMeta("web", "shop"), (number,), list(texts), frozenset(names))


def test_the_texts_of_the_slots_stand_between_the_pieces() -> None:
    assert PLAN.patch(["web", "shop"]) == b"[shop,web]"


@pytest.mark.parametrize(
    "wanted", [kind(1, "istio-proxy"), kind(1, names=("istio-proxy",)), kind(2)], ids=["slot", "name", "other kind"]
)
def test_a_plan_is_not_for_pods_with_names_of_the_template_nor_of_another_kind(wanted: Asked) -> None:
    known = plans()
    known.keep(known.leaves, (1,), PLAN)

    assert (known.find(kind(1, "web", names=("web",))), known.find(wanted)) == (PLAN, None)


def test_plans_made_with_fewer_leaves_are_found_no_longer() -> None:
    known = plans()
    known.keep(known.leaves, (1,), PLAN)
    known.keep(Leaf(), (2,), PLAN)

    assert (known.find(kind(1)), known.find(kind(2)), len(known)) == (None, PLAN, 1)


def test_only_so_many_plans_are_kept_those_asked_for_last() -> None:
    known = plans()
    for number in range(PLANS):
        known.keep(known.leaves, (number,), PLAN)
    known.find(kind(0))
    known.keep(known.leaves, (PLANS,), PLAN)

    assert (len(known), known.find(kind(0)), known.find(kind(1))) == (PLANS, PLAN, None)


def test_only_so_many_bytes_are_kept_whatever_the_pods_hold() -> None:
    known, size = plans(), MAX_PLAN // 2
    most = MAX_BYTES // size
    for number in range(2 * most):
        known.keep(known.leaves, (number, f"{number:0{size}}"), PLAN)

    assert most // 2 < len(known) < most
    assert known.find(kind(2 * most - 1)) is None  # by its whole key alone


def test_a_plan_that_is_made_anew_takes_the_room_of_the_one_before() -> None:
    known, size = plans(), MAX_PLAN // 2
    known.keep(known.leaves, ("first",), PLAN)
    for number in range(2 * MAX_BYTES // size):
        known.keep(known.leaves, ("same", "x" * size), replace(PLAN, warnings=(str(number),)))

    assert len(known) == 2


@pytest.mark.parametrize(
    ("key", "plan"),
    [(("x" * MAX_PLAN,), PLAN), ((1,), replace(PLAN, pieces=(b"x" * MAX_PLAN,))), (((("x" * MAX_PLAN,),),), PLAN)],
    ids=["key", "patch", "key within"],
)
def test_a_plan_that_is_too_large_is_not_kept_and_takes_nobodys_place(key: tuple[Any, ...], plan: Plan) -> None:
    known = plans()
    known.keep(known.leaves, (0,), PLAN)
    known.keep(Leaf(), key, plan)

    assert (len(known), known.find(kind(0))) == (1, PLAN)


def test_plans_share_what_is_the_same_in_them() -> None:
    known = plans()
    for number in range(2):
        # Made when it is called, so no two are one object.
        pieces = tuple(f"{piece} of the proxy".encode() for piece in ("head", "tail"))
        names = frozenset({f"{'istio'}-{number - number}"})
        known.keep(known.leaves, (number,), Plan((*pieces, b"%d" % number), (0, 0), names, ("sidecar",), ()))
    first, second = known.find(kind(0, "a")), known.find(kind(1, "a"))

    assert first is not None
    assert second is not None
    assert (first.patch(["-"]), second.patch(["-"])) == (
        b"head of the proxy-tail of the proxy-0",
        b"head of the proxy-tail of the proxy-1",
    )
    assert first.pieces[0] is second.pieces[0]
    assert first.reserved is second.reserved


def test_the_second_pod_of_a_kind_is_worth_a_plan_and_no_other() -> None:
    known = plans()

    assert [known.worth(kind(1)) for _ in range(4)] == [False, True, False, False]


def test_kinds_that_come_once_are_forgotten() -> None:
    known = plans()
    known.worth(kind(0))
    for number in range(1, SEEN + 1):
        known.worth(kind(number))

    assert not known.worth(kind(0))


def asked(pod: dict[str, Any], known: Plans | None = None) -> Asked | None:
    return (known or plans()).ask(pod, FACTS)


def test_what_is_not_read_makes_no_difference() -> None:
    one = make_pod("web", containers=[make_container("web", env=[{"name": "A", "value": "1"}])], nodeName="n1")
    two = make_pod("cart", containers=[make_container("cart", image="other")], serviceAccountName="shop")
    known = plans()
    first, second = asked(one, known), asked(two, known)

    assert first is not None
    assert second is not None
    assert (first.key, first.texts, second.texts) == (second.key, ["web", "shop"], ["cart", "shop"])


@pytest.mark.parametrize(
    "pod",
    [
        make_pod(annotations={"sidecar.istio.io/status": "{}"}),
        make_pod(annotations={"proxy.istio.io/overrides": "{}"}),
        make_pod(annotations={"note": "x" * (256 << 10)}),
        make_pod(containers=[make_container("a"), make_container("a")]),
        make_pod(volumes=[{"name": "a"}, {"name": "a"}]),
        make_pod(volumes=[{"emptyDir": {}}]),
        make_pod(hostNetwork=False),
        make_pod(containers=[{"name": 1}]),
        {**make_pod(), "status": {"phase": "Running"}},
        {**make_pod(), "kind": "Deployment"},
        {**make_pod(), "more": 1},
        {"metadata": {}},
        {"metadata": {"labels": []}, "spec": {}},
    ],
)
def test_pods_that_go_would_write_otherwise_or_that_are_odd_have_no_plan(pod: dict[str, Any]) -> None:
    assert asked(pod) is None


@pytest.mark.parametrize(
    ("config", "settings"),
    [
        (CONFIG, {"env": {"PLATFORM": "openshift"}}),
        ("policy: enabled\ntemplate: 'containers: []'\n", {"istioVersion": "1.6"}),
    ],
)
def test_what_a_namespace_changes_and_what_is_appended_has_no_plans(config: str, settings: dict[str, Any]) -> None:
    settings = {"istioVersion": "1.30", **settings}

    assert plans().possible
    assert not Plans(build(make_raw("rev", config=config, settings=settings))).possible


@pytest.mark.parametrize(
    ("annotation", "telling"),
    [("sidecar.istio.io/inject", True), ("prometheus.io.port", True), ("checksum/config", False)],
)
def test_istios_annotations_and_those_of_prometheus_always_count(annotation: str, *, telling: bool) -> None:
    known = plans()
    one, two = (asked(make_pod(annotations={annotation: value}), known) for value in ("a", "b"))

    assert one is not None
    assert two is not None
    assert (is_telling(annotation), one.key != two.key) == (telling, telling)


def test_containers_that_sort_otherwise_make_another_kind() -> None:
    known = plans()
    one = asked(make_pod("x", containers=[make_container("web"), make_container("web-a")]), known)
    two = asked(make_pod("x", containers=[make_container("shop"), make_container("web")]), known)

    assert one is not None
    assert two is not None
    assert one.key != two.key, "in the paths of the agent, web-a/ comes before web/"

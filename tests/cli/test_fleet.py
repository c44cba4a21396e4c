from __future__ import annotations

import pytest

from injector.cli.diff import EXAMPLES, WorkloadChanges, as_summary, groups, groups_data
from injector.injection.tools.podchanges import ABSENT, Change
from injector.kube.pods import Created
from tests.factories import make_pod

IMAGE = Change("image", "containers[istio-proxy].image", "a:1", "a:2")
ADDED = "initContainers[istio-init].securityContext.capabilities.add"


def changed(name: str, *changes: Change) -> WorkloadChanges:
    return WorkloadChanges(Created("Deployment", "shop", name, make_pod()), changes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (IMAGE, ("image",)),
        (Change("security", ADDED, ABSENT, ["NET_ADMIN", "NET_RAW"]), ("NET_ADMIN gained", "NET_RAW gained")),
        (Change("security", ADDED, ["NET_ADMIN"], ["NET_RAW"]), ("NET_RAW gained", "NET_ADMIN lost")),
        (Change("security", "a.securityContext.privileged", False, True), ("privileged gained",)),
        (Change("security", "a.securityContext.privileged", True, ABSENT), ("privileged lost",)),
        (Change("security", "a.securityContext.runAsUser", 1, 2), ("security",)),
        (Change("containers", "initContainers[istio-init]", ABSENT, {}), ("container istio-init gained",)),
        (Change("containers", "initContainers[istio-init]", {}, ABSENT), ("container istio-init lost",)),
        (Change("containers", "istio-proxy", "containers", "initContainers"), ("containers",)),
        (Change("decision", "", "injected", "refused: bad"), ("refused: bad",)),
        (Change("decision", "", "injected", "skipped: off"), ("injected -> skipped: off",)),
    ],
)
def test_a_change_is_called_by_its_kind_or_by_what_a_reviewer_wants_to_know(
    change: Change, words: tuple[str, ...]
) -> None:
    (group,) = groups([changed("a", change)])

    assert group.changes == words


def test_workloads_that_change_alike_are_one_group_and_the_largest_is_first() -> None:
    refused = Change("decision", "", "injected", "refused: bad")
    compared = [
        changed("same"),
        changed("x", refused),
        changed("a", IMAGE),
        changed("b", IMAGE, IMAGE),
        changed("c", IMAGE, Change("security", ADDED, ABSENT, ["NET_ADMIN"])),
        *(changed(f"d{number}", IMAGE) for number in range(EXAMPLES)),
    ]

    assert as_summary(compared, "1-24", "1-30") == (
        "5 image only: Deployment shop/a, Deployment shop/b, Deployment shop/d0 and 2 more\n"
        "1 image, NET_ADMIN gained: Deployment shop/c\n"
        "1 refused: bad: Deployment shop/x\n"
        "\n"
        "7 of 8 workloads differ between 1-24 and 1-30\n"
    )


def test_where_nothing_differs_that_is_one_line() -> None:
    assert as_summary([changed("a")], "x", "y") == "no difference in 1 workload between x and y\n"


def test_the_groups_are_data_with_every_workload() -> None:
    assert groups_data([changed("a", IMAGE), changed("b", IMAGE), changed("c")]) == [
        {
            "changes": ["image"],
            "count": 2,
            "workloads": [
                {"kind": "Deployment", "namespace": "shop", "name": "a"},
                {"kind": "Deployment", "namespace": "shop", "name": "b"},
            ],
        }
    ]

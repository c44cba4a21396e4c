from __future__ import annotations

from typing import Any

import pytest

from injector.cli.diff import WorkloadChanges, as_data, as_text, tally
from injector.injection.tools.podchanges import ABSENT, Change
from injector.kube.pods import Created
from tests.factories import make_container, make_pod


def changed(name: str, *changes: Change) -> WorkloadChanges:
    return WorkloadChanges(Created("Deployment", "shop", name, make_pod()), changes)


IMAGE = Change("image", "containers[istio-proxy].image", "a:1", "a:2")
ENV = Change("env", "containers[istio-proxy].env[A]", ABSENT, "1")
COMPARED = [changed("a", IMAGE, ENV, ENV), changed("b", IMAGE), changed("c")]


def test_workloads_and_changes_are_counted_by_kind() -> None:
    assert tally(COMPARED) == {"image": (2, 2), "env": (1, 2)}


def test_the_text_has_each_workload_that_differs_and_a_table_of_the_kinds() -> None:
    assert as_text(COMPARED, "x", "y") == (
        "Deployment shop/a\n"
        "  image\n"
        "    containers[istio-proxy].image: a:1 -> a:2\n"
        "  env\n"
        "    containers[istio-proxy].env[A]: (none) -> 1\n"
        "    containers[istio-proxy].env[A]: (none) -> 1\n"
        "\n"
        "Deployment shop/b\n"
        "  image\n"
        "    containers[istio-proxy].image: a:1 -> a:2\n"
        "\n"
        "KIND    WORKLOADS   CHANGES\n"
        "image   2           2\n"
        "env     1           2\n"
        "\n"
        "2 of 3 workloads differ between x and y\n"
    )


def test_the_text_of_no_difference_is_one_line() -> None:
    assert as_text([changed("c")], "x", "y") == "no difference in 1 workload between x and y\n"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (Change("decision", "", "injected", "skipped: no"), "injected -> skipped: no"),
        (Change("order", "p", ["a", "b"], ["b", "a"]), "p: a, b -> b, a"),
        (Change("ports", "p", ABSENT, [{"a": 1}]), 'p: (none) -> [{"a": 1}]'),
        (Change("other", "p", True, None), "p: true -> null"),
        (Change("args", "p", "", " a"), 'p: "" -> " a"'),
        (Change("args", "p", "\x1b[31m", "a\nb"), 'p: "\\u001b[31m" -> "a\\nb"'),
        (Change("args", "p", ["\x9b"], "a"), 'p: ["\\u009b"] -> a'),
        (Change("containers", "p", ABSENT, make_container("x")), "p: (none) -> a container of image registry.example.com/x:1.0"),
        (Change("containers", "p", "containers", "initContainers"), "p: containers -> initContainers"),
    ],
)  # fmt: skip
def test_a_change_is_one_line_that_a_terminal_shows_as_it_is(change: Change, line: str) -> None:
    assert as_text([changed("a", change)], "x", "y").splitlines()[2] == f"    {line}"


@pytest.mark.parametrize(
    ("change", "data"),
    [
        (IMAGE, {"kind": "image", "path": IMAGE.path, "old": "a:1", "new": "a:2"}),
        (ENV, {"kind": "env", "path": ENV.path, "new": "1"}),
        (Change("other", "p", None, ABSENT), {"kind": "other", "path": "p", "old": None}),
        (Change("decision", "", "a", "b"), {"kind": "decision", "old": "a", "new": "b"}),
    ],
)
def test_the_data_leaves_out_what_is_not_there(change: Change, data: dict[str, Any]) -> None:
    assert as_data([changed("a", change)]) == {
        "workloads": [{"kind": "Deployment", "namespace": "shop", "name": "a", "changes": [data]}],
        "summary": {change.kind: {"workloads": 1, "changes": 1}},
    }

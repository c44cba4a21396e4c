"""Labels and annotations that the injector does not read as they are meant, as the analyzer reports them."""

from __future__ import annotations

from typing import Any

from tests.cases import cases
from tests.istio.test_analysis import diagnostics

CODES = ("INJ0008", "INJ0009", "INJ0010")


def said(*objects: dict[str, Any]) -> list[str]:
    """The messages about objects, without the names of the objects."""
    messages = [message for message in diagnostics(list(objects)) if message.code in CODES]
    return [f"{message.code} {message.item.kind}: {message.text}" for message in messages]


@cases("labels", "annotations", "expected")
def test_of_a_namespace(labels: dict[str, str], annotations: dict[str, str], expected: list[str]) -> None:
    metadata = {"name": "shop", "labels": labels, "annotations": annotations}

    assert said({"revision": "1-30"}, {"tag": "default"}, {"kind": "Namespace", "metadata": metadata}) == expected


@cases("labels", "annotations", "expected")
def test_of_a_pod_in_a_namespace_without_a_label(
    labels: dict[str, str], annotations: dict[str, str], expected: list[str]
) -> None:
    namespace = {"kind": "Namespace", "metadata": {"name": "shop"}}
    metadata = {"name": "web", "namespace": "shop", "labels": labels, "annotations": annotations}
    pod = {"kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "app"}]}}

    assert said({"revision": "1-30"}, {"tag": "default"}, namespace, pod) == expected


@cases("workload", "expected")
def test_of_a_workload(workload: dict[str, Any], expected: list[str]) -> None:
    namespace = {"kind": "Namespace", "metadata": {"name": "shop", "labels": {"istio-injection": "enabled"}}}
    workload["metadata"] |= {"name": "web", "namespace": "shop"}

    assert said({"tag": "default"}, namespace, workload) == expected

"""Messages about Istio's objects, as istioctl analyze has them."""

from __future__ import annotations

import re
import string
from typing import Any

import pytest

from injector.istio.analysis import (
    LEVELS,
    MESSAGES,
    Diagnostic,
    Item,
    Mesh,
    analyze,
    items_of,
    suppresses,
)
from injector.istio.behaviours import NEWEST, parse_minor
from injector.istio.webhooks.configurations import (
    WebhookOptions,
    deactivate,
    revision_webhook,
    tag_webhook,
    unserved_webhook,
)
from injector.istio.webhooks.reading import istios_webhooks, read_configuration
from injector.kube.objects import mapping_at
from tests.cases import cases
from tests.factories import created_by, make_pod, owner_of

PLAIN = WebhookOptions()
WEBHOOKS = "MutatingWebhookConfiguration"


def diagnostics(objects: list[dict[str, Any]], **mesh: Any) -> list[Diagnostic]:
    """The messages about objects, of which a MutatingWebhookConfiguration can be the short ``{revision: 1-30}`` or ``{tag: prod}``."""
    configurations, items = [], []
    for obj in objects:
        if "revision" in obj:
            configurations.append(revision_webhook(obj["revision"], PLAIN))
        elif "tag" in obj:
            configurations.append(tag_webhook(obj["tag"], "1-30", PLAIN))
        elif obj["kind"] == WEBHOOKS:
            configurations.append(read_configuration(obj))
        else:
            items += items_of({"apiVersion": "v1", **obj}, "" if obj["kind"] == "Namespace" else "default")
    # By default each name that the objects have is served.
    labels = [
        mapping_at(obj, "metadata", "labels")
        for obj in (*objects, *(mapping_at(obj, "spec", "template") for obj in objects))
    ]
    served = {"default", *(label["istio.io/rev"] for label in labels if "istio.io/rev" in label)}
    known = [item for item in items if item is not None]
    return analyze(known, Mesh(configurations, **{"names": frozenset(served), **mesh}))


@cases("objects", "says")
def test_each_message_has_the_level_and_text_of_istios_analyzer(objects: list[dict[str, Any]], says: list[str]) -> None:
    assert [
        f"{diagnostic.level} {diagnostic.line}" for diagnostic in diagnostics(objects) if diagnostic.code != "IST0102"
    ] == says


@cases("objects", "codes")
def test_namespaces_and_pods(objects: list[dict[str, Any]], codes: list[str]) -> None:
    assert [f"{diagnostic.code} {diagnostic.item.names()[0]}" for diagnostic in diagnostics(objects)] == codes


@cases("kind", "annotations", "codes")
def test_annotations(kind: str, annotations: dict[str, str], codes: list[str]) -> None:
    labels = {"istio-injection": "disabled"} if kind == "Namespace" else {}
    obj = {"kind": kind, "metadata": {"name": "a", "labels": labels, "annotations": annotations}}
    more: dict[str, Any] = {"spec": {"template": {"spec": {}}}} if kind == "Deployment" else {"spec": {}}

    assert [diagnostic.code for diagnostic in diagnostics([{**obj, **more}])] == codes


@cases("labels", "names", "says")
def test_a_name_that_nothing_serves_is_reported(labels: dict[str, str], names: list[str], says: str) -> None:
    namespace = {"kind": "Namespace", "metadata": {"name": "shop", "labels": labels}}

    messages = [
        diagnostic for diagnostic in diagnostics([namespace], names=frozenset(names)) if diagnostic.code == "INJ0001"
    ]

    assert [message.line for message in messages] == ([says] if says else [])


def test_in_a_cluster_only_webhooks_serve_a_name() -> None:
    namespace = {"kind": "Namespace", "metadata": {"name": "shop", "labels": {"istio.io/rev": "1-30"}}}

    def codes(*configurations: dict[str, Any]) -> list[str]:
        (item,) = items_of(namespace, "")
        assert item is not None
        return [diagnostic.code for diagnostic in analyze([item], Mesh(configurations, frozenset()))]

    assert codes(revision_webhook("1-30", PLAIN)) == []
    # The label of the tag's configuration names the revision, but its selectors do not.
    assert codes(tag_webhook("prod", "1-30", PLAIN)) == ["INJ0001"]
    assert codes(deactivate(revision_webhook("1-30", PLAIN))) == ["INJ0001"]
    assert codes() == ["INJ0001"]


def test_a_served_name_is_not_unknown() -> None:
    labelled = {"kind": "Namespace", "metadata": {"name": "shop", "labels": {"istio.io/rev": "1-30"}}}
    gateway = {
        "kind": "Deployment",
        "metadata": {"name": "edge", "namespace": "shop"},
        "spec": {"template": {"spec": {"containers": [{"name": "istio-proxy", "image": "auto"}]}}},
    }

    assert diagnostics([labelled, gateway]) == []
    assert [diagnostic.code for diagnostic in diagnostics([gateway])] == ["IST0146"]


def test_the_webhook_for_unknown_names_is_not_taken_for_one_that_injects() -> None:
    both = (revision_webhook("1-30", PLAIN), unserved_webhook("deny", PLAIN))

    assert analyze([], Mesh(both)) == []


def test_a_service_that_does_not_exist_is_reported_for_istios_webhooks() -> None:
    mine = {"kind": WEBHOOKS, "metadata": {"name": "mine"}, "webhooks": [_webhook("x.example.com", "gone")]}
    theirs = {
        "kind": WEBHOOKS,
        "metadata": {"name": "theirs"},
        "webhooks": [_webhook("sidecar-injector.istio.io", "gone")],
    }

    messages = diagnostics([mine, theirs], missing=frozenset({"home/gone"}))

    (message,) = messages
    assert message.line == (
        f"[IST0139] ({WEBHOOKS} theirs) Injector refers to a control plane service that does not exist: home/gone."
    )


def _webhook(name: str, service: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "clientConfig": {"service": {"name": service, "namespace": "home"}}, **fields}


@pytest.mark.parametrize(("oldest", "count"), [("1.20", 1), ("1.21", 1), ("1.22", 0)])
def test_an_upgrade_from_a_release_that_sends_traces_to_zipkin_is_reported(oldest: str, count: int) -> None:
    zipkin = Item("Service", "zipkin", "istio-system")

    messages = analyze([], Mesh(oldest=parse_minor(oldest), zipkin=zipkin))

    assert [message.line[:79] for message in messages] == count * [
        '[IST0169] (Service istio-system/zipkin) The configuration "meshConfig.defaultCo'
    ]
    assert analyze([], Mesh(oldest=parse_minor(oldest))) == []


@cases("pattern", "is_suppressed")
def test_a_pattern_suppresses_a_message(pattern: str, is_suppressed: bool) -> None:
    message = Diagnostic("IST0103", Item("Pod", "web-1", "shop"), "x")

    assert suppresses(pattern, message) == is_suppressed


def test_messages_are_sorted_by_level_code_and_object_and_each_is_there_once() -> None:
    annotations = {"x.istio.io/y": "", "sidecar.istio.io/inject": ""}
    first, pod = ({"kind": "Pod", "metadata": {"name": name, "annotations": annotations}} for name in "ab")

    lines = [f"{diagnostic.code} {diagnostic.item.name}" for diagnostic in diagnostics([pod, first, pod])]

    assert lines == ["IST0108 a", "IST0108 b", "IST0135 a", "IST0135 b"]


def test_a_message_as_data_has_a_link_and_the_place() -> None:
    item = Item("Pod", "web-1", "shop", place="a.yaml:3")

    assert Diagnostic("IST0103", item, "x").data() == {
        "code": "IST0103",
        "documentationUrl": f"https://istio.io/v1.{NEWEST[1]}/docs/reference/config/analysis/ist0103/",
        "level": "Warning",
        "message": "x",
        "origin": "Pod shop/web-1",
        "reference": "a.yaml:3",
    }
    assert "documentationUrl" not in Diagnostic("INJ0001", item, "x").data()


@pytest.mark.parametrize("auto", [True, False])
def test_the_webhooks_say_whether_namespaces_are_injected_by_default(auto: bool) -> None:
    namespace = {"kind": "Namespace", "metadata": {"name": "shop"}}
    webhooks = istios_webhooks({"default": WebhookOptions(auto_inject=auto)})

    assert [diagnostic.code for diagnostic in diagnostics([namespace], webhooks=webhooks)] == (
        ["IST0148"] if auto else ["IST0102"]
    )


def test_the_pods_of_a_workload_speak_for_its_template() -> None:
    annotations = {"status.sidecar.istio.io/port": "x"}
    template = {"metadata": {"annotations": annotations}, "spec": {}}
    deployment = {
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"template": template},
    }
    pod = make_pod(annotations=annotations, labels={"pod-template-hash": "abc"}, namespace="shop", name="web-abc-1")
    pod = created_by(pod, "web-abc")

    def reported(*objects: dict[str, Any]) -> list[str]:
        return [diagnostic.item.kind for diagnostic in diagnostics(list(objects)) if diagnostic.code == "IST0125"]

    assert reported(deployment) == ["Deployment"]
    assert reported(deployment, pod) == ["Pod"]

    # The pods of a rollout that is stuck because of the annotation have the one of the template before.
    pod["metadata"]["annotations"] = {"status.sidecar.istio.io/port": "15020"}
    assert reported(deployment, pod) == ["Deployment"]


def test_a_job_of_a_cron_job_does_not_count() -> None:
    owner = owner_of("etl", "CronJob", "batch/v1")
    job = {"kind": "Job", "metadata": {"name": "etl-1", "ownerReferences": [owner]}, "spec": {"template": {"spec": {}}}}

    assert items_of(job, "shop") == []


def test_the_table_has_one_argument_for_each_percent_sign_and_known_levels() -> None:
    for code, (level, text) in MESSAGES.items():
        assert re.fullmatch(r"(IST|INJ)\d{4}", code)
        assert level in LEVELS
        assert text.replace("%s", "").count("%") == 0
        assert set(text) <= set(string.printable)

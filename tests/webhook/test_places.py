"""The place of a refusal and of a shadow's difference is logged and shown: it has no value of an annotation or variable."""

from __future__ import annotations

import json
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from injector.errors import RecentPodError
from injector.injection.result import RequestFacts
from injector.metrics import Metrics, Stopwatch
from injector.revisions.registry import Registry, snapshot_of
from injector.revisions.verify import RecentPod, verify_recent
from injector.webhook.answer import ReviewAnswer
from injector.webhook.handler import InjectHandler
from injector.webhook.lifecycle import Lifecycle, Phase
from injector.webhook.shadow import Admission, differences_of
from tests.factories import make_container, make_pod, make_review
from tests.revisions.fakes import CONFIG, injected, revision_of

CANARY = "c4n4ry"
POD = make_pod(annotations={"a": CANARY}, containers=[make_container(env=[{"name": "PASSWORD", "value": CANARY}])])
VALUE = '{{ index .ObjectMeta.Annotations "a" }}'


def config_with(spec: str) -> str:
    """A config whose template adds this to the spec, with the value of the annotation for VALUE."""
    text = spec.replace("VALUE", VALUE)
    return f"policy: enabled\ndefaultTemplates: [sidecar]\ntemplates:\n  sidecar: |\n    spec: {text}\n"


def answered(config: str, pod: dict[str, Any] = POD, **raw: Any) -> ReviewAnswer:
    """The answer of a server whose one revision has this config."""
    lifecycle = Lifecycle()
    lifecycle.phase = Phase.SERVING
    registry = Registry(snapshot_of([revision_of(config=config, **raw)], {}))
    handler = InjectHandler(registry, Metrics(CollectorRegistry()), lifecycle)
    return handler.answer("/inject/rev", json.dumps(make_review(pod)).encode(), Stopwatch())


FAULTS = {
    "mount": (
        "{containers: [{name: app, volumeMounts: [{name: x, mountPath: /VALUE}]}]}",
        "spec.containers[app].volumeMounts.name",
    ),
    "variable": (
        "{containers: [{name: app, env: [{name: A=VALUE, value: a}]}]}",
        "spec.containers[app].env.name",
    ),
    "two sources": (
        "{containers: [{name: app, env: [{name: VALUE, value: a, valueFrom: {fieldRef: {fieldPath: a}}}]}]}",
        "spec.containers[app].env.valueFrom",
    ),
    "container": ("{containers: [{name: VALUE}]}", "spec.containers.image"),
    "init container": ("{initContainers: [{name: VALUE}]}", "spec.initContainers.image"),
    "volume": ("{volumes: [{name: VALUE, hostPath: {}}]}", "spec.volumes.hostPath.path"),
    "volume name": ("{volumes: [{name: VALUE_}]}", "spec.volumes.name"),
    "port name": (
        "{containers: [{name: app, ports: [{name: VALUE_, containerPort: 1}]}]}",
        "spec.containers[app].ports.name",
    ),
    "label": ("{}\n    metadata: {labels: { VALUE/a/b: c}}", "metadata.labels"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_the_place_of_an_invalid_pod_has_no_value_of_an_annotation(case: str) -> None:
    spec, place = FAULTS[case]

    answer = answered(config_with(spec))

    assert answer.where == place
    assert answer.reason == "invalid_pod"


def test_the_creator_of_an_invalid_pod_sees_the_whole_place() -> None:
    answer = answered(config_with(FAULTS["mount"][0]))

    assert (
        f"spec.containers[app].volumeMounts[/{CANARY}].name: Not found"
        in json.loads(answer.body)["response"]["status"]["message"]
    )


@pytest.mark.parametrize(
    "lists",
    [
        "containers: [{name: istio-proxy, resources: {limits: { VALUE: {}}}}]",
        "podRedirectAnnot: { VALUE: {a: b}}",
        "dnsConfig: {options: { VALUE: 1}}",
    ],
)
def test_the_place_of_a_list_template_has_no_key_that_an_annotation_made(lists: str) -> None:
    config = "policy: enabled\ntemplate: |\n  " + lists.replace("VALUE", VALUE) + "\n"

    answer = answered(config, minor=6)

    assert answer.where == "revision rev, rendered template"
    assert answer.reason == "overlay"


def test_a_revision_that_fails_on_a_recent_pod_is_refused_without_its_values() -> None:
    review = json.dumps(make_review(POD)).encode()
    bad = revision_of(config=config_with(FAULTS["volume"][0]))

    with pytest.raises(RecentPodError, match=r"InvalidPodError at spec\.volumes\.hostPath\.path") as caught:
        verify_recent(bad, revision_of(), [RecentPod(review, {}, "shop", "Pod hello")])

    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ("{containers: [{name: app, env: [{name: VALUE, value: a}]}]}", "containers[app].env[*]"),
        ("{containers: [{name: app, env: [{name: NEW, value: a}]}]}", "containers[app].env[NEW]"),
        (
            "{containers: [{name: app, volumeMounts: [{name: v, mountPath: /VALUE}]}]}",
            "spec.containers[app].volumeMounts",
        ),
        ("{containers: [{name: VALUE, image: i}]}", "containers[*]"),
        ("{volumes: [{name: VALUE}, {name: w}]}", "spec.volumes[*]"),
        ("{}\n    metadata: {labels: { VALUE: c}}", "metadata.labels.*"),
        ("{}\n    metadata: {annotations: {json: '{\"VALUE\": 1}'}}", "metadata.annotations.json.*"),
        ("{nodeSelector: { VALUE: c}}", "spec.nodeSelector"),
    ],
)
def test_the_path_of_a_shadows_difference_has_no_value_of_an_annotation(spec: str, path: str) -> None:
    base = "{volumes: [{name: v}], nodeSelector: {a: b}, containers: [{name: app, env: [{name: A, value: a}]}]}"
    base += "\n    metadata: {labels: {a: b}, annotations: {json: '{\"b\": 2}'}}"
    served, candidate = revision_of(config=config_with(base)), revision_of(config=config_with(spec))
    admission = Admission("prod", served, candidate, POD, RequestFacts("shop"), injected(served, POD), 1)

    paths = [change.path for change in differences_of(admission)]

    assert CANARY not in str(paths)
    assert any(place.startswith(path) for place in paths), paths


def test_the_config_of_the_other_tests_injects() -> None:
    assert answered(CONFIG).reason == ""

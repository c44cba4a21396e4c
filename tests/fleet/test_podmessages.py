"""The injector's own messages about pods that a revision injects: when each is true, and when it is not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from injector.fleet.podmessages import PodMessages
from injector.istio.analysis import items_of
from injector.istio.behaviours import NEWEST
from injector.istio.mesh import mesh_facts, parse_mesh_config
from injector.istio.revision import Revision, RevisionSettings, build_revision
from injector.library import load_revisions
from tests.cases import cases
from tests.factories import make_pod

TEMPLATES = """\
policy: enabled
templates:
  sidecar: |
    metadata:
      annotations:
        level: "{{ annotation .ObjectMeta `sidecar.istio.io/logLevel` `x` }}"
    spec:
      {{- if .NativeSidecars }}
      initContainers:
      - {name: istio-proxy, image: "{{ .ProxyImage }}", restartPolicy: Always}
      {{- else }}
      containers:
      - {name: istio-proxy, image: "{{ .ProxyImage }}"}
      {{- end }}
  gateway: |
    spec:
      containers:
      - {name: istio-proxy, image: gateway}
  waypoint: |
    apiVersion: apps/v1
    kind: Deployment
    metadata: {annotations: {level: "{{ index .InfrastructureAnnotations `sidecar.istio.io/logLevel` }}"}}
  reader: |
    metadata:
      annotations: {read: "{{ len .ObjectMeta.Annotations }}"}
"""
NATIVE = {"ENABLE_NATIVE_SIDECARS": "true"}


@cache
def revision_named(name: str) -> Revision:
    """The shipped revision ``canary``, or one with the templates above: ``plain``, ``native`` or ``tagged`` twice."""
    if name == "canary":
        return load_revisions("revisions")["canary"]
    values = '{"global": {"hub": "istio", "tag": "%s"}}' % ("1.30:1" if name == "tagged" else "1.30")
    settings = RevisionSettings(istio_version="1.30", env=NATIVE if name == "native" else {})
    return build_revision(name, config=TEMPLATES, values=values, mesh=None, settings=settings, origin="x")


def said(obj: dict[str, Any], revision: Revision, labels: dict[str, str] | None = None) -> list[str]:
    """The codes and sentences about a workload."""
    (item,) = items_of({"apiVersion": "v1", **obj}, "shop")
    assert item is not None
    return [f"{message.code} {message.text}" for message in PodMessages().about(revision, item, labels)]


def workload(kind: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """A workload of a kind whose pods have a spec, with one container if it has none."""
    spec = {"containers": [{"name": "app", "image": "a"}], **spec}
    if kind == "Pod":
        return {"kind": kind, "metadata": {"name": "web", **metadata}, "spec": spec}
    template = {"metadata": metadata, "spec": spec}
    inner = {"jobTemplate": {"spec": {"template": template}}} if kind == "CronJob" else {"template": template}
    return {"kind": kind, "metadata": {"name": "web"}, "spec": inner}


@cases("kind", "revision", "spec", "expected")
def test_a_pod_that_runs_to_completion_needs_a_native_proxy(
    kind: str, revision: str, spec: dict[str, Any], expected: str
) -> None:
    annotations = spec.pop("annotations", {})
    messages = said(workload(kind, spec, annotations=annotations), revision_named(revision))

    assert [message for message in messages if message.startswith("INJ0002")] == ([expected] if expected else [])


@cases("containers", "annotations", "expected")
def test_a_native_sidecar_of_the_user_does_not_ask_an_agent_that_starts_later(
    containers: list[dict[str, Any]], annotations: dict[str, str], expected: list[str]
) -> None:
    pod = workload("Pod", {"initContainers": containers}, annotations=annotations)

    assert [message.partition(" asks")[0] for message in said(pod, revision_named("canary"))] == expected


@cases("spec", "expected")
def test_the_proxys_user_bypasses_the_proxy(spec: dict[str, Any], expected: list[str]) -> None:
    assert said(workload("Deployment", spec), revision_named("canary")) == expected


@cases("spec", "expected")
def test_a_pod_for_windows_gets_no_use_of_a_linux_proxy(spec: dict[str, Any], expected: list[str]) -> None:
    assert [message[:70] for message in said(workload("Pod", spec), revision_named("canary"))] == expected


@cases("annotations", "expected")
def test_an_annotation_that_the_templates_do_not_read_has_no_effect(
    annotations: dict[str, str], expected: list[str]
) -> None:
    assert said(workload("Pod", {}, annotations=annotations), revision_named("plain")) == expected


@cases("annotations", "expected")
def test_an_unknown_field_in_an_annotation_is_named(annotations: dict[str, str], expected: list[str]) -> None:
    assert said(workload("Pod", {}, annotations=annotations), revision_named("canary")) == expected


@cases("selectors", "labels", "expected")
def test_a_namespace_that_istiod_does_not_discover_is_named(
    selectors: list[dict[str, Any]], labels: dict[str, str] | None, expected: str
) -> None:
    text = "discoverySelectors: " + str(selectors)
    mesh = mesh_facts(parse_mesh_config(text, NEWEST))
    messages = said(workload("Pod", {}), replace(revision_named("canary"), mesh=mesh), labels)

    assert messages == ([expected] if expected else [])


@cases("revision", "annotations", "expected")
def test_two_proxies_are_an_error(revision: str, annotations: dict[str, str], expected: list[str]) -> None:
    pod = workload("Pod", {}, annotations=annotations)

    assert [message[:87] for message in said(pod, revision_named(revision))] == expected


def test_an_image_that_the_kubelet_refuses_is_named() -> None:
    expected = (
        'INJ0013 spec.containers[istio-proxy].image is "istio/proxyv2:1.30:1", which the kubelet refuses: it has two tags; '
        "correct the hub, image and tag of the values, or the annotation for the image."
    )

    assert said(workload("Pod", {}), revision_named("tagged")) == [expected]


@cases("labels", "annotations", "expected")
def test_a_value_that_is_not_read_as_it_is_meant_is_named(
    labels: dict[str, str], annotations: dict[str, str], expected: list[str]
) -> None:
    assert said(workload("Pod", {}, labels=labels, annotations=annotations), revision_named("canary")) == expected


def test_pods_that_are_skipped_or_refused_have_no_messages() -> None:
    spec = {"restartPolicy": "Never", "securityContext": {"runAsUser": 1337}}
    canary = revision_named("canary")

    assert [message[:7] for message in said(workload("Pod", spec), canary)] == ["INJ0002", "INJ0004"]
    assert said(workload("Pod", spec, labels={"sidecar.istio.io/inject": "false"}), canary) == []
    assert said(workload("Pod", {**spec, "hostNetwork": True}), canary) == []
    assert said(workload("Pod", spec, annotations={"status.sidecar.istio.io/port": "x"}), canary) == []


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("Pod", {"phase": "Succeeded"}),
        ("Job", {"succeeded": 1}),
        ("Job", {"completionTime": "2026-01-01T00:00:00Z"}),
        ("CronJob", {"lastSuccessfulTime": "2026-01-01T00:00:00Z"}),
    ],
)
def test_a_job_that_has_completed_does_complete(kind: str, status: dict[str, Any]) -> None:
    job = workload(kind, {"restartPolicy": "Never"})

    assert said({**job, "status": status}, revision_named("canary")) == []
    assert [message[:7] for message in said(job, revision_named("canary"))] == ["INJ0002"]


def test_an_injected_pod_is_taken_as_it_is() -> None:
    running = make_pod(
        containers=[{"name": "app", "image": "a"}],
        initContainers=[{"name": "istio-proxy", "image": "p", "restartPolicy": "Always"}],
        annotations={"sidecar.istio.io/status": "{}"},
        restartPolicy="Never",
    )

    assert said(running, revision_named("canary")) == []
    assert said(workload("Pod", {"restartPolicy": "Never"}), revision_named("canary")) != []

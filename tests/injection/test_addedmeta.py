from __future__ import annotations

from typing import Any

import pytest

from injector.injection.tools.uninject import users_annotations, users_labels
from tests.factories import make_container, make_pod

MODE = "sidecar.istio.io/interceptionMode"
PORTS = "traffic.sidecar.istio.io/includeInboundPorts"
RANGES = "traffic.sidecar.istio.io/includeOutboundIPRanges"
EXCLUDED = "traffic.sidecar.istio.io/excludeInboundPorts"
TEMPLATES = "inject.istio.io/templates"
REWRITE = "sidecar.istio.io/rewriteAppHTTPProbers"
STATUS_PORT = "status.sidecar.istio.io/port"
APP = make_container(ports=[{"containerPort": 80}, {"containerPort": 90}])


def annotations_of(annotations: dict[str, str], **known: str) -> dict[str, str]:
    return users_annotations(make_pod(containers=[APP], annotations=annotations), {}, **known)


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({MODE: "REDIRECT", PORTS: "*", RANGES: "*", EXCLUDED: "15020"}, {}),
        ({MODE: "REDIRECT", PORTS: "80,90", EXCLUDED: "15020"}, {}),
        ({MODE: "REDIRECT", PORTS: "80", EXCLUDED: "7,15020"}, {PORTS: "80", EXCLUDED: "7"}),
        ({MODE: "TPROXY", RANGES: "10.0.0.0/8"}, {MODE: "TPROXY", RANGES: "10.0.0.0/8"}),
        ({MODE: "REDIRECT", RANGES: "", PORTS: ""}, {RANGES: "", PORTS: ""}),
        ({MODE: "REDIRECT", EXCLUDED: "123", STATUS_PORT: "123"}, {STATUS_PORT: "123"}),
        ({PORTS: "*", RANGES: "*"}, {PORTS: "*", RANGES: "*"}),
    ],
)
def test_what_the_cni_would_be_told_of_any_pod_is_not_the_users(
    annotations: dict[str, str], expected: dict[str, str]
) -> None:
    assert annotations_of(annotations) == expected


def test_the_agents_port_may_stand_in_the_proxys_arguments() -> None:
    assert annotations_of({MODE: "REDIRECT", EXCLUDED: "7,123"}, agent_port="123") == {EXCLUDED: "7"}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({TEMPLATES: "grpc-agent", REWRITE: "false"}, {TEMPLATES: "grpc-agent"}),
        ({TEMPLATES: "grpc-agent", REWRITE: "true"}, {TEMPLATES: "grpc-agent", REWRITE: "true"}),
        ({TEMPLATES: "sidecar", REWRITE: "false"}, {TEMPLATES: "sidecar", REWRITE: "false"}),
    ],
)
def test_the_templates_of_grpc_turn_rewriting_off_themselves(
    annotations: dict[str, str], expected: dict[str, str]
) -> None:
    assert annotations_of(annotations) == expected


@pytest.mark.parametrize(
    ("labels", "env", "noted", "expected"),
    [
        ({"istio.io/rev": "canary"}, {}, False, {}),
        ({"istio.io/rev": "canary"}, {}, True, {"istio.io/rev": "canary"}),
        ({"topology.istio.io/network": "n"}, {"ISTIO_META_NETWORK": "n"}, True, {}),
        ({"topology.istio.io/network": "n"}, {}, True, {"topology.istio.io/network": "n"}),
        ({"app": "a", "service.istio.io/canonical-name": "a"}, {}, True, {"app": "a"}),
        ({"service.istio.io/canonical-name": "mine"}, {}, True, {"service.istio.io/canonical-name": "mine"}),
    ],
)
def test_labels_of_the_value_that_injection_writes_are_not_the_users(
    labels: dict[str, str], env: dict[str, str], noted: bool, expected: dict[str, str]
) -> None:
    pod: dict[str, Any] = make_pod(labels=labels)

    assert users_labels(pod, "shop", env, revision_noted=noted) == expected


def test_the_template_of_gateways_still_writes_the_revision_as_a_label() -> None:
    pod = make_pod(labels={"istio.io/rev": "default"}, annotations={TEMPLATES: "gateway"})

    assert users_labels(pod, "shop", {}, revision_noted=True) == {}

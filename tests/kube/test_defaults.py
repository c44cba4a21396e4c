from __future__ import annotations

from typing import Any

import pytest

from injector.kube.defaults import defaulted_container, defaulted_volume

# What a kube-apiserver 1.35 returned for such a container.
ALWAYS = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
}
PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def with_defaults(**fields: Any) -> dict[str, Any]:
    """What the defaults make of a container, without those that every one gets."""
    made = defaulted_container({"name": "a", "image": "a:1", **fields})
    assert {key: made[key] for key in ALWAYS} == ALWAYS
    return {key: value for key, value in made.items() if key not in {*ALWAYS, "name", "image"}}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, {}),
        ({"resources": {}}, {}),
        ({"ports": [{"containerPort": 1}]}, {"ports": [{"containerPort": 1, "protocol": "TCP"}]}),
        ({"ports": [{"containerPort": 1, "protocol": "UDP"}]}, {"ports": [{"containerPort": 1, "protocol": "UDP"}]}),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}, {"name": "B", "value": "b"}]},
            {
                "env": [
                    {"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "x"}}},
                    {"name": "B", "value": "b"},
                ]
            },
        ),
        (
            {"livenessProbe": {"httpGet": {"port": 1}, "periodSeconds": 3}},
            {"livenessProbe": {**PROBE, "httpGet": {"path": "/", "scheme": "HTTP", "port": 1}, "periodSeconds": 3}},
        ),
        ({"startupProbe": {"grpc": {"port": 1}}}, {"startupProbe": {**PROBE, "grpc": {"service": "", "port": 1}}}),
        (
            {"lifecycle": {"preStop": {"httpGet": {"port": 1, "path": "/x"}}}},
            {"lifecycle": {"preStop": {"httpGet": {"path": "/x", "scheme": "HTTP", "port": 1}}}},
        ),
        (
            {"resources": {"limits": {"cpu": "2000m", "memory": "1Gi"}, "requests": {"cpu": "1"}}},
            {"resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}},
        ),
    ],
)
def test_a_container_is_as_the_api_server_keeps_it(given: dict[str, Any], kept: dict[str, Any]) -> None:
    assert with_defaults(**given) == kept


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("a", "Always"),
        ("a:latest", "Always"),
        ("host:5000/a", "Always"),
        ("host:5000/a:1", "IfNotPresent"),
        ("a@sha256:00", "IfNotPresent"),
    ],
)
def test_an_image_whose_tag_may_move_is_always_pulled(image: str, policy: str) -> None:
    assert defaulted_container({"name": "a", "image": image})["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, {"emptyDir": {}}),
        ({"emptyDir": {"medium": "Memory"}}, {"emptyDir": {"medium": "Memory"}}),
        ({"secret": {"secretName": "x"}}, {"secret": {"secretName": "x", "defaultMode": 420}}),
        ({"configMap": {"name": "x", "defaultMode": 256}}, {"configMap": {"name": "x", "defaultMode": 256}}),
        ({"hostPath": {"path": "/x"}}, {"hostPath": {"path": "/x", "type": ""}}),
        (
            {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "x"}}]}},
            {
                "downwardAPI": {
                    "defaultMode": 420,
                    "items": [{"path": "l", "fieldRef": {"apiVersion": "v1", "fieldPath": "x"}}],
                }
            },
        ),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"configMap": {"name": "c"}}]}},
            {
                "projected": {
                    "defaultMode": 420,
                    "sources": [
                        {"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}},
                        {"configMap": {"name": "c"}},
                    ],
                }
            },
        ),
    ],
)
def test_a_volume_is_as_the_api_server_keeps_it(given: dict[str, Any], kept: dict[str, Any]) -> None:
    assert defaulted_volume({"name": "v", **given}) == {"name": "v", **kept}

"""What ``otelResourceAttributes`` gives (pkg/kube/inject/template.go, 1.30.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from injector.gotemplate.values import Pointer
from injector.istio.goview import view
from injector.istio.mesh import parse_mesh_config
from injector.istio.otel import otel_resource_attributes
from tests.factories import make_container

if TYPE_CHECKING:
    from injector.istio.goview import GoStruct
    from injector.istio.proto import Message

PREFIX = "resource.opentelemetry.io/service."


def _mesh(enrichment: str = "OTEL_SEMANTIC_CONVENTIONS") -> Message:
    otel = f"{{service: s, port: 4317, serviceAttributeEnrichment: {enrichment}}}"
    return parse_mesh_config(f"extensionProviders: [{{name: otel, opentelemetry: {otel}}}]", (1, 30))


def _containers(*images: str) -> list[GoStruct]:
    named = enumerate(images)
    return [view("v1.Container", make_container(f"c{index}", image=image)) for index, image in named]


def test_the_namespace_the_version_and_the_instance_are_named() -> None:
    found = otel_resource_attributes(_mesh(), {}, {}, "ns", _containers("app:1.0"))
    assert found == "service.namespace=ns,service.version=1.0,service.instance.id=ns.$(POD_NAME).c0"


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "extensionProviders: [{name: otel, opentelemetry: {service: s, port: 1}}]",
        "extensionProviders: [{name: otel, opentelemetry: {serviceAttributeEnrichment: ISTIO_CANONICAL}}]",
        "extensionProviders: [{name: z, zipkin: {service: s, port: 1}}]",
    ],
)
def test_nothing_is_given_unless_a_provider_asks(text: str) -> None:
    mesh = parse_mesh_config(text, (1, 30))
    assert otel_resource_attributes(mesh, {}, {}, "ns", _containers("app:1.0")) == ""


def test_a_pointer_to_the_mesh_is_followed_and_nil_asks_for_nothing() -> None:
    pointer = Pointer("*v1alpha1.MeshConfig", _mesh())
    assert otel_resource_attributes(pointer, {}, {}, "ns", []) == "service.namespace=ns"
    assert otel_resource_attributes(Pointer("*v1alpha1.MeshConfig"), {}, {}, "ns", []) == ""


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("nginx:1.21", "1.21"),
        ("nginx@sha256:abc", "sha256:abc"),
        ("nginx:1.21@sha256:abc", "1.21@sha256:abc"),
        ("registry:5000/nginx:1.21", "1.21"),
        ("registry:5000/nginx@sha256:abc", "sha256:abc"),
        ("registry:5000/nginx", None),
        ("nginx", None),
        ("", None),
    ],
)
def test_the_version_of_one_container_is_its_images_tag_and_digest(image: str, expected: str | None) -> None:
    found = otel_resource_attributes(_mesh(), {}, {}, "", _containers(image))
    version = [] if expected is None else [f"service.version={expected}"]
    assert found.split(",") == [*version, "service.instance.id=.$(POD_NAME).c0"]


def test_two_containers_have_no_version_and_the_first_names_the_instance() -> None:
    found = otel_resource_attributes(_mesh(), {}, {}, "ns", _containers("a:1", "b:2"))
    assert found == "service.namespace=ns,service.instance.id=ns.$(POD_NAME).c0"


@pytest.mark.parametrize(
    ("annotations", "labels", "expected"),
    [
        ({}, {"app.kubernetes.io/version": "l"}, "l"),
        ({PREFIX + "version": "a"}, {"app.kubernetes.io/version": "l"}, "a"),
        ({PREFIX + "version": ""}, {"app.kubernetes.io/version": "l"}, "l"),
        ({PREFIX + "version": ""}, {"app.kubernetes.io/version": ""}, "1.0"),
        ({}, {"version": "l"}, "1.0"),
    ],
)
def test_an_annotation_wins_over_a_label_over_the_image(
    annotations: dict[str, str], labels: dict[str, str], expected: str
) -> None:
    found = otel_resource_attributes(_mesh(), annotations, labels, "ns", _containers("app:1.0"))
    assert f",service.version={expected}," in found


def test_annotations_name_the_namespace_and_the_instance() -> None:
    annotations = {PREFIX + "namespace": "other", PREFIX + "instance.id": "me"}
    found = otel_resource_attributes(_mesh(), annotations, {}, "ns", _containers("app:1.0"))
    assert found == "service.namespace=other,service.version=1.0,service.instance.id=me"

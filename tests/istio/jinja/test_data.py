"""The data of a Jinja template."""

from __future__ import annotations

from typing import Any

import pytest

from injector.errors import AnnotationError
from injector.istio.behaviours import NEWEST
from injector.istio.jinja.engine import jinja_data, named_entries, pod_ports, resources
from tests.cases import cases
from tests.factories import make_container, make_pod, make_template_data

USER_VOLUME = "sidecar.istio.io/userVolume"


def _data(pod: dict[str, Any], mesh: str | None = None) -> dict[str, Any]:
    return jinja_data(make_template_data(pod, mesh=mesh), NEWEST)


def test_a_template_sees_plain_values_by_their_names() -> None:
    result = _data(make_pod())
    expected = {
        "revision": "canary",
        "native_sidecars": True,
        "proxy_image": "h/proxyv2:t",
        "proxy_uid": 1337,
        "proxy_gid": 1338,
        "values": {"global": {"hub": "h"}},
        "istio_minor": 31,
        "inbound_traffic_policy_mode": "passthrough",
        "compliance_policy": "fips-140-2",
        "workload": {"name": "cart", "namespace": "shop", "kind": "Deployment", "api_version": "apps/v1"},
    }
    assert {key: result[key] for key in expected} == expected


def test_the_pod_is_seen_as_kubernetes_json() -> None:
    pod = make_pod(labels={"app": "a"}, annotations={"x": "y"})
    result = _data(pod)
    assert result["pod"] == {"metadata": pod["metadata"], "spec": pod["spec"]}
    assert (result["labels"], result["annotations"]) == ({"app": "a"}, {"x": "y"})
    assert result["containers"] == [make_container()]


def test_a_pod_without_labels_annotations_or_containers_has_empty_ones() -> None:
    result = _data({"metadata": {}, "spec": {}})
    assert (result["labels"], result["annotations"], result["containers"]) == ({}, {}, [])
    assert result["pod_ports"]() == "[\n]"


@pytest.mark.parametrize(("name", "default", "expected"), [("x", "d", "y"), ("z", "d", "d"), ("empty", "d", "")])
def test_an_annotation_or_a_label_is_read_with_a_default_for_an_absent_one(
    name: str, default: str, expected: str
) -> None:
    entries = {"x": "y", "empty": ""}
    result = _data(make_pod(annotations=entries, labels=entries))
    assert result["annotation"](name, default) == expected
    assert result["label"](name, default) == expected
    assert result["annotation"]("nothing") == ""


def test_the_mesh_is_json_and_the_proxys_environment_has_no_defaults() -> None:
    result = _data(make_pod(), "{trustDomain: td, defaultConfig: {concurrency: 3}}")
    assert result["mesh"]["trustDomain"] == "td"
    assert result["mesh"]["outboundTrafficPolicy"] == {"mode": "ALLOW_ANY"}
    assert result["proxy_config"]["drainDuration"] == "45s"
    assert result["proxy_config_json"] == '{"concurrency":3}'


def test_helpers_make_the_lists_of_a_pod() -> None:
    result = _data(make_pod())
    assert result["references"](["a", "b"]) == [{"name": "a"}, {"name": "b"}]
    assert result["env_entries"]({"B": "2", "A": "1"}) == [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    assert result["named_entries"](USER_VOLUME) == []
    assert result["resources"]({"limits": {}}) == {"limits": {}}


@cases("containers", "expected")
def test_pod_ports_are_written_as_istios_template_does(containers: list[dict[str, Any]], expected: str) -> None:
    assert pod_ports(containers) == expected


@cases("annotations", "expected")
def test_one_resource_in_an_annotation_replaces_all_of_the_defaults(
    annotations: dict[str, str], expected: dict[str, Any]
) -> None:
    assert resources(annotations, {"requests": {"cpu": "10m"}}) == expected


def test_default_resources_are_a_copy() -> None:
    default = {"requests": {"cpu": "10m"}}
    resources({}, default)["limits"] = {}
    assert default == {"requests": {"cpu": "10m"}}


@cases("text", "expected")
def test_named_entries_have_their_key_or_index_as_name_unless_they_have_one(
    text: str, expected: list[dict[str, Any]]
) -> None:
    assert named_entries({USER_VOLUME: text}, USER_VOLUME) == expected


@pytest.mark.parametrize("text", ["", "{", '""', "0", "[1]", "[null]", '{"a": 1}', '{"a": null}', '{"a": []}'])
def test_entries_that_are_not_objects_are_refused_by_name(text: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        named_entries({USER_VOLUME: text}, USER_VOLUME)
    assert caught.value.where == f"metadata.annotations[{USER_VOLUME}]"
    assert caught.value.hint == "make it a JSON object of names and specs, or a list of specs with names"

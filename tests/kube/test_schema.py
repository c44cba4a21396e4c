from __future__ import annotations

import pytest

from injector.kube.typed import OPAQUE, is_struct, kind_type, struct_type, underlying


def test_a_struct_has_its_fields_in_gos_order_and_spelling() -> None:
    fields = struct_type("v1.Container").fields[:6]

    assert [(field.go, field.json, field.type) for field in fields] == [
        ("Name", "name", "string"),
        ("Image", "image", "string"),
        ("Command", "command", "[]string"),
        ("Args", "args", "[]string"),
        ("WorkingDir", "workingDir", "string"),
        ("Ports", "ports", "[]v1.ContainerPort"),
    ]


def test_tags_say_how_lists_merge() -> None:
    spec = struct_type("v1.PodSpec").by_json

    assert (spec["containers"].strategy, spec["containers"].merge_key) == ("merge", "name")
    assert (spec["volumes"].strategy, spec["volumes"].merge_key) == ("merge", "name")
    assert (spec["tolerations"].strategy, spec["tolerations"].merge_key) == ("", "")
    assert struct_type("v1.Container").by_json["ports"].merge_key == "containerPort"


def test_fields_of_inline_structs_stand_in_the_outer_object() -> None:
    volume = struct_type("v1.Volume")

    assert volume.by_go["VolumeSource"].inline
    assert volume.by_json["emptyDir"].type == "*v1.EmptyDirVolumeSource"
    assert "" not in volume.by_json


def test_keys_are_found_in_any_case_as_encoding_json_finds_them() -> None:
    container = struct_type("v1.Container")

    assert container.json_field("IMAGE") is container.by_json["image"]
    assert container.json_field("imag") is None


def test_promoted_fields_are_reached_through_what_is_embedded() -> None:
    pod = struct_type("v1.Pod")

    assert [field.go for field in pod.go_path("Spec")] == ["Spec"]
    assert [field.go for field in pod.go_path("Labels")] == ["ObjectMeta", "Labels"]
    assert pod.go_path("Nope") == ()


def test_defined_types_are_made_of_something() -> None:
    assert underlying("v1.DNSPolicy") == "string"
    assert underlying("v1.ResourceList") == "map[v1.ResourceName]resource.Quantity"
    assert underlying("v1.Pod") == "v1.Pod"


def test_only_structs_are_known() -> None:
    assert is_struct("v1.Pod")
    assert not is_struct("v1.DNSPolicy")
    with pytest.raises(KeyError):
        struct_type("v1.Nope")


def test_every_type_that_a_workload_reaches_is_known() -> None:
    known = {*OPAQUE, "string", "bool", "int32", "int64"}
    seen: set[str] = set()
    waiting = ["v1.Pod", "v1.CronJob", "v1.StatefulSet", "openshiftv1.DeploymentConfig", "v1.List", "v1.Namespace"]
    while waiting:
        name = waiting.pop()
        base = underlying(name.lstrip("*[]"))
        if base in seen:
            continue
        seen.add(base)
        if base.startswith("map["):
            waiting.extend(base.removeprefix("map[").split("]", 1))
        elif base.startswith("[]"):
            waiting.append(base)
        elif base not in known:
            waiting.extend(field.type for field in struct_type(base).fields)

    assert len(seen) > 180


def test_kinds_without_pods_have_no_type() -> None:
    assert kind_type("ConfigMap") is None

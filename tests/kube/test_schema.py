"""The parts of the table of types that the recorded cases of typed values and merges do not use."""

from __future__ import annotations

import pytest

from injector.kube.typed import OPAQUE, is_struct, kind_type, struct_type, underlying


def test_promoted_fields_are_reached_through_what_is_embedded() -> None:
    pod = struct_type("v1.Pod")

    assert [field.go for field in pod.go_path("Spec")] == ["Spec"]
    assert [field.go for field in pod.go_path("Labels")] == ["ObjectMeta", "Labels"]
    assert pod.go_path("Nope") == ()


def test_only_structs_are_known() -> None:
    assert is_struct("v1.Pod")
    assert not is_struct("v1.DNSPolicy")
    with pytest.raises(KeyError):
        struct_type("v1.Nope")


def test_every_type_that_a_workload_reaches_is_known() -> None:
    known = {*OPAQUE, "string", "bool", "int32", "int64"}
    reached: set[str] = set()
    waiting = ["v1.Pod", "v1.CronJob", "v1.StatefulSet", "openshiftv1.DeploymentConfig", "v1.List", "v1.Namespace"]
    while waiting:
        name = waiting.pop()
        base = underlying(name.lstrip("*[]"))
        if base in reached:
            continue
        reached.add(base)
        if base.startswith("map["):
            waiting.extend(base.removeprefix("map[").split("]", 1))
        elif base.startswith("[]"):
            waiting.append(base)
        elif base not in known:
            waiting.extend(field.type for field in struct_type(base).fields)

    assert len(reached) > 180


def test_kinds_without_pods_have_no_type() -> None:
    assert kind_type("ConfigMap") is None

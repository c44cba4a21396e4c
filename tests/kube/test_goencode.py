"""Whole objects are held against Go in test_typed."""

from __future__ import annotations

from injector.kube.goencode import go_encode, go_struct_json, zero_of


def test_gos_own_zero_values_appear_where_it_prints_them() -> None:
    assert go_encode({}, "v1.Deployment") == {
        "metadata": {},
        "spec": {"selector": None, "template": {"metadata": {}, "spec": {"containers": None}}, "strategy": {}},
        "status": {},
    }


def test_old_libraries_print_the_creation_timestamp_too() -> None:
    assert go_encode({}, "v1.Namespace", creation_timestamp=True)["metadata"] == {"creationTimestamp": None}


def test_fields_stand_in_gos_order_map_keys_sorted_and_unknown_ones_last() -> None:
    container = {"x": {"b": 1, "a": 2}, "resources": {"limits": {"memory": "1", "cpu": "2"}}, "name": "n"}

    assert go_struct_json(container, "v1.Container") == (
        '{"name":"n","resources":{"limits":{"cpu":"2","memory":"1"}},"x":{"b":1,"a":2}}'
    )


def test_fields_of_inline_structs_stand_in_their_place() -> None:
    probe = {"periodSeconds": 1, "httpGet": {"port": 80, "path": "/<"}}

    assert go_struct_json(probe, "v1.Probe") == '{"httpGet":{"path":"/\\u003c","port":80},"periodSeconds":1}'


def test_a_type_has_a_zero_value() -> None:
    assert [zero_of(name) for name in ("v1.Pod", "v1.DNSPolicy", "*int64", "[]string", "resource.Quantity")] == [
        {},
        "",
        None,
        None,
        "0",
    ]

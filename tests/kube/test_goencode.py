"""Whole objects are held against Go in test_typed."""

from __future__ import annotations

import gc
import weakref
from itertools import permutations

from injector.kube.goencode import KEYS, go_encode, go_struct_json, zero_of


class Key(str):
    """A key that tells whether anybody still has it."""

    __slots__ = ("__weakref__",)


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


def left(objects: list[dict[Key, str]]) -> int:
    """How many keys are still held once these objects are encoded and gone."""
    keys = [weakref.ref(key) for each in objects for key in each]
    while objects:
        go_encode(objects.pop(), "v1.Toleration")
    gc.collect()
    return sum(key() is not None for key in keys)


def test_keys_that_go_does_not_know_are_not_remembered() -> None:
    assert left([{Key("name" * 9): "n", Key("operator"): "Exists"}]) == 0


def test_of_those_that_it_knows_so_many_sets_are() -> None:
    # Others may be in their places; an order of its own makes a set of its own.
    fields = ("key", "operator", "value", "effect", "tolerationSeconds")
    orders = [dict.fromkeys(map(Key, order), "") for order in permutations(fields)]
    more = [dict.fromkeys(map(Key, order), "") for size in (3, 4) for order in permutations(fields, size)]
    each = [*orders, *more, *(dict.fromkeys(map(Key, order), "") for order in permutations(fields, 2))]
    assert len(each) > KEYS

    assert 0 < left(each) <= KEYS * len(fields)


def test_a_type_has_a_zero_value() -> None:
    assert [zero_of(name) for name in ("v1.Pod", "v1.DNSPolicy", "*int64", "[]string", "resource.Quantity")] == [
        {},
        "",
        None,
        None,
        "0",
    ]

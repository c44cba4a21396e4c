from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from injector.istio.multus import AppendNetwork

if TYPE_CHECKING:
    from injector.istio.minor import Minor


@pytest.mark.parametrize(
    ("minor", "existing", "expected"),
    [
        ((1, 30), "", "default/istio-cni"),
        ((1, 30), "a, b", "a, b, default/istio-cni"),
        ((1, 30), "a, default/istio-cni", "a, default/istio-cni"),
        ((1, 8), "a, default/istio-cni", "a, default/istio-cni, default/istio-cni"),
        ((1, 30), '[{"name": "a"}]', '[{"name": "a"}, {"name": "istio-cni", "namespace": "default"}]'),
        ((1, 22), '[{"name": "a"}]', '[{"name": "a"}, {"name": "default/istio-cni"}]'),
        ((1, 30), '[{"name": "istio-cni"}]', '[{"name": "istio-cni"}, {"name": "istio-cni", "namespace": "default"}]'),
        ((1, 30), '[{"name":"istio-cni","namespace":"default"}]', '[{"name":"istio-cni","namespace":"default"}]'),
        ((1, 30), '[{"name": ]', '[{"name": ]'),
        ((1, 30), "[1]", "[1]"),
        ((1, 8), "[1]", '[1, {"name": "default/istio-cni"}]'),
    ],
)
def test_the_network_of_istios_cni_is_added_as_the_minor_does(minor: Minor, existing: str, expected: str) -> None:
    assert AppendNetwork.of(minor)(existing, "default/istio-cni") == expected


def test_a_network_without_namespace_is_found_by_its_name() -> None:
    assert AppendNetwork.of((1, 30))('[{"name": "istio-cni"}]', "istio-cni") == '[{"name": "istio-cni"}]'

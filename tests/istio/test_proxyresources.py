"""ProxyConfig resources: how they are read, and which apply to a pod. What Istio makes of them is in tests/differential."""

from __future__ import annotations

from typing import Any

import pytest

from injector.errors import ConfigError
from injector.istio.behaviours import behaviours_of
from injector.istio.proxyconfig import Applying, ProxyConfigResource, ProxyConfigs, read_proxy_config_resource
from tests.cases import cases

NOW = behaviours_of((1, 31))
ROOT = "istio-system"


def resource(name: str, namespace: str = "shop", *, at: str = "", **spec: Any) -> ProxyConfigResource:
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": at or None}
    return read_proxy_config_resource({"metadata": metadata, "spec": spec})


def names(applying: Applying) -> tuple[list[str], list[str]]:
    return list(map(str, applying.below)), list(map(str, applying.above))


def test_only_the_fields_that_istio_uses_are_remembered() -> None:
    proxy_config_resource = resource(
        "a", concurrency=0, environmentVariables={"A": "b"}, image={"imageType": "debug"}, other=1
    )

    assert proxy_config_resource.proxy_config(NOW) == {
        "concurrency": 0,
        "proxyMetadata": {"A": "b"},
        "image": {"imageType": "debug"},
    }
    assert proxy_config_resource.proxy_config(behaviours_of((1, 13))) == {"concurrency": 0, "proxyMetadata": {"A": "b"}}


def test_what_is_returned_is_a_copy() -> None:
    proxy_config_resource = resource("a", environmentVariables={"A": "b"})
    proxy_config_resource.proxy_config(NOW)["proxyMetadata"]["A"] = "changed"

    assert proxy_config_resource.proxy_config(NOW) == {"proxyMetadata": {"A": "b"}}


@cases("item", "error")
def test_a_resource_that_is_not_valid_is_named_with_its_field(item: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_proxy_config_resource(item, where="file")

    assert str(caught.value).startswith(error)
    assert caught.value.hint


@cases("spec", "fault")
def test_faults_are_those_of_istios_validating_webhook(spec: dict[str, Any], fault: str) -> None:
    assert resource("a", **spec).fault() == fault


def test_the_root_namespace_is_below_the_pods_own_and_a_selector_is_above() -> None:
    by_labels = resource("w", selector={"matchLabels": {"app": "a"}})
    configs = ProxyConfigs.of([by_labels, resource("n"), resource("r", ROOT), resource("o", "other")])

    assert names(configs.applying(ROOT, "shop", {"app": "a", "x": "y"}, NOW)) == (
        ["istio-system/r", "shop/n"],
        ["shop/w"],
    )
    assert names(configs.applying(ROOT, ROOT, {"app": "a"}, NOW)) == (["istio-system/r"], [])
    assert names(configs.applying("", "shop", {}, NOW)) == (["shop/n"], [])


def test_before_1_13_no_resource_applies() -> None:
    configs = ProxyConfigs.of([resource("n"), resource("r", ROOT)])

    assert configs.applying(ROOT, "shop", {}, behaviours_of((1, 12))) == Applying()


def test_the_oldest_of_a_namespace_applies_and_then_the_first_by_name() -> None:
    first, second = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    configs = ProxyConfigs.of([resource("a", at=second), resource("b-c", at=first), resource("b", at=first)])

    assert names(configs.applying(ROOT, "shop", {}, NOW))[0] == ["shop/b"]
    assert names(configs.applying(ROOT, "shop", {}, behaviours_of((1, 22))))[0] == ["shop/b-c"]


def test_of_two_collections_the_upper_one_replaces_resources_by_name() -> None:
    upper, lower = ProxyConfigs.of([resource("a", concurrency=1)]), ProxyConfigs.of([resource("a"), resource("b", "x")])

    both = upper.merge_over(lower)

    assert both == ProxyConfigs.of([resource("a", concurrency=1), resource("b", "x")])
    assert ProxyConfigs().merge_over(lower) is lower

"""What breaks between two minors of Istio."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from injector.istio.behaviours import NEWEST, OLDEST, Minor
from injector.istio.minorchanges import (
    DEFAULTS,
    REMOVED,
    RULES,
    breaks_of,
    changed_defaults,
    harmless_change,
    kubernetes_breaks,
    proxy_version_breaks,
    removed_variables,
    rules_between,
    skew_breaks,
)
from tests.cases import cases, read_cases


def rules_of(source: Minor, target: Minor, obj: dict[str, Any]) -> dict[str, str]:
    named = {"metadata": {}, **obj}
    named["metadata"] = {"namespace": "shop", "name": "x", **named["metadata"]}
    return {item.rule: str(item) for item in breaks_of(rules_between(source, target), obj["kind"], named)}


@cases("minor", "rule", "says", "obj")
def test_what_breaks_is_found_with_its_release_note(minor: Minor, rule: str, says: str, obj: dict[str, Any]) -> None:
    before = (minor[0], minor[1] - 1)

    rules = rules_of(before, minor, obj)
    assert set(rules) == {rule}
    assert rules[rule].startswith(f"{obj['kind']} shop/x: ")
    assert says.replace('"', "") in rules[rule]
    assert f"[Istio 1.{minor[1]}, releasenotes/notes/" in rules[rule]
    assert rule in rules_of(OLDEST, NEWEST, obj)
    assert rules_of((1, minor[1] - 2), before, obj).get(rule) is None
    assert rules_of(minor, minor, obj) == {}


@cases("obj")
def test_what_is_right_breaks_in_no_minor(obj: dict[str, Any]) -> None:
    assert rules_of(OLDEST, NEWEST, obj) == {}


def test_each_rule_has_a_case() -> None:
    rows = read_cases(Path(__file__).with_suffix(".yaml"))["what_breaks_is_found_with_its_release_note"]

    assert {rule.name for rule in RULES} == {rule for _, rule, _, _ in rows}


def envoy_filter(name: str, *patches: tuple[str, str, str], place: str = "shop") -> dict[str, Any]:
    """An EnvoyFilter whose patches are a version, the name of the filter to add, and the one that it is placed before."""
    built = [
        {
            "applyTo": "HTTP_FILTER",
            "match": {
                "proxy": {"proxyVersion": version} if version else {},
                "listener": {"filterChain": {"filter": {"subFilter": {"name": before}}}},
            },
            "patch": {"operation": "INSERT_BEFORE", "value": {"name": added, "typed_config": {}}},
        }
        for version, added, before in patches
    ]
    return {"kind": "EnvoyFilter", "metadata": {"name": name, "namespace": place}, "spec": {"configPatches": built}}


ROOT = "istio-system"
ROUTER = "envoy.filters.http.router"
OLD_ONLY = (r"^1\.28.*", "tap", ROUTER)


@pytest.mark.parametrize(
    ("filters", "subjects"),
    [
        ([envoy_filter("old", OLD_ONLY)], ["EnvoyFilter shop/old"]),
        ([envoy_filter("exact", (r"1\.28\.3", "tap", ROUTER))], ["EnvoyFilter shop/exact"]),
        ([envoy_filter("both", OLD_ONLY, (r"^1\.30.*", "tap", ROUTER))], []),
        ([envoy_filter("old", OLD_ONLY), envoy_filter("new", (r"^1\.(29|30)", "tap", ROUTER))], []),
        (
            [envoy_filter("old", OLD_ONLY), envoy_filter("new", (r"^1\.30", "tap", ROUTER), place="pay")],
            ["EnvoyFilter shop/old"],
        ),
        ([envoy_filter("any", ("", "tap", ROUTER)), envoy_filter("older", (r"^1\.27", "tap", ROUTER))], []),
        ([envoy_filter("not-a-pattern", ("1.28(", "tap", ROUTER))], []),
        (
            [envoy_filter("old", OLD_ONLY), envoy_filter("relative", ("", "log", "tap"))],
            ["EnvoyFilter shop/old", "EnvoyFilter shop/relative"],
        ),
        ([envoy_filter("any", ("", "tap", ROUTER)), envoy_filter("relative", ("", "log", "tap"))], []),
        (
            [envoy_filter("old", OLD_ONLY, place=ROOT), envoy_filter("relative", ("", "log", "tap"))],
            [f"EnvoyFilter {ROOT}/old", "EnvoyFilter shop/relative"],
        ),
        (
            [
                envoy_filter("old", OLD_ONLY, place=ROOT),
                envoy_filter("any", ("", "tap", ROUTER)),
                envoy_filter("relative", ("", "log", "tap")),
            ],
            [f"EnvoyFilter {ROOT}/old"],
        ),
        (
            [envoy_filter("old", OLD_ONLY, place="pay"), envoy_filter("relative", ("", "log", "tap"))],
            ["EnvoyFilter pay/old"],
        ),
    ],
)
def test_patches_for_the_proxies_of_one_version_only(filters: list[dict[str, Any]], subjects: list[str]) -> None:
    assert [item.subject for item in proxy_version_breaks(filters, "1.28.3", "1.30.1", ROOT)] == subjects


@pytest.mark.parametrize(
    ("cluster", "count"),
    [({"service": "web", "portNumber": 80}, 0), ({"service": "db"}, 1), ({"service": "web", "portNumber": 81}, 1)],
)
def test_a_patch_of_another_cluster_replaces_none_for_old_proxies(cluster: dict[str, Any], count: int) -> None:
    def cluster_patch(cluster: dict[str, Any], proxy: dict[str, str]) -> dict[str, Any]:
        return {
            "applyTo": "CLUSTER",
            "match": {"context": "SIDECAR_OUTBOUND", "proxy": proxy, "cluster": cluster},
            "patch": {"operation": "MERGE", "value": {"connect_timeout": "1s"}},
        }

    patches = [
        cluster_patch({"portNumber": 80, "service": "web"}, {"proxyVersion": r"^1\.28"}),
        cluster_patch(cluster, {}),
    ]
    envoy_filter = {"kind": "EnvoyFilter", "metadata": {"name": "x"}, "spec": {"configPatches": patches}}
    assert len(proxy_version_breaks([envoy_filter], "1.28.3", "1.30.1", ROOT)) == count


@pytest.mark.parametrize(
    ("source", "target", "proxies", "cni", "rules"),
    [
        ((1, 28), (1, 30), {(1, 28): 5, (1, 30): 1}, (1, 30), []),
        ((1, 28), (1, 30), {}, None, []),
        ((1, 27), (1, 30), {(1, 28): 5}, None, ["skipped-minors"]),
        ((1, 28), (1, 29), {(1, 30): 5}, None, ["proxy-skew"]),
        ((1, 28), (1, 30), {(1, 24): 2, (1, 27): 3}, None, ["proxy-skew"]),
        ((1, 28), (1, 30), {}, (1, 28), ["cni-skew"]),
        ((1, 28), (1, 29), {}, (1, 30), []),
    ],
)
def test_versions_that_are_not_supported_beside_each_other(
    source: Minor, target: Minor, proxies: dict[Minor, int], cni: Minor | None, rules: list[str]
) -> None:
    assert [item.rule for item in skew_breaks(source, target, proxies, cni)] == rules


def test_defaults_that_the_new_control_plane_sets_itself_do_not_change() -> None:
    def names(istiod: dict[str, str], proxy: dict[str, str]) -> set[str]:
        return {default.variable for default in changed_defaults((1, 23), (1, 25), istiod, proxy)}

    every = {default.variable for default in DEFAULTS if (1, 23) < default.minor <= (1, 25)}
    assert names({}, {}) == every
    assert names({"ENABLE_INBOUND_RETRY_POLICY": "false"}, {}) == every - {"ENABLE_INBOUND_RETRY_POLICY"}
    assert names({}, {"ENABLE_INBOUND_RETRY_POLICY": "false"}) == every
    assert names({}, {"ENABLE_DEFERRED_STATS_CREATION": "false"}) == every - {"ENABLE_DEFERRED_STATS_CREATION"}


def test_a_default_is_not_kept_by_a_variable_that_the_new_minor_no_longer_reads() -> None:
    (default,) = (default for default in DEFAULTS if default.variable == "ENABLE_AUTO_SNI")

    assert default.remedy((1, 25)) == "keep the former one with ENABLE_AUTO_SNI=false"
    assert default.remedy((1, 26)) == "1.26 cannot keep the former one, since it no longer reads ENABLE_AUTO_SNI"


def test_variables_that_end_with_an_upgrade_are_named_with_what_they_are_about() -> None:
    own = ["ENABLE_INBOUND_RETRY_POLICY", "PILOT_ENABLE_INBOUND_PASSTHROUGH", "ANOTHER"]

    assert [str(item) for item in removed_variables((1, 26), (1, 28), own)] == [
        "variable ENABLE_INBOUND_RETRY_POLICY: Istio no longer reads it from 1.27 on (inbound requests are retried): remove it"
    ]
    assert removed_variables((1, 27), (1, 28), own) == []
    assert len(removed_variables(OLDEST, NEWEST, own)) == 2
    assert all(minor <= NEWEST for minor, _ in REMOVED.values())


@pytest.mark.parametrize(
    ("target", "kubelet", "needed"),
    [
        ((1, 30), 32, ""),
        ((1, 30), 31, "1.32"),
        ((1, 24), 27, "1.28"),
        ((1, 18), 23, "1.24"),
        ((1, 17), 23, ""),
        ((1, 12), 20, ""),
        (NEWEST, 31, "1.32"),
    ],
)
def test_a_minor_that_does_not_support_the_version_of_kubernetes(target: Minor, kubelet: int, needed: str) -> None:
    texts = [str(item) for item in kubernetes_breaks(target, kubelet)]

    assert len(texts) == bool(needed)
    assert all(f"newest kubelet is 1.{kubelet}" in item and f"{needed} and later" in item for item in texts)


@pytest.mark.parametrize(
    ("path", "source", "target", "about"),
    [
        ("containers[istio-proxy].env[GOMEMLIMIT]", (1, 17), (1, 20), "variables with the limits of the proxy"),
        ("initContainers[istio-proxy].env[GOMEMLIMIT]", (1, 19), (1, 20), "variables with the limits of the proxy"),
        ("containers[istio-proxy].env[GOMEMLIMIT]", (1, 20), (1, 28), ""),
        ("containers[istio-proxy].env[GOMEMLIMIT]", (1, 20), (1, 17), ""),
        ("containers[web].env[GOMEMLIMIT]", (1, 17), (1, 20), ""),
        ("containers[istio-proxy].env[GOMEMLIMIT_MINE]", (1, 17), (1, 20), ""),
        (
            "containers[istio-proxy].env[GOMEMLIMIT].valueFrom.resourceFieldRef.divisor",
            (1, 28),
            (1, 30),
            "variables with the limits of the proxy",
        ),
        ("spec.volumes[istio-ca-crl]", (1, 26), (1, 28), "volume istio-ca-crl"),
        ("spec.volumes[istio-ca-crl].configMap.name", (1, 26), (1, 28), ""),
        (
            "metadata.annotations[sidecar.istio.io/status].volumes",
            (1, 29),
            (1, 30),
            "the annotation sidecar.istio.io/status",
        ),
        ("metadata.annotations[mine]", (1, 10), (1, 31), ""),
        ("containers[istio-proxy].image", (1, 10), (1, 31), ""),
        ("containers[istio-proxy].args", (1, 10), (1, 31), ""),
        ("containers[istio-proxy].securityContext.privileged", (1, 10), (1, 31), ""),
    ],
)
def test_harmless_changes_of_the_templates_of_a_minor(path: str, source: Minor, target: Minor, about: str) -> None:
    assert harmless_change(path, source, target) == about

from __future__ import annotations

import json
from typing import Any

import pytest

from injector.cluster.configmaps import Found, IstioConfigMap, istio_config_map, revision_texts

NAMESPACE = "istio-system"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": NAMESPACE, "labels": {"istio.io/rev": "x"}}, "data": data}


def found(*items: dict[str, Any]) -> Found:
    """What ConfigMaps come to."""
    halves = [half for item in items if (half := istio_config_map(item)) is not None]
    return revision_texts(halves, namespace=NAMESPACE)


def pair(suffix: str = "", **data: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two ConfigMaps of a revision; keywords are further keys of the injector's."""
    return (
        config_map(f"istio-sidecar-injector{suffix}", **{"config": "c", **data}),
        config_map(f"istio{suffix}", mesh="m", meshNetworks="n"),
    )


@pytest.mark.parametrize(
    ("name", "kind", "revision"),
    [
        ("istio-sidecar-injector", "istio-sidecar-injector", "default"),
        ("istio-sidecar-injector-1-24", "istio-sidecar-injector", "1-24"),
        ("istio-sidecar-injector-default", "istio-sidecar-injector", "default"),
        ("istio", "istio", "default"),
        ("istio-1-24", "istio", "1-24"),
        ("istio-canary", "istio", "canary"),
    ],
)
def test_the_name_says_which_revision_it_is_of(name: str, kind: str, revision: str) -> None:
    half = istio_config_map(config_map(name, config="c", mesh="m"))

    assert half is not None
    assert (half.kind, half.revision, half.name) == (kind, revision, name)


@pytest.mark.parametrize(
    "other",
    [
        config_map("istio-cni-config", CNI_NETWORK_CONFIG="x"),
        config_map("istio-ca-root-cert", **{"root-cert.pem": "x"}),
        config_map("values-1-24", **{"original-values": "{}"}),
        config_map("istiod", mesh="m"),
        {"metadata": {"name": "istio-leader"}},
        {"metadata": {"name": "istio-x"}, "data": {"mesh": None}},
    ],
)
def test_other_config_maps_of_the_namespace_are_none_of_a_revision(other: dict[str, Any]) -> None:
    assert istio_config_map(other) is None


def test_a_pair_is_a_revision_with_its_keys_and_the_places_of_them() -> None:
    result = found(*pair("-1-24", values='{"a": 1}'))

    (texts,) = result.revisions
    assert (texts.name, texts.config, texts.values, texts.mesh, texts.mesh_networks) == (
        "1-24",
        "c",
        '{"a": 1}',
        "m",
        "n",
    )
    assert texts.origin == "ConfigMap istio-system/istio-sidecar-injector-1-24"
    assert texts.files == {"mesh": "ConfigMap istio-system/istio-1-24: mesh"}
    assert (texts.settings, result.failures) == ({}, {})


def test_each_revision_has_its_own_pair() -> None:
    result = found(*pair(), *pair("-1-24"), *pair("-1-30"))

    assert [texts.name for texts in result.revisions] == ["1-24", "1-30", "default"]


def test_before_istio_1_2_there_are_no_values_and_networks_may_be_absent() -> None:
    (texts,) = found(config_map("istio-sidecar-injector", config="c"), config_map("istio")).revisions

    assert (texts.values, texts.mesh, texts.mesh_networks) == (None, None, None)


@pytest.mark.parametrize(
    ("items", "name", "says"),
    [
        (
            pair("-1-24")[:1],
            "1-24",
            (
                "ConfigMap istio-system/istio-sidecar-injector-1-24: revision `1-24` has no ConfigMap istio-1-24; "
                "install istio-1-24 with label istio.io/rev, or delete istio-sidecar-injector-1-24"
            ),
        ),
        (
            pair("-1-24")[1:],
            "1-24",
            (
                "ConfigMap istio-system/istio-1-24: revision `1-24` has no ConfigMap istio-sidecar-injector-1-24; "
                "install istio-sidecar-injector-1-24 with label istio.io/rev, or delete istio-1-24"
            ),
        ),
        (pair()[1:], "default", "revision `default` has no ConfigMap istio-sidecar-injector; "),
        (
            (config_map("istio-sidecar-injector", values="{}"), pair()[1]),
            "default",
            "ConfigMap istio-system/istio-sidecar-injector: it has no key `config`; ",
        ),
        (pair(**{"revision.yaml": "- a"}), "default", "istio-sidecar-injector: revision.yaml: it is no mapping; "),
        (pair(**{"revision.yaml": "a: ["}), "default", "istio-sidecar-injector: revision.yaml"),
    ],
)
def test_what_cannot_be_read_is_a_failure_of_that_revision_alone(
    items: tuple[dict[str, Any], ...], name: str, says: str
) -> None:
    result = found(*items, *pair("-good"))

    assert [texts.name for texts in result.revisions] == ["good"]
    assert list(result.failures) == [name]
    assert says in str(result.failures[name])
    assert result.failures[name].hint


def test_of_two_for_the_default_revision_the_one_counts_that_istiod_reads() -> None:
    (texts,) = found(*pair("-default", values="other"), *pair()).revisions

    assert (texts.origin, texts.values) == ("ConfigMap istio-system/istio-sidecar-injector", None)


@pytest.mark.parametrize(
    ("values", "own", "env"),
    [
        ({"pilot": {"env": {"ENABLE_NATIVE_SIDECARS": True}}}, None, {"ENABLE_NATIVE_SIDECARS": "true"}),
        ({"pilot": {"env": {"A": "b", "N": 1, "X": {"y": 1}}}}, None, {"A": "b", "N": "1"}),
        ({"global": {"platform": "openshift"}}, None, {"PLATFORM": "openshift"}),
        ({"global": {"platform": "openshift"}, "pilot": {"env": {"PLATFORM": "x"}}}, None, {"PLATFORM": "x"}),
        ({"pilot": {"env": {"A": "b", "C": "d"}}}, "env: {A: own}", {"A": "own", "C": "d"}),
        ({"pilot": {"env": {"A": "b"}}}, "istioVersion: '1.24'", {"A": "b"}),
        ({"pilot": []}, None, None),
        ({"global": {"platform": ""}}, None, None),
        ({}, "env: {A: own}", {"A": "own"}),
    ],
)
def test_istiods_variables_are_those_of_the_values_and_then_of_revision_yaml(
    values: dict[str, Any], own: str | None, env: dict[str, str] | None
) -> None:
    extra = {"values": json.dumps(values), **({} if own is None else {"revision.yaml": own})}
    (texts,) = found(*pair(**extra)).revisions

    assert texts.settings.get("env") == env


@pytest.mark.parametrize("values", ["{", "[]", "- a"])
def test_values_that_cannot_be_read_are_left_for_the_build_to_refuse(values: str) -> None:
    (texts,) = found(*pair(values=values)).revisions

    assert (texts.values, texts.settings) == (values, {})


def test_what_is_remembered_of_a_config_map_is_what_a_revision_needs() -> None:
    half = istio_config_map(config_map("istio-sidecar-injector", config="c", other="o"))

    assert half == IstioConfigMap("istio-sidecar-injector", "default", "istio-sidecar-injector", {"config": "c"})

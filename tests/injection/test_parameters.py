from __future__ import annotations

import pytest

from injector.injection.data import cluster_envs
from injector.injection.pipeline import webhook_parameters
from injector.injection.result import RequestFacts
from injector.istio.revision import Revision, RevisionSettings, build_revision
from tests.factories import make_pod

CLUSTER = "ISTIO_META_CLUSTER_ID"
NETWORK = "ISTIO_META_NETWORK"
NETWORK_LABEL = "topology.istio.io/network"
HOLD = "defaultConfig: {holdApplicationUntilProxyStarts: true}"
HOLD_VALUES = "{global: {proxy: {holdApplicationUntilProxyStarts: true}}}"
CLUSTER_VALUES = "{global: {network: net-v, multiCluster: {clusterName: cluster-v}}}"


def _revision(version: str = "1.30", *, values: str = "{}", mesh: str | None = None) -> Revision:
    return build_revision(
        "default",
        config="{policy: enabled, templates: {sidecar: ''}}",
        values=values,
        mesh=mesh,
        settings=RevisionSettings(istio_version=version),
        origin="test",
    )


def _held(revision: Revision, annotation: str | None = None) -> bool:
    annotations = {} if annotation is None else {"proxy.istio.io/config": annotation}
    return webhook_parameters(revision, make_pod(annotations=annotations), RequestFacts()).hold_application


@pytest.mark.parametrize(
    ("mesh", "values", "annotation", "expected"),
    [
        (None, "{}", None, False),
        (HOLD, "{}", None, True),
        (None, HOLD_VALUES, None, True),
        (None, "{}", "holdApplicationUntilProxyStarts: true", True),
        (HOLD, "{}", "holdApplicationUntilProxyStarts: false", False),
        (HOLD, "{}", "concurrency: 3", True),
        (None, HOLD_VALUES, "holdApplicationUntilProxyStarts: false", True),
    ],
)
def test_the_annotation_overrides_the_mesh_but_never_the_values(
    mesh: str | None, values: str, annotation: str | None, expected: bool
) -> None:
    assert _held(_revision(values=values, mesh=mesh), annotation) is expected


@pytest.mark.parametrize(
    ("version", "by_values", "by_mesh"),
    [("1.6", False, False), ("1.7", True, False), ("1.8", True, True), ("1.9", True, True), ("1.30", True, True)],
)
def test_values_hold_the_application_since_1_7_and_the_mesh_since_1_8(
    version: str, by_values: bool, by_mesh: bool
) -> None:
    assert _held(_revision(version, values=HOLD_VALUES)) is by_values
    assert _held(_revision(version, mesh=HOLD)) is by_mesh


@pytest.mark.parametrize(
    ("values", "url", "label", "expected"),
    [
        ("{}", {}, None, {}),
        (CLUSTER_VALUES, {}, None, {CLUSTER: "cluster-v", NETWORK: "net-v"}),
        (CLUSTER_VALUES, {CLUSTER: "cluster-u"}, None, {CLUSTER: "cluster-u", NETWORK: "net-v"}),
        (CLUSTER_VALUES, {NETWORK: "net-u"}, None, {CLUSTER: "cluster-v", NETWORK: "net-u"}),
        (CLUSTER_VALUES, {NETWORK: "net-u"}, "net-l", {CLUSTER: "cluster-v", NETWORK: "net-l"}),
        (CLUSTER_VALUES, {}, "net-l", {CLUSTER: "cluster-v", NETWORK: "net-l"}),
        (CLUSTER_VALUES, {CLUSTER: "", NETWORK: ""}, None, {CLUSTER: "cluster-v", NETWORK: "net-v"}),
        ("{}", {NETWORK: "net-u"}, None, {NETWORK: "net-u"}),
        ("{}", {}, "net-l", {NETWORK: "net-l"}),
        (CLUSTER_VALUES, {}, "", {CLUSTER: "cluster-v"}),
        (CLUSTER_VALUES, {NETWORK: "net-u"}, "", {CLUSTER: "cluster-v", NETWORK: "net-u"}),
        ("{}", {"ISTIO_META_MESH_ID": "m"}, None, {"ISTIO_META_MESH_ID": "m"}),
    ],
)
def test_a_label_beats_the_url_which_beats_the_values(
    values: str, url: dict[str, str], label: str | None, expected: dict[str, str]
) -> None:
    pod = make_pod(labels=None if label is None else {NETWORK_LABEL: label})
    assert cluster_envs(_revision(values=values), pod, url) == expected


def test_the_pairs_of_the_url_are_not_changed() -> None:
    url = {"ISTIO_META_MESH_ID": "m"}
    cluster_envs(_revision(values=CLUSTER_VALUES), make_pod(), url)
    assert url == {"ISTIO_META_MESH_ID": "m"}
